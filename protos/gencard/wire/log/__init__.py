"""The transparency log: its Merkle tree, entries and proofs."""
