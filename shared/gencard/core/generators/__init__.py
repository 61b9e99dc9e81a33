"""Generators that see psi only: one contract, one file for each method."""
