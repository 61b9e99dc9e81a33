"""Generators that read records: none is trusted, all are audited."""
