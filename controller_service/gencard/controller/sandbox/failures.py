"""Why a program failed on made-up records: in words for its author, with what it wrote itself.

The program is run once more with the same request, and its standard error is kept. Runs that succeed are
not observed, so a program cannot tell a lent run from one at the records by its descriptors. At the
records no program is observed, and nothing that it writes or does reaches anybody.
"""

import signal
from collections import deque
from dataclasses import dataclass, field
from typing import IO

import numpy as np

from gencard.controller.sandbox.limits import SandboxLimits
from gencard.core.dataset import code_dtype
from gencard.core.errors import BlackBoxError, GencardError, JobLimitError
from gencard.wire.box_answer import AnswerReader, expected_line
from gencard.wire.box_request import BoxRequest

MOST_WRITTEN = 1 << 16
"""Bytes of standard error that are kept, from the end: there a traceback says what went wrong."""

_AT_ONCE = 1 << 14
_SHOWN = 60
"""Characters of an answer that are quoted."""


@dataclass(slots=True)
class Observed:
    """What a program did in a run on made-up records.

    Args:
        answer: Bytes on standard output.
        written: Bytes on standard error, the last ``MOST_WRITTEN``.
        code: Exit code, negative for a signal; None where it was ended.
        error: Why it was ended, or what is wrong with its answer; None where nothing is.
    """

    answer: bytes = b""
    code: int | None = None
    error: GencardError | None = None
    _parts: deque[bytes] = field(default_factory=deque)

    def read(self, pipe: IO[bytes]) -> None:
        """Read a pipe to its end."""
        kept = 0
        while data := pipe.read1(_AT_ONCE):  # type: ignore[attr-defined]  # of a buffered reader
            self._parts.append(data)
            kept += len(data)
            while kept - len(self._parts[0]) >= MOST_WRITTEN:
                kept -= len(self._parts.popleft())

    @property
    def written(self) -> bytes:
        return b"".join(self._parts)[-MOST_WRITTEN:]


def explained(
    observed: Observed, request: BoxRequest, limits: SandboxLimits
) -> tuple[GencardError, str]:
    """The error of a run on made-up records with its cause and what to do, and what the program wrote.

    The cause is a limit, the end of the process, or the first fault of the answer.
    """
    written = observed.written.decode(errors="replace")
    if isinstance(observed.error, JobLimitError):
        return _limit_error(observed.error, limits), written
    problem, advice = _cause(observed, request, limits, written)
    if written.strip():
        advice += " Below is what the program wrote to standard error."
    return BlackBoxError(problem=problem, advice=advice), written


def _limit_error(error: JobLimitError, limits: SandboxLimits) -> JobLimitError:
    """The same error, with the limit and the key that sets it."""
    what = error.fields["what"]
    for begin, value, key in (
        ("time", f"{limits.wall_seconds} s", "wall_seconds"),
        ("CPU time", f"{limits.cpu_seconds} s", "cpu_seconds"),
        ("memory", f"{limits.memory_mib} MiB", "memory_mib"),
    ):
        if what.startswith(begin):
            advice = (
                f"The limit is {value}. Look for a loop without end, use fewer records, or make the"
                f" program cheaper; or ask the steward to raise {key} in the black box's limits."
            )
            return JobLimitError(what=what, advice=advice)
    return error


def _cause(
    observed: Observed, request: BoxRequest, limits: SandboxLimits, written: str
) -> tuple[str, str]:
    if observed.code:
        return _end(observed.code), _advice_on(written, limits)
    if observed.error is None:
        return (
            "it failed once and succeeded with the same seed when it was run again",
            "Take all randomness from the seed, and depend on nothing else, such as time.",
        )
    expected = expected_line(request)
    if observed.code is None:
        return observed.error.fields["problem"], (
            f"Write a header of {len(expected)} bytes and the codes of {request.rows} rows to standard"
            " output, close it, and end."
        )
    if not observed.answer:
        return (
            "it ended with exit code 0 and wrote no answer",
            "In Python end the script with NAME.main(), where NAME is the decorated function, and do not"
            " call exit or os._exit before; in other languages write the header line and the codes.",
        )
    return _fault_of_answer(observed.answer, request) or (
        observed.error.fields["problem"],
        "Correct the program.",
    )


