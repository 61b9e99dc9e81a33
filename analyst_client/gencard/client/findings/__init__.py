"""Findings in sentences, tables, plots and pages; needs ``pip install 'gencard[report]'`` for pages.

In: reports with their numbers. Out: text, HTML and figures.
"""
