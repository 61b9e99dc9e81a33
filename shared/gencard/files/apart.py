"""Files that are read in a process of their own, which a damaged file can crash or keep busy.

The process ends with the one that started it, and after a time that depends on the size of the file. It
writes the table to a pipe, and nothing to a disk.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from gencard.core.errors import InvalidInputError, TooLargeError
from gencard.files.content import StoredColumn, StoredTable

_REFUSED, _NO_MEMORY = 3, 4
"""Exit codes of the process."""

_ERRORS = {error.reason: error for error in (InvalidInputError, TooLargeError)}

_FACTS, _LISTS = b"facts", ("labels", "missing")

_SECONDS = 600
"""Time for reading any file; each MiB of a file has a second more."""

_RUST_HAS_NO_MEMORY = b"memory allocation of"
"""Beginning of the line that calamine writes before it aborts."""

_END_WITH_PARENT = 1
"""Number of PR_SET_PDEATHSIG, see prctl(2)."""


def run_apart(module: str, path: Path, *words: object) -> subprocess.CompletedProcess[bytes]:
    """Run a module that reads a file, in a process of its own.

    Its arguments are the number of this process, for ``end_with_parent``, the path, and the words.
    Raises TimeoutError after ending it.
    """
    # isolated: no module of the working folder may take the place of ours
    command = (sys.executable, "-I", "-m", module, str(os.getpid()), str(path.absolute()))
    try:
        return subprocess.run(
            (*command, *map(str, words)),
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS + (path.stat().st_size >> 20),
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError from None


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process when the one that started it ends, however that ends."""
    with suppress(AttributeError, OSError):  # only Linux has it; elsewhere the time is bounded
        ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it had ended before
        os._exit(1)


def read_apart(module: str, path: Path, field: str, *words: object) -> StoredTable:
    """Read a file by a module that ends with ``answered``, with ``words`` as further arguments.

    Raises InvalidInputError or TooLargeError, which name ``field``, MemoryError or OSError.
    """
    try:
        done = run_apart(module, path, field, *words)
    except TimeoutError:
        problem = "takes too long to read"
        advice = "Check that the file is whole, or save it as CSV or Parquet."
        raise InvalidInputError(field=field, problem=problem, advice=advice) from None
    if done.returncode == _NO_MEMORY or (done.returncode and _RUST_HAS_NO_MEMORY in done.stderr):
        raise MemoryError
    if done.returncode == _REFUSED:
        reason, fields = json.loads(done.stdout)
        raise _ERRORS[reason](**fields)
    if done.returncode:
        raise OSError
    table = pa.ipc.open_stream(pa.py_buffer(done.stdout)).read_all()
    facts = json.loads(table.schema.metadata[_FACTS])
    columns = (
        StoredColumn(**{**one, **{key: tuple(one[key]) for key in _LISTS}}) for one in facts["columns"]
    )
    return StoredTable(table.replace_schema_metadata(None), tuple(columns), facts["note"])


def answered(read: Callable[..., StoredTable]) -> int:
    """Read the file of the arguments by ``read``, write its table to standard output; the exit code."""
    parent, path, *words = sys.argv[1:]
    end_with_parent(int(parent))
    try:
        stored = read(Path(path), *words)
    except MemoryError:
        return _NO_MEMORY
    except (InvalidInputError, TooLargeError) as error:
        sys.stdout.write(json.dumps([error.reason, {**error.fields, "advice": error.advice}]))
        return _REFUSED
    facts = {"columns": [asdict(one) for one in stored.columns], "note": stored.note}
    table = stored.table.replace_schema_metadata({_FACTS: json.dumps(facts).encode()})
    with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
        stream.write_table(table)
    return 0
