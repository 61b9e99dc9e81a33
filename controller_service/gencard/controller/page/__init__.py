"""The stewards' page: waiting items and what they would release, decided by stewards with passkeys.

In: browsers on loopback. Out: pages with results of the desk; started if the settings have ``[page]``.
"""
