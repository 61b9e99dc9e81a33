"""What a backup holds: every file with its digest, how far its log goes, and when it was made."""

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gencard.core.errors import InvalidInputError, StorageError
from gencard.wire.signatures.canonical import document_of, integer_of, json_bytes, text_of, time_text_of

FILE = "backup.json"
"""Lies in a backup, and in a state that was restored from one until all of it was found in order."""

DATABASE = "state.sqlite"
_KIND = "gencard.backup.v1"
_NAME = re.compile(r"(state\.sqlite|releases/[\w.-]+|kept/[\w-]+/\w+)")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class BackupList:
    """The list of a backup.

    Args:
        files: SHA-256, in hex, by path inside the backup.
        entries: Of the log in it.
        made: UTC, as text.
    """

    files: Mapping[str, str]
    entries: int
    made: str

    def encoded(self) -> bytes:
        document = {"kind": _KIND, "entries": str(self.entries), "files": dict(self.files)}
        return json_bytes(document | {"made": self.made})


def list_of(folder: Path) -> BackupList:
    """The list in a folder.

    Raises:
        InvalidInputError: There is none that can be read, or it names what no backup holds.
    """
    with suppress(OSError, KeyError, TypeError, ValueError):
        document = document_of((folder / FILE).read_bytes(), FILE)
        files = {text_of(name): text_of(digest) for name, digest in document["files"].items()}
        if document["kind"] == _KIND and all(map(_NAME.fullmatch, files)):
            made = time_text_of(document["made"])
            return BackupList(files, integer_of(document["entries"]), made)
    raise InvalidInputError(field="backup", problem=f"has no {FILE}, so it is not a complete backup")


def copied(source: Path, target: Path) -> str:
    """Copy a file to where none is, readable by the service alone and on the disk; its SHA-256, in hex.

    Raises:
        FileNotFoundError: It is not there.
        StorageError: It cannot be read or written.
    """
    hasher = hashlib.sha256()
    try:
        with source.open("rb") as given:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                while chunk := given.read(_CHUNK):
                    hasher.update(chunk)
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
        return hasher.hexdigest()
    except FileNotFoundError:
        raise
    except OSError:
        pass
    raise StorageError


def digest_of_file(path: Path) -> str:
    """SHA-256, in hex; raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
