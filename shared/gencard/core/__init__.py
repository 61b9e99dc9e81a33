"""The numpy core: statistics, generators and the audit.

In: arrays, declared domains, random generators. Out: arrays and frozen values. No network, no disk,
no clock.
"""
