"""Answers: analyses of psi or of records, with the names of statsmodels; tables, figures, files."""
