"""Records in a table of a database: counted by the database, through Ibis, so that only counts leave it.

In: an address of the settings and a schema. Out: counts and codes, as from the vault.
"""
