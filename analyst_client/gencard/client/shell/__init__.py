"""The analyst's and auditor's shell.

In: arguments. Out: tables on the screen, JSON where asked for, exit codes.
"""
