"""The gRPC edge: who may call what, and how every call ends.

In: protobuf messages of authenticated callers. Out: messages, or a status with a typed error.
"""
