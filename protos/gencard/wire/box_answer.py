"""Standard output of a program: progress, a header line, and rows, a fit or outputs."""

from collections.abc import Callable, Iterator, Sequence

from gencard.core.dataset import Dataset
from gencard.core.errors import (
    BlackBoxError,
    GencardError,
    InvalidDatasetError,
    InvalidInputError,
    TooLargeError,
)
from gencard.core.program_outputs import Output, Outputs, outputs_of_json, outputs_to_json
from gencard.wire.box_request import BoxRequest, columns_of, dataset_of_columns, record_bytes
from gencard.wire.signatures.canonical import Document, document_of, json_bytes

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
    """The answer to a run or a sample."""
    return b"".join((_rows_line(len(dataset)), *columns_of(dataset)))


def fit_answer(saved: bytes) -> bytes:
    """The answer to a fit."""
    return _fit_line(len(saved)) + saved


def outputs_answer(outputs: Sequence[Output]) -> bytes:
    """The answer to an analysis."""
    return fit_answer(json_bytes(outputs_to_json(outputs)))


def progress_line(hundredths: int) -> bytes:
    """Progress; any number of these may come before the answer, each higher than the last."""
    return b'{"done":%d}\n' % hundredths


def expected_line(request: BoxRequest) -> bytes:
    """The line before the rows that a request asks for."""
    return _rows_line(request.rows)


def refusal_answer(reason: str, fields: Document) -> bytes:
    """Write the answer of a built-in box that refuses to run: an error of the catalogue."""
    return json_bytes({"refused": reason, "fields": fields}) + b"\n"


def longest_answer(request: BoxRequest, most_saved: int) -> int:
    """Most bytes that can be an answer to a request; a fit has at most ``most_saved``."""
    body = most_saved
    if request.task.answers_rows:
        body = request.rows * record_bytes(request.dataset.domain)
    return _MOST_PROGRESS * len(progress_line(100)) + _LONGEST_LINE + body


class AnswerReader:
    """Reads an answer as it arrives, and rejects it at the first byte that no valid answer has.

    Progress, the fit and the codes within their domain are free; every other byte is determined. So a
    program cannot hide a message in spelling, order of attributes, digits, spaces or trailing bytes.

    Args:
        told: Hears of the progress.
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
        """The next bytes.

        Raises:
            BlackBoxError: Progress does not rise, a line is too long or none that is right, or more
                bytes follow than the line says.
        """
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
        """The rows that were asked for.

        Raises:
            BlackBoxError: The answer is anything else.
        """
        self._check(self._head == _rows_line(self._request.rows))
        try:
            return dataset_of_columns(self._whole(), self._request.dataset.domain, self._request.rows)
        except (ValueError, InvalidDatasetError):
            pass
        raise BlackBoxError(problem="its answer is not the requested number of declared codes")

    def saved(self) -> bytes:
        """The fit that was asked for; raises BlackBoxError where the answer is anything else."""
        saved = self._whole()
        self._check(self._head == _fit_line(len(saved)))
        return saved

    def outputs(self) -> Outputs:
        """Return the outputs of an analyst's program, rounded; the shape fixes all but the numbers.

        Raises:
            BlackBoxError: The answer is anything else, or has another spelling than the one.
        """
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
        """Bytes that follow the line of an answer; raises BlackBoxError where the line is wrong."""
        request = self._request
        if line.startswith(_REFUSES):
            return 0
        if request.task.answers_rows:
            self._check(line == _rows_line(request.rows))
            return request.rows * record_bytes(request.dataset.domain)
        digits = line.rpartition(b":")[2][:-2]
        length = -1  # where there is no number; it is refused below
        if digits.isdigit() and len(digits) < _LONGEST_NUMBER:
            length = int(digits)
        self._check(0 <= length <= self._most_saved and line == _fit_line(length))
        return length

    def _whole(self) -> bytes:
        return b"".join(self._body)

    def _check(self, is_right: bool) -> None:
        if not is_right:
            raise BlackBoxError(problem="its answer has no valid header")


def _rows_line(rows: int) -> bytes:
    return b'{"format":"gencard.box.v1","rows":%d}\n' % rows


def _fit_line(length: int) -> bytes:
    return b'{"format":"gencard.box.v1","saved":%d}\n' % length


def relayed() -> tuple[type[GencardError], ...]:
    """Their classes, with those below them."""
    return InvalidInputError, TooLargeError


def error_of_refusal(reason: str, fields: Document) -> GencardError:
    """The error again; that of a broken contract where none of this reason may leave."""
    kinds = {kind.reason: kind for root in relayed() for kind in _with_those_below(root)}
    try:
        return kinds[reason](**fields)
    except (KeyError, TypeError):
        return BlackBoxError(problem="it reported an error that it may not report")


def _with_those_below(kind: type[GencardError]) -> Iterator[type[GencardError]]:
    yield kind
    for lower in kind.__subclasses__():
        yield from _with_those_below(lower)
