"""State of the controller: ledger, log, cards, psi, operations, releases, audits.

Every function takes the transaction it works in, so that a decision, its line in the ledger and its
entry in the log become true together or not at all. Nothing here reads a record.
"""
