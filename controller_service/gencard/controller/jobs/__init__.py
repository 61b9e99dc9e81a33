"""Work in separate processes, bounded and killable, that never share memory with the gRPC service.

In: a task and its description in JSON. Out: progress, then a result or a typed error in JSON.
"""
