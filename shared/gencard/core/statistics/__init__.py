"""From records to psi, through one door: measure.py."""
