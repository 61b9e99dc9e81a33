"""Attacks on synthetic rows: membership, linkability, singling out and inference.

In: synthetic rows and what an attacker knows. Out: success rates beside those of guessing.
"""
