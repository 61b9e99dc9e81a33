"""The form in which the output of a black box may leave, and nothing else may."""

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError


def canonicalise(output: object, domain: Domain, rows: int, *, rng: np.random.Generator) -> Dataset:
    """The same records in the declared domain, attributes in its order, rows in random order.

    What a box could hide in the order of rows or attributes, in their number, or in anything that is
    not a declared code is gone. What it hides in the distribution of the records stays: that is
    what audits are for.

    Raises:
        BlackBoxError: Not a dataset, other attributes or sizes, or another number of rows.
    """
    checked = in_domain(output, domain, rows)
    return checked.take(rng.permutation(rows))


def in_domain(output: object, domain: Domain, rows: int) -> Dataset:
    """A fresh dataset of the codes alone, attributes in the domain's order, rows as they came.

    Raises:
        BlackBoxError: As for ``canonicalise``.
    """
    if not isinstance(output, Dataset):
        raise BlackBoxError(problem="its output is not a dataset")
    declared = dict(zip(domain.attributes, domain.sizes, strict=True))
    if dict(zip(output.domain.attributes, output.domain.sizes, strict=True)) != declared:
        raise BlackBoxError(problem="its output does not have the declared domain")
    if len(output) != rows:
        raise BlackBoxError(problem="its output does not have the requested number of rows")
    return Dataset(domain, output.codes[:, list(output.domain.axes(domain.attributes))])
