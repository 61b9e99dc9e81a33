"""Audit reports as pages; needs ``pip install 'gencard[report]'``.

In: reports with their numbers. Out: text, HTML and figures.
"""
