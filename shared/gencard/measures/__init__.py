"""Measures of privacy and utility: of rows, of psi, and of generators by their rows.

In: rows, psi, and records where they are allowed. Out: risks, distances and differences with precision.
"""
