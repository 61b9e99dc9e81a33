"""What a cell shows of the machine, besides the program's own files."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class View:
    """Files and folders, at the paths that they have outside; all of them read-only.

    Args:
        shown: Everything that is digested.
        hidden: Folders within those that are empty inside, and not digested.
        links: Symbolic links, where they are and what they say.
        system: Whether the system's programs and libraries are there too, digested or not.
        compiled: A folder of compiled copies that the service made of what is shown; empty for none.
    """

    shown: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    system: bool = False
    compiled: str = ""


def document_of_view(view: View) -> dict[str, Any]:
    """As a job is told of it."""
    return asdict(view)


def view_of_document(told: Mapping[str, Any]) -> View:
    """What ``document_of_view`` gave, also after a journey as JSON."""
    links = tuple((path, said) for path, said in told["links"])
    return View(tuple(told["shown"]), tuple(told["hidden"]), links, told["system"], told["compiled"])
