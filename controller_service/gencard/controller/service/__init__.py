"""The gRPC edge: who may call what, and how every call ends."""
