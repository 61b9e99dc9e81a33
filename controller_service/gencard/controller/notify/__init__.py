"""Notifications to stewards about waiting items, by webhook and mail; they contain only an item's kind.

In: the state. Out: messages of fixed sentences, sent by threads of their own.
"""
