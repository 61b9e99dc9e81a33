"""Files of records beside the repository, as datasets."""

import csv

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from tests.shared_data import oracle_file


def read(name):
    """The rows of a file; a missing value is empty."""
    with oracle_file(name).open(newline="") as file:
        return [
            {name: "" if value == "nan" else value for name, value in row.items()}
            for row in csv.DictReader(file)
        ]


def coded(*files):
    """One dataset for each file, all on the levels that occur in any; empty is a level."""
    rows = [read(file) for file in files]
    names = tuple(rows[0][0])
    levels = {name: sorted({row[name] for file in rows for row in file}) for name in names}
    domain = Domain.of({name: len(levels[name]) for name in names})
    return [
        Dataset(domain, np.array([[levels[name].index(row[name]) for name in names] for row in file]))
        for file in rows
    ]
