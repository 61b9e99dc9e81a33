"""From records to psi, through one door: measure.py.

In: records as codes, and statistics. Out: psi, consistent and with its standard deviations.
"""
