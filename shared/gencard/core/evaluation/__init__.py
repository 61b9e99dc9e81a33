"""Risk and utility of a release: which evaluations exist, what they need and cost, and their numbers."""
