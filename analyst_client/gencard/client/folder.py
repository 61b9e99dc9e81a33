"""A folder that holds a release and all that is needed to check it without the controller."""

import os
from pathlib import Path

from gencard.client.files import write_rows
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidInputError

CARD, PSI, SCHEMA, RECEIPT = "card.json", "psi.json", "schema.json", "receipt.json"
CHECKPOINT = "checkpoint.json"


def save_bundle(
    folder: Path, dataset: Dataset, coding: Coding, documents: dict[str, bytes], rows: str
) -> Path:
    """Write the documents, then the rows; returns the folder."""
    make_folder(folder)
    for name, document in documents.items():
        write_bytes(folder / name, document)
    write_rows(dataset, coding, folder / rows)
    return folder


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
