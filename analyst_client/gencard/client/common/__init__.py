"""Common parts of the client, used by every room: checked arguments, panels and tables, files of rows.

In: arguments of callers and files of people. Out: checked values, codes of rows, tables for shells and
notebooks.
"""
