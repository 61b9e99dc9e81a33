"""Boxes of known behaviour for audits and tests: honest, leaking a marginal, or copying rows."""
