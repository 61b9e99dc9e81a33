"""Audit reports as pages; needs ``pip install 'gencard[report]'``."""
