"""What holds for all tests."""

import os

# A console takes its width when it is made, and the processes of a parallel run are told one.
os.environ.pop("COLUMNS", None)
