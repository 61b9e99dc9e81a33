"""Black boxes: their requests and answers, byte by byte, and for authors a Python function as a box."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isnan, nan
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from gencard.core.blackbox import BlackBox, FittingBox, in_domain
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset, row_bytes, wire_codes, wire_dtype
from gencard.core.domain import Clique, Domain
from gencard.core.errors import (
    BlackBoxError,
    GencardError,
    InvalidDatasetError,
    InvalidInputError,
    TooLargeError,
)
from gencard.core.generators.contract import rng_of
from gencard.core.program_outputs import Outputs, outputs_of_json, outputs_to_json
from gencard.core.typed_json import PLAIN
from gencard.core.types import FloatArray, Progress
from gencard.wire.canonical import Document, document_of, json_bytes

# Request to a black box on its standard input: a line of JSON, then codes (docs/authors.md).

FORMAT = "gencard.box.v1"

_LONGEST_HEADER = 1 << 24
_NUMBER = np.dtype("<f8")
_FIELDS = {"format", "task", "attributes", "records", "rows", "seed", "parameters", "workload", "values"}

Values = Mapping[str, tuple[float, ...]]
"""For each ordered attribute the number that each of its codes stands for, NaN for missing."""


StoredNumbers = Mapping[str, FloatArray]
"""For attributes with edges, the numbers of all records instead of their intervals; NaN for missing."""

NOTHING_STORED: StoredNumbers = {}


class BoxTask(StrEnum):
    """The task of a box; black boxes that do not come with Gencard only get ``RUN``.

    ``ANALYSE`` is the one task of an analyst's program, which is no box: it answers outputs.
    """

    RUN = "run"
    FIT = "fit"
    SAMPLE = "sample"
    ANALYSE = "analyse"

    @property
    def answers_rows(self) -> bool:
        return self in {BoxTask.RUN, BoxTask.SAMPLE}


_MORE = {BoxTask.SAMPLE: {"saved"}, BoxTask.ANALYSE: {"coding"}}
"""Fields that the header has for a task besides ``_FIELDS``."""


@dataclass(frozen=True, slots=True, eq=False)
class BoxRequest:
    """Everything that a black box receives.

    Args:
        dataset: The records; none of them where a fit is sampled.
        rows: How many are wanted; 0 for a fit.
        saved: The fit that is sampled; else empty.
        coding: The public schema of the attributes, for an analysis; else None.
        stored: For an analysis, numbers that its program gets in place of midpoints.
    """

    task: BoxTask
    dataset: Dataset
    rows: int
    seed: int
    parameters: Mapping[str, str] = field(default_factory=dict)
    workload: tuple[Clique, ...] = ()
    values: Values = field(default_factory=dict)
    saved: bytes = b""
    coding: Coding | None = None
    stored: StoredNumbers = field(default_factory=dict)


def bytes_of_request(request: BoxRequest) -> bytes:
    """The line and the codes, or the line and the saved fit."""
    domain = request.dataset.domain
    header: Document = {
        "format": FORMAT,
        "task": str(request.task),
        "attributes": [list(pair) for pair in zip(domain.attributes, domain.sizes, strict=True)],
        "records": len(request.dataset),
        "rows": request.rows,
        "seed": str(request.seed),
        "parameters": dict(request.parameters),
        "workload": [list(clique) for clique in request.workload],
        "values": {
            name: [None if isnan(value) else value for value in values]
            for name, values in request.values.items()
        },
    }
    if request.task is BoxTask.SAMPLE:
        header["saved"] = len(request.saved)
    if request.task is BoxTask.ANALYSE:
        header["coding"] = PLAIN.write(request.coding)
    if request.stored:
        header["stored"] = sorted(request.stored)
    numbers = (request.stored[name].astype(_NUMBER).tobytes() for name in sorted(request.stored))
    return b"".join((json_bytes(header), b"\n", *columns_of(request.dataset), *numbers, request.saved))


def read_request(stream: BinaryIO) -> BoxRequest:
    """Read the request from a standard input; raises InvalidInputError if it is none, or cut short."""
    header = document_of(stream.readline(_LONGEST_HEADER), "request")
    try:
        task, saved = BoxTask(header["task"]), b""
        stored_fields = header.keys() & {"stored"} if task is BoxTask.ANALYSE else set()
        expected = _FIELDS | _MORE.get(task, set()) | stored_fields
        if header["format"] != FORMAT or header.keys() != expected:
            raise ValueError("another format")
        domain = Domain.of({str(name): int(size) for name, size in header["attributes"]})
        records = int(header["records"])
        codes = _exactly(stream, records * row_bytes(domain))
        if task is BoxTask.SAMPLE:
            saved = _exactly(stream, int(header["saved"]))
        numbers = {
            str(name): np.frombuffer(_exactly(stream, records * _NUMBER.itemsize), _NUMBER)
            for name in header.get("stored", ())
        }
        return BoxRequest(
            task,
            dataset_of_columns(codes, domain, records),
            int(header["rows"]),
            int(header["seed"]),
            {str(name): str(value) for name, value in header["parameters"].items()},
            tuple(tuple(map(str, clique)) for clique in header["workload"]),
            {
                str(name): tuple(nan if value is None else float(value) for value in values)
                for name, values in header["values"].items()
            },
            saved,
            PLAIN.read(Coding, header["coding"], field="coding") if task is BoxTask.ANALYSE else None,
            numbers,
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError, GencardError):
        pass
    raise InvalidInputError(field="request", problem=f"is not in format {FORMAT}")


def columns_of(dataset: Dataset) -> Iterator[bytes]:
    """Codes of one attribute after the other: one byte up to 256 levels, else two, little-endian."""
    for axis, size in enumerate(dataset.domain.sizes):
        yield wire_codes(dataset.codes[:, axis], size).tobytes()


def dataset_of_columns(data: bytes, domain: Domain, rows: int) -> Dataset:
    """The records whose codes these bytes are.

    Raises InvalidDatasetError for a code outside its domain, ValueError for fewer or more bytes.
    """
    columns, start = [], 0
    for size in domain.sizes:
        wire = wire_dtype(size)
        columns.append(np.frombuffer(data, dtype=wire, count=rows, offset=start))
        start += rows * wire.itemsize
    if start != len(data):
        raise ValueError("more bytes than codes")
    return Dataset.of_columns(domain, columns)


def _exactly(stream: BinaryIO, length: int) -> bytes:
    data = stream.read(max(length, 0))
    if length < 0 or len(data) != length:
        raise ValueError("cut short")
    return data


# Standard output of a program: progress, a header line, and rows, a fit or outputs.

_LONGEST_LINE = 4_096
_LONGEST_NUMBER = 20
"""Digits."""

_MOST_PROGRESS = 101
"""Lines of progress, in hundredths that rise."""

_REFUSES = b'{"fields":'
"""Opening of the line of a refusal."""

HundredthsReport = Callable[[int], None]
"""Called with the hundredths done."""


def rows_answer(dataset: Dataset) -> bytes:
    return b"".join((rows_line(len(dataset)), *columns_of(dataset)))


def fit_answer(saved: bytes) -> bytes:
    """A fit; or the outputs of a program, as JSON."""
    return _fit_line(len(saved)) + saved


def progress_line(hundredths: int) -> bytes:
    """Progress; any number of these may come before the answer, each higher than the last."""
    return b'{"done":%d}\n' % hundredths


def refusal_answer(reason: str, fields: Document) -> bytes:
    """Write the answer of a built-in box that refuses to run: an error of the catalogue."""
    return json_bytes({"refused": reason, "fields": fields}) + b"\n"


def longest_answer(request: BoxRequest, most_saved: int) -> int:
    """Most bytes that can be an answer to a request; a fit has at most ``most_saved``."""
    body = most_saved
    if request.task.answers_rows:
        body = request.rows * row_bytes(request.dataset.domain)
    return _MOST_PROGRESS * len(progress_line(100)) + _LONGEST_LINE + body


class AnswerReader:
    """Reads an answer as it arrives, and rejects it at the first byte that no valid answer has.

    Progress, the fit and the codes within their domain are free; every other byte is determined. So a
    program cannot hide a message in spelling, order of attributes, digits, spaces or trailing bytes.

    Args:
        most_saved: Bytes that a fit may have.
    """

    def __init__(
        self, request: BoxRequest, report: HundredthsReport, *, most_saved: int = 1 << 28
    ) -> None:
        self._request, self._report, self._most_saved = request, report, most_saved
        self._line, self._head = bytearray(), b""
        self._body: list[bytes] = []
        self._left = 0
        self._done = -1

    def feed(self, data: bytes) -> None:
        """Take the next bytes; raises BlackBoxError at the first that no valid answer has."""
        while data and not self._head:
            end = data.find(b"\n") + 1 or len(data)
            self._line += data[:end]
            data = data[end:]
            if len(self._line) > _LONGEST_LINE:
                raise BlackBoxError(problem="its answer has no valid header")
            if self._line.endswith(b"\n"):
                self._take(bytes(self._line))
                self._line.clear()
        self._body.append(data)
        self._left -= len(data)
        if self._left < 0:
            raise BlackBoxError(problem="its answer is too long")

    def rows(self) -> Dataset:
        """The rows that were asked for; raises BlackBoxError if the answer is anything else."""
        self._check(self._head == rows_line(self._request.rows))
        try:
            body, domain = b"".join(self._body), self._request.dataset.domain
            return dataset_of_columns(body, domain, self._request.rows)
        except (ValueError, InvalidDatasetError):
            pass
        raise BlackBoxError(problem="its answer is not the requested number of declared codes")

    def saved(self) -> bytes:
        """The fit that was asked for; raises BlackBoxError where the answer is anything else."""
        saved = b"".join(self._body)
        self._check(self._head == _fit_line(len(saved)))
        return saved

    def outputs(self) -> Outputs:
        """The outputs of a program, rounded; raises BlackBoxError unless spelt in their one form."""
        data = self.saved()
        try:
            outputs = outputs_of_json(document_of(data, "outputs"))
            if json_bytes(outputs_to_json(outputs)) == data:
                return tuple(output.rounded() for output in outputs)
        except GencardError:
            pass
        raise BlackBoxError(problem="its answer holds no valid outputs")

    def refusal(self) -> tuple[str, Document] | None:
        """Reason and fields, where the answer is a refusal."""
        if not self._head.startswith(_REFUSES):
            return None
        refusal = document_of(self._head, "answer")
        fields, reason = refusal.get("fields"), refusal.get("refused")
        return (reason, fields) if isinstance(reason, str) and isinstance(fields, dict) else None

    def _take(self, line: bytes) -> None:
        if not line.startswith(b'{"done":'):
            self._head, self._left = line, self._announced(line)
            return
        hundredths = int(line[8:-2]) if line[8:-2].isdigit() else -1
        if line != progress_line(hundredths) or not self._done < hundredths <= 100:
            raise BlackBoxError(problem="its progress does not increase")
        self._done = hundredths
        self._report(hundredths)

    def _announced(self, line: bytes) -> int:
        """Bytes that follow the line of an answer."""
        request = self._request
        if line.startswith(_REFUSES):
            return 0
        if request.task.answers_rows:
            self._check(line == rows_line(request.rows))
            return request.rows * row_bytes(request.dataset.domain)
        digits = line.rpartition(b":")[2][:-2]
        length = -1  # where there is no number; it is refused below
        if digits.isdigit() and len(digits) < _LONGEST_NUMBER:
            length = int(digits)
        self._check(0 <= length <= self._most_saved and line == _fit_line(length))
        return length

    def _check(self, is_right: bool) -> None:
        if not is_right:
            raise BlackBoxError(problem="its answer has no valid header")


def rows_line(rows: int) -> bytes:
    """The line before so many rows."""
    return b'{"format":"gencard.box.v1","rows":%d}\n' % rows


def _fit_line(length: int) -> bytes:
    return b'{"format":"gencard.box.v1","saved":%d}\n' % length


_RELAYED = (InvalidInputError, TooLargeError)
"""Classes of errors that a built-in box may report, with those below them."""


def error_of_refusal(reason: str, fields: Document) -> GencardError:
    """The error again; that of a broken contract where none of this reason may leave."""
    kinds = {kind.reason: kind for root in _RELAYED for kind in _with_those_below(root)}
    try:
        return kinds[reason](**fields)
    except (KeyError, TypeError):
        return BlackBoxError(problem="it reported an error that it may not report")


def _with_those_below(kind: type[GencardError]) -> Iterator[type[GencardError]]:
    yield kind
    for lower in kind.__subclasses__():
        yield from _with_those_below(lower)


# For authors: a Python function as a black box, in a script or in the process at hand.


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The records that a box is given, and the card's parameters and cliques.

    Args:
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
        """Rows of the table's domain, random by the seed; raises BlackBoxError for other output."""
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
        except _RELAYED as error:
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
