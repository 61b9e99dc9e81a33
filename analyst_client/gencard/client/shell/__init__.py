"""The analyst's and auditor's shell."""
