"""Utility for prediction: models trained on synthetic rows, tested on records."""
