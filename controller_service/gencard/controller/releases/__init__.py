"""Releases: psi measured once for a card, rows generated, signed receipts, rows served.

In: an agreed card, a number of rows, a seed. Out: rows, psi and a signed receipt.
"""
