"""Canonical JSON, identities, and signatures over statements (DSSE)."""
