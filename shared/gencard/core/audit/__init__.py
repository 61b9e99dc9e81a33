"""Audits of black boxes from their outputs alone: does a box use more of a dataset than Phi."""
