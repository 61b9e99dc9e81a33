"""The sandbox: runs programs that read records, isolated, with bounded resources and one channel out.

In: a program, records, limits. Out: the rows that it wrote, or a typed error.
"""
