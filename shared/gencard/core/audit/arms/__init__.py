"""The arms of an audit: each runs the black box on chosen datasets and tests one kind of leak.

In: a black box and a pair or planted records. Out: p-values and power by arm.
"""
