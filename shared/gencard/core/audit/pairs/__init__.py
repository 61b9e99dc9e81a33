"""Pairs of datasets on which all released statistics agree and a leaking generator would differ.

In: a domain and the released marginals. Out: extremal pairs, planted cubes, test directions.
"""
