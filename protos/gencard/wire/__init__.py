"""The wire: the only room that knows protobuf and the core. Pairs of functions, exact to the byte."""
