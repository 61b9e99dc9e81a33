"""The transparency log: its Merkle tree, entries and proofs.

In: entries. Out: proofs that an entry is in a log, and that a log only grew.
"""
