"""Signed documents: cards, psi, receipts, key histories, enrolment.

In: types of the core. Out: canonical JSON bytes, and back.
"""
