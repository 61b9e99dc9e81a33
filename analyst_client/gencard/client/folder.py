"""A folder that holds a release and all that is needed to check it without the controller."""

import os
from pathlib import Path

from gencard.core.errors import InvalidInputError

CARD, PSI, SCHEMA, RECEIPT = "card.json", "psi.json", "schema.json", "receipt.json"
CHECKPOINT = "checkpoint.json"


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
        raise InvalidInputError(field="folder", problem=f"cannot make {folder}") from None


def write_bytes(path: Path, data: bytes) -> None:
    """The file appears only once it is whole; raises InvalidInputError where it cannot be written."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except OSError:
        raise InvalidInputError(field="file", problem=f"cannot write {path}") from None
    finally:
        part.unlink(missing_ok=True)
