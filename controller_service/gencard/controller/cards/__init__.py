"""Cards on the controller: proposals judged, offers signed, cards stored.

In: proposals. Out: cards with price, offer and history, each step with its entry in the log.
"""
