"""Disclosure risk in tables: attribute disclosure and replicated unique records."""
