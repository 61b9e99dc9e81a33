"""Backups of the state, made while it is served, and their restoration after stewards approved it.

In: the state. Out: a folder with digests; a restored state whose budgets stay spent.
"""
