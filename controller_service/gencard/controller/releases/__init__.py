"""Releases: psi measured once for a card, rows generated, signed receipts, rows served."""
