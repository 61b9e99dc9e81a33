"""Distances from synthetic rows to records: Gower, distance to closest record, holdout share.

In: two tables of records. Out: distances, and shares with their confidence intervals.
"""
