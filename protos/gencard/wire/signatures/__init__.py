"""Canonical JSON, identities, and signatures over statements (DSSE).

In: documents and keys. Out: signed envelopes, and their content once it was verified.
"""
