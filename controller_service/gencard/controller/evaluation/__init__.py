"""Evaluation of releases at the records: requested, run once for a card, charged, rounded."""
