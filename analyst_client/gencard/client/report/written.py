"""What reports have in common: all are written as JSON, most of them as a page too."""

import json
from abc import ABC, abstractmethod
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from gencard.client.files.folder import write_bytes
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError


def percent(share: float) -> str:
    """A share of 1 in per cent.

    >>> percent(-0.01234)
    '−1.23 %'
    """
    return f"{100 * share:.3g} %".replace("-", "−")


def interval(low: float, high: float) -> str:
    """A 95 % interval of shares.

    >>> interval(0.1, 0.25)
    '95 % interval 10 % to 25 %'
    """
    return f"95 % interval {percent(low)} to {percent(high)}"


def named(names: Clique) -> str:
    """A set of attributes, or of their levels.

    >>> named(("sex", "health"))
    'sex × health'
    """
    return " × ".join(names)


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


def page_module(name: str) -> ModuleType:
    """The module of this room that renders a page.

    Raises:
        InvalidInputError: The extra ``report`` is not installed.
    """
    try:
        return import_module(f"gencard.client.report.{name}")
    except ModuleNotFoundError:
        problem = "HTML pages need: pip install 'gencard[report]'"
        raise InvalidInputError(field="report", problem=problem) from None
