"""Where the finished runs of audits lie until the audit has a verdict."""

import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gencard.core.errors import StorageError


@dataclass(frozen=True, slots=True)
class Journals:
    """One folder for each audit, readable by the service alone.

    What lies there was made from records. It is gone once the audit has a verdict or has failed, and
    waits where the audit was stopped or cancelled.
    """

    folder: Path

    def open(self, audit: str) -> Path:
        """The folder of an audit, made where it is not there; raises StorageError."""
        path = self._path(audit)
        with suppress(OSError):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.is_dir():
            raise StorageError
        return path

    def forget(self, audit: str) -> None:
        """Throw its runs away."""
        shutil.rmtree(self._path(audit), ignore_errors=True)

    def forget_since(self, audit: str, time: float) -> None:
        """Throw away what was kept after a time, in seconds since 1970."""
        with suppress(OSError):
            for path in self._path(audit).iterdir():
                if path.stat().st_mtime > time:
                    path.unlink()

    def keep(self, audits: Collection[str]) -> None:
        """Throw away the runs of all others."""
        kept = {self._path(audit) for audit in audits}
        for path in self.folder.glob("*"):
            if path not in kept:
                shutil.rmtree(path, ignore_errors=True)

    def _path(self, audit: str) -> Path:
        return self.folder / audit.rpartition("/")[2]
