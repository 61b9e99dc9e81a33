"""Analyses of tables of counts: contingency, groups, correlations, components, classifiers."""
