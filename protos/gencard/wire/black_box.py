"""For authors: a Python function as a black box, in a script or in the process at hand."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from gencard.core.blackbox import BlackBox, FittingBox, in_domain
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import BlackBoxError, InvalidDatasetError
from gencard.core.generators.contract import rng_of
from gencard.core.types import Progress
from gencard.wire.box_answer import fit_answer, progress_line, refusal_answer, relayed, rows_answer
from gencard.wire.box_request import BoxRequest, BoxTask, Values, read_request


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
    """Function of an author: returns ``rows`` rows, as a dataset or as codes by attribute."""

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
        output = _as_dataset(self.function(table, rows, rng=rng_of(seed)), table.domain, rows)
        return in_domain(output, table.domain, rows)

    def main(self) -> None:
        """Answer the request on standard input, on standard output; what is printed goes nowhere."""
        channel = claim_stdout()
        request = read_request(sys.stdin.buffer)
        if request.task is not BoxTask.RUN:
            raise BlackBoxError(problem="it supports the task run only")
        table = Table(request.dataset, request.parameters, request.workload, request.values)
        with channel:
            channel.write(rows_answer(self.answer(table, request.rows, seed=request.seed)))


def black_box(function: Author) -> PythonBox:
    """Make a function a black box.

    >>> @black_box
    ... def resample(table, rows, *, rng):
    ...     return table.dataset.take(rng.integers(len(table), size=rows))
    >>> # resample.main()    as the last line of the script
    """
    return PythonBox(function)


def serve(make: Callable[[BoxRequest], BlackBox]) -> None:
    """Answer one request of any task with a box made for it; a built-in box does.

    Errors of its public input are answered as refusals, which the controller relays for built-in boxes.
    """
    channel = claim_stdout()
    request = read_request(sys.stdin.buffer)
    with channel:
        try:
            channel.write(_answer(make(request), request, _progress_to(channel)))
        except relayed() as error:
            channel.write(refusal_answer(error.reason, error.fields))


def _answer(box: BlackBox, request: BoxRequest, progress: Progress) -> bytes:
    if request.task is BoxTask.RUN:
        return rows_answer(box(request.dataset, request.rows, seed=request.seed))
    if not isinstance(box, FittingBox):
        raise BlackBoxError(problem="its fit cannot be saved")
    if request.task is BoxTask.FIT:
        return fit_answer(box.fit(request.dataset, seed=request.seed, progress=progress).save())
    return rows_answer(box.load(request.saved).sample(request.rows, seed=request.seed))


def _progress_to(channel: BinaryIO) -> Progress:
    reported = -1

    def report(_stage: str, fraction: float) -> None:
        nonlocal reported
        hundredths = min(100, int(100 * fraction))
        if hundredths > reported:
            reported = hundredths
            channel.write(progress_line(hundredths))
            channel.flush()

    return report


_NO_CODES = "its output is not one declared code for each row and attribute"


def _as_dataset(output: object, domain: Domain, rows: int) -> Dataset:
    """The output as a dataset of so many rows; raises BlackBoxError with the first fault."""
    if isinstance(output, Mapping):
        if output.keys() != set(domain.attributes):
            lacks = [name for name in domain.attributes if name not in output]
            extra = [name for name in output if name not in domain.attributes]
            what = f"lacks '{lacks[0]}'" if lacks else f"has '{extra[0]}', which is no attribute"
            raise BlackBoxError(problem=f"its output does not have the declared domain: it {what}")
        columns = {name: np.asarray(output[name]) for name in domain.attributes}
        for (name, codes), size in zip(columns.items(), domain.sizes, strict=True):
            if fault := _fault(codes, size, rows):
                raise BlackBoxError(problem=f"{_NO_CODES}: '{name}' {fault}")
        try:
            return Dataset.of_columns(domain, list(columns.values()))
        except InvalidDatasetError:
            raise BlackBoxError(problem=_NO_CODES) from None
    if not isinstance(output, Dataset):
        problem = f"its output is not a dataset, nor codes by attribute, but {type(output).__name__}"
        raise BlackBoxError(problem=problem)
    if len(output) != rows:
        problem = f"its output does not have the requested number of rows: {len(output)}, not {rows}"
        raise BlackBoxError(problem=problem)
    return output


def _fault(codes: NDArray[Any], size: int, rows: int) -> str:
    """The fault of the codes of an attribute; empty if they have none."""
    if codes.shape != (rows,):
        return f"has shape {codes.shape}, not ({rows},)"
    if codes.dtype.kind not in "iu":
        if codes.dtype.kind == "f" and np.isnan(codes).any():
            return "holds NaN; codes are whole numbers, and a missing value has a code of its own"
        return f"has dtype {codes.dtype}; codes are whole numbers"
    wrong = codes[(codes < 0) | (codes >= size)]
    if len(wrong):
        return f"holds {wrong[0]}; its codes are 0 to {size - 1}"
    return ""


def claim_stdout() -> BinaryIO:
    """The channel of the answer; what a library prints from now on must not become part of it."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return channel
