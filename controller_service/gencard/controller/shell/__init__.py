"""``gencard-controller``: the steward's shell."""
