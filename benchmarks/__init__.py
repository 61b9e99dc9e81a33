"""Benchmarks: each module is run with ``python -m benchmarks.NAME`` and judges its own targets."""
