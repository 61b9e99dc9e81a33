"""The stewards' desk: the one door for all that stewards see and decide.

In: authenticated identities and actions. Out: views, and decisions in the log before their effect.
"""
