"""Small counts: which ones a run's cells hold, what outputs tell of them, and what is left open."""
