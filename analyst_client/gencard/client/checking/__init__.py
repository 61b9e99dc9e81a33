"""Checks of the client: signatures, key history, log, receipts, replay.

In: signed documents and rows as they were received. Out: what agrees and what was not checked, or a
typed error that names the difference.
"""
