"""Black boxes that come with Gencard: synthesizers that read records.

In: records, options, a seed. Out: synthetic rows. None is trusted: each runs in the sandbox, and is
audited or carries a differential privacy guarantee.
"""
