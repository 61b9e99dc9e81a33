"""Utility of synthetic data: tables, fidelity to psi, propensity scores and predictions."""
