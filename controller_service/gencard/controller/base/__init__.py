"""Base of the controller: files and secrets, atomic writes, fair queues, the log of the process.

Every room may import it; it imports no other room of the controller.
"""
