"""The records: their schema, encoding, versions, and the vault, the only room that reads them.

In: settings and a schema. Out: counts and codes; no record leaves the jobs that read them.
"""
