"""The stewards' page: what waits and what it would release, decided by stewards with passkeys.

In: browsers on loopback. Out: what the desk shows; started where the settings have a table ``[page]``.
"""
