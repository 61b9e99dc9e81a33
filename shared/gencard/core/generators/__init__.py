"""Generators that see psi only: one contract, one file for each method.

In: psi, a number of rows, a seed. Out: rows, byte for byte the same at each replay.
"""
