"""A folder that holds a release and all that is needed to check it without the controller."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryFile

from gencard.core.errors import InvalidInputError, unwritable
from gencard.files.content import WRITTEN

CARD, PSI, SCHEMA, RECEIPT = "card.json", "psi.json", "schema.json", "receipt.json"
CHECKPOINT, VERDICT, KEYS = "checkpoint.json", "verdict.json", "keys.json"
LOG_ENTRY, ANSWER = "log_entry.json", "answer.json"
README = "README.txt"
"""A text that names the attributes whose values are invented; it is not signed."""

ROWS = "rows.parquet"
"""The rows of a saved release, unless the caller names another file."""

WELL_KNOWN = {
    CARD: "card",
    PSI: "psi",
    SCHEMA: "schema",
    RECEIPT: "receipt",
    CHECKPOINT: "checkpoint",
    LOG_ENTRY: "log entry",
    VERDICT: "verdict",
    ANSWER: "answer",
    KEYS: "keys",
}
"""Names under which releases are saved -> kind of document that such a file must hold."""


def check_free(path: Path, *, replace: bool) -> None:
    """Refuse a place that cannot be written, or holds something already, before any work is done for it.

    Args:
        path: A file for rows; or a folder for a release, which may hold other files.
        replace: Whether what is there may be written over.
    """
    _part_of(path, "output")
    try:
        above = next(folder for folder in path.absolute().parents if folder.exists())
        # a file without a name, in the folder or where it would be made
        with TemporaryFile(dir=path if path.is_dir() else above):
            pass
    except OSError:
        raise unwritable("output", path) from None
    if replace:
        return
    files = [path / RECEIPT, path / CARD, path / ANSWER] if path.is_dir() else [path]
    existing = next((file for file in files if file.exists()), None)
    if existing is not None:
        problem = f"{existing} already exists; choose another place, or replace it with --replace"
        raise InvalidInputError(field="output", problem=problem)


def clear_release(folder: Path) -> None:
    """Remove documents and rows of a release that is replaced: none may lie beside those of another."""
    for name in (*WELL_KNOWN, README, *(f"rows{ending}" for ending in WRITTEN)):
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError:
            raise unwritable("output", folder / name, "replace") from None


def save_documents(folder: Path, documents: dict[str, bytes]) -> None:
    """Write what goes with the rows of a release, by file name."""
    make_folder(folder)
    for name, document in documents.items():
        write_bytes(folder / name, document)


def make_folder(folder: Path) -> None:
    """Raises InvalidInputError where it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise unwritable("folder", folder, "make") from None


def write_bytes(path: Path, data: bytes) -> None:
    """The file appears only once it is whole; raises InvalidInputError where it cannot be written."""
    with appearing(path) as part:
        part.write_bytes(data)


@contextmanager
def appearing(path: Path, field: str = "file") -> Iterator[Path]:
    """Yield a place to write; its content appears at ``path`` whole, also beside other writers."""
    part = _part_of(path, field)
    try:
        yield part
        os.replace(part, path)
    except OSError:
        raise unwritable(field, path) from None
    finally:
        with suppress(OSError):  # it could not be written either
            part.unlink(missing_ok=True)


def _part_of(path: Path, field: str) -> Path:
    """Return the path of the unfinished file; raises InvalidInputError for an empty or too long name."""
    try:
        part = path.with_name(f"{path.name}.{token_hex(8)}.part")
        with suppress(FileNotFoundError):
            part.lstat()
    except (OSError, ValueError):
        raise unwritable(field, path) from None
    return part
