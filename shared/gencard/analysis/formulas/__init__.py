"""Formulas as in R: read, and turned into the columns of a model matrix; none of their text is run."""
