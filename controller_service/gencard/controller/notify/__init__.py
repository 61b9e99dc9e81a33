"""Word to stewards that something waits, by webhook and mail; what waits is never said, only its kind.

In: the state. Out: messages of fixed sentences, sent by threads of their own.
"""
