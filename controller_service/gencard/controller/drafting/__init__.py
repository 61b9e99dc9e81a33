"""Drafts of ``init`` and ``dataset add``: a first look at records, then a schema and settings to edit.

In: a file or table of records and a steward's answers. Out: texts of settings and of a schema. Only the
shell imports it, so a running service never takes a first look at records.
"""
