"""Distances from synthetic rows to records: Gower, distance to closest record, holdout share."""
