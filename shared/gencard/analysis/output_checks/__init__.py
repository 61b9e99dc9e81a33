"""Output checks: which numbers about records may leave, by the rules of secure data centres (ACRO).

In: an analysis and its records. Out: a verdict for each number, without any number of the records.
"""
