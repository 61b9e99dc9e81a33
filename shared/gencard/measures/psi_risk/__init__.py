"""Risk of psi: what the released tables reveal about records by themselves, before any row is made.

In: exact tables of all cards together, and the records they count. Out: numbers for stewards alone.
"""
