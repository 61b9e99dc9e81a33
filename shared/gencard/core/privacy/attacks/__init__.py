"""Attacks on synthetic rows: membership, linkability, singling out and inference."""
