"""Audits on the controller: requested, run, resumed, pooled by family of black boxes."""
