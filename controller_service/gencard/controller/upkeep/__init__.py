"""Upkeep: backup, restoration, health, readiness, logs and retention.

In: the state and the settings. Out: copies, checks and entries of the log.
"""
