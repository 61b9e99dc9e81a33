"""Answers from marginals: regressions, tables and tests, exactly as on the coded records."""
