"""What a proposal may ask for: rules, quotas and limits that stewards set.

In: a proposal and what was granted before. Out: the nearest terms that are allowed, with reasons.
"""
