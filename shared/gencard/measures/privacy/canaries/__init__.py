"""Canary records: empirical lower bounds of epsilon from repeated or single runs.

In: a mechanism and canaries. Out: a lower bound on epsilon with its confidence.
"""
