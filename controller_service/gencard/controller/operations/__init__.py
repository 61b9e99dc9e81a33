"""Long-running operations: queued by turns, run, watched, cancelled, resumed after a crash.

In: requests that take long. Out: progress and an answer, or a typed error.
"""
