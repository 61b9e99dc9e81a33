"""The wire: the only room that knows protobuf and the core.

In: values of the core. Out: messages and documents, exact to the byte, and back.
"""
