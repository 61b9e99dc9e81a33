"""Protobuf messages from and to the types of the core.

In: messages. Out: validated values, and back.
"""
