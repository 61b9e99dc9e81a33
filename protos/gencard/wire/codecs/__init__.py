"""Protobuf messages from and to the types of the core."""
