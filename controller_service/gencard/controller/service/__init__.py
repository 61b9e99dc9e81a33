"""The gRPC edge: access to methods, and the end of every call.

In: protobuf messages of authenticated callers. Out: messages, or a status with a typed error.
"""
