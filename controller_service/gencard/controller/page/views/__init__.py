"""Views of the stewards' page, by subject: from a request and the desk to what a template shows.

In: a signed-in steward. Out: what the desk gives, arranged; nothing here reads the state.
"""
