"""Canary records: empirical lower bounds of epsilon from repeated or single runs."""
