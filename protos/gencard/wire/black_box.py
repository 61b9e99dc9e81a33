"""For authors: a Python function as a black box, in a script or in the process at hand."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from gencard.core.blackbox import in_domain
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import BlackBoxError, InvalidDatasetError
from gencard.core.generators.contract import rng_of
from gencard.wire.box_answer import rows_answer
from gencard.wire.box_request import BoxTask, Values, read_request


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The records that a box is given, and what it may know of them besides.

    Args:
        parameters: As the card names them.
        workload: The cliques of the card.
        values: For ordered attributes, the number that each code stands for, NaN for missing.
    """

    dataset: Dataset
    parameters: Mapping[str, str] = field(default_factory=dict)
    workload: tuple[Clique, ...] = ()
    values: Values = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def domain(self) -> Domain:
        return self.dataset.domain

    def column(self, attribute: str) -> NDArray[Any]:
        """Codes of one attribute, shape ``(n,)``."""
        return self.dataset.column(attribute)


class Author(Protocol):
    """What is decorated: so many rows, as a dataset or as codes of each attribute by name."""

    def __call__(
        self, table: Table, rows: int, /, *, rng: np.random.Generator
    ) -> Dataset | Mapping[str, NDArray[Any]]: ...


@dataclass(frozen=True, slots=True)
class PythonBox:
    """A black box around an author's function; see ``core.blackbox.contract.BlackBox``."""

    function: Author

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        return self.answer(Table(dataset), rows, seed=seed)

    def answer(self, table: Table, rows: int, *, seed: int) -> Dataset:
        """Rows of the table's domain; all randomness is that of the seed.

        Raises:
            BlackBoxError: The function gave something else.
        """
        output = self.function(table, rows, rng=rng_of(seed))
        return in_domain(_as_dataset(output, table.domain), table.domain, rows)

    def main(self) -> None:
        """Answer the request on standard input, on standard output; what is printed goes nowhere."""
        answering = _claim_stdout()
        request = read_request(sys.stdin.buffer)
        if request.task is not BoxTask.RUN:
            raise BlackBoxError(problem="it supports the task run only")
        table = Table(request.dataset, request.parameters, request.workload, request.values)
        with answering:
            answering.write(rows_answer(self.answer(table, request.rows, seed=request.seed)))


def black_box(function: Author) -> PythonBox:
    """Make a function a black box.

    >>> @black_box
    ... def resample(table, rows, *, rng):
    ...     return table.dataset.take(rng.integers(len(table), size=rows))
    >>> # resample.main()    as the last line of the script
    """
    return PythonBox(function)


def _as_dataset(output: object, domain: Domain) -> object:
    if not isinstance(output, Mapping):
        return output
    if output.keys() != set(domain.attributes):
        raise BlackBoxError(problem="its output does not have the declared domain")
    try:
        return Dataset.of_columns(domain, [np.asarray(output[name]) for name in domain.attributes])
    except InvalidDatasetError:
        raise BlackBoxError(
            problem="its output is not one declared code for each row and attribute"
        ) from None


def _claim_stdout() -> BinaryIO:
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return channel
