"""Measures of the source tree, the map of its packages, and the files that one call runs."""
