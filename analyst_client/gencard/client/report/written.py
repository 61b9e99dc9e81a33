"""What reports have in common: all are written as JSON, most of them as a page too."""

import json
from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import Any

from gencard.client.files.folder import write_bytes


class WrittenAsJson(ABC):
    """Findings that a file keeps for programs."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """All of it as an object of JSON types."""

    def save_json(self, path: str | Path) -> None:
        """Write the numbers, without loss."""
        lines = json.dumps(self.document(), indent=1, allow_nan=False, ensure_ascii=False)
        write_bytes(Path(path), lines.encode())


class WrittenAsPage(WrittenAsJson):
    """Findings that are also a page for people."""

    @cached_property
    def html(self) -> str:
        """One self-contained page: no scripts, nothing from elsewhere.

        Raises:
            InvalidInputError: The extra ``report`` is not installed.
        """
        return self._page()

    def save_html(self, path: str | Path) -> None:
        """Write the page."""
        write_bytes(Path(path), self.html.encode())

    @abstractmethod
    def _page(self) -> str:
        """The page, by a module that is loaded only where pages are wanted."""
