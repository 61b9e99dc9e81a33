"""Utility of tables: distances between counts of original and synthetic records."""
