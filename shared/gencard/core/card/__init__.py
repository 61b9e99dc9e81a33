"""The generator card: its terms, its price, its states and the steps between them.

In: proposals and counter-offers. Out: the card in its next state, or a typed error.
"""
