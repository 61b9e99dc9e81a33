"""The report on a card: what is known of it, gathered, and its page.

In: an agreed card and the findings on it. Out: one report, with its page in HTML.
"""
