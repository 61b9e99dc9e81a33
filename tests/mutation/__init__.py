"""Mutation check: 60 deliberate defects, ten in each of six rooms; the tests must notice at least 57.

In: the source as it stands. Out: for each mutant whether its tests killed it. Run it by
``python -m tests.mutation``; ``tests/test_mutation.py`` keeps the list up to date with the source.
"""
