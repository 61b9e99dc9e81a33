"""Settings: TOML files, checked before anything starts, and drafted by ``init``.

In: files that stewards write. Out: validated settings, or the field that is wrong.
"""