def _fault_of_answer(answer: bytes, request: BoxRequest) -> tuple[str, str] | None:
    expected = expected_line(request)
    line, body = _split(answer)
    if line != expected:
        return (
            f"its answer begins with {_quoted(line)} in place of {_quoted(expected)}",
            "Write nothing else to standard output: in Python print only after NAME.main() has begun, or"
            " to sys.stderr.",
        )
    if wrong := _wrong_code(body, request):
        return wrong, "Give whole numbers from 0 to one less than the size of the attribute."
    return None


def _split(answer: bytes) -> tuple[bytes, bytes]:
    """The header line after all lines of progress, and the codes."""
    line, end, body = answer.partition(b"\n")
    while line.startswith(b'{"done":') and end:
        line, end, body = body.partition(b"\n")
    return line + end, body


def _quoted(line: bytes) -> str:
    text = line.decode(errors="replace").rstrip("\n")
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _end(code: int) -> str:
    """How a process ended that did not end well."""
    if code < 0 or code > 128:
        number = -code if code < 0 else code - 128
        try:
            return f"it was ended by signal {number} ({signal.Signals(number).name})"
        except ValueError:
            pass
    return f"it ended with exit code {code} before its answer was complete"


def _advice_on(written: str, limits: SandboxLimits) -> str:
    """What to do about the last line of standard error."""
    last = next((line for line in reversed(written.splitlines()) if line.strip()), "")
    if last.startswith(("ModuleNotFoundError", "ImportError")):
        return (
            "The sandbox has numpy, scipy and the packages that `libraries` of the black box names: add"
            " the package there, and install it where the controller runs."
        )
    if "MemoryError" in last or "annot allocate memory" in written:
        return (
            f"Each process has {limits.address_space} MiB of address space: use less memory, or ask the"
            " steward to raise memory_mib in the black box's limits."
        )
    if "start new thread" in last or "BlockingIOError" in last:
        return (
            f"The limit is {limits.tasks} processes or threads: start fewer, or ask the steward to raise"
            " `processes` in the black box's limits."
        )
    if "Function not implemented" in last or "Operation not permitted" in last:
        return (
            "The sandbox refuses this system call: it has no network, no sockets, and other processes"
            " only where `processes` in the black box's limits is above 1."
        )
    return "Correct the program, then try again."


def _wrong_code(body: bytes, request: BoxRequest) -> str:
    """The first attribute with a code that is not declared; or a wrong number of bytes."""
    start, rows = 0, request.rows
    domain = request.dataset.domain
    sizes = dict(zip(domain.attributes, domain.sizes, strict=True))
    total = sum(rows * code_dtype(size).itemsize for size in sizes.values())
    if len(body) != total:
        return f"its answer has {len(body):,} bytes after the header in place of {total:,}"
    for name, size in sizes.items():
        wire = code_dtype(size).newbyteorder("<")
        codes = np.frombuffer(body, dtype=wire, count=rows, offset=start)
        start += rows * wire.itemsize
        if rows and int(codes.max()) >= size:
            row = int(codes.argmax())
            most = size - 1
            return f"attribute '{name}' has code {codes[row]} in row {row}; its codes are 0 to {most}"
    return ""


def read_answer(answer: bytes, request: BoxRequest, most_saved: int) -> GencardError | None:
    """What is wrong with an answer; None where nothing is."""
    reader = AnswerReader(request, lambda _hundredths: None, most_saved=most_saved)
    try:
        reader.feed(answer)
        reader.rows()
    except BlackBoxError as error:
        return error
    return None
