"""Upkeep: backup, restoration, health, readiness, logs and retention."""
