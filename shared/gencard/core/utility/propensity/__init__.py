"""Propensity scores: how well a model tells records and synthetic rows apart."""
