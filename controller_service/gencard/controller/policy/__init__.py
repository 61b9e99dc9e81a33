"""Rules, quotas and limits that stewards set for proposals.

In: a proposal and the earlier grants. Out: the nearest terms that are allowed, with reasons.
"""
