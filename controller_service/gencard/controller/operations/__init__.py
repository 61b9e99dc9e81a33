"""Long-running operations: queued by turns, run, watched, cancelled, resumed after a crash."""
