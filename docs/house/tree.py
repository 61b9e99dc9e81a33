"""Pictures of the packages: the tree of all, and the tiers of ``docs/architecture.md``."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from docs.house.rooms import HOUSES
from docs.house.sources import ROOT, ROOTS, sources

PAGE = ROOT / "docs" / "architecture.md"
BLOCK = re.compile(r"(<!-- tiers: made by `make docs` -->\n```text\n).*?(```\n)", re.DOTALL)

DESCRIBED = "controller"
"""House whose rooms the picture describes; of the others it gives the names."""

_STUBS = (
    Path("protos/gencard/v1"),
    "Services and messages in protocol buffers, and the stubs made from them",
)
_INDENT = 4


def tree(root: Path = ROOT) -> str:
    """Return all packages, folder by folder, one line each."""
    packages = dict([_STUBS, *_packages(root)])
    lines = []
    for top in ROOTS:
        lines.append((f"{top}/gencard/", ""))
        inside = sorted(path for path in packages if path.parts[0] == top)
        lines += [(_indented(path), packages[path]) for path in inside]
    return _aligned(lines)


def picture(root: Path = ROOT) -> str:
    """Return the packages, then the rooms of each house by tier, the highest first."""
    every = [_STUBS, *_packages(root)]
    packages = sorted((f"{path.name}/", text) for path, text in every if path.parent.name == "gencard")
    files = dict(sources(root))
    houses = [
        (house, _described(house, files) if house == DESCRIBED else _named(house)) for house in HOUSES
    ]
    parts = [("gencard", packages), *((f"gencard.{house}", lines) for house, lines in houses)]
    return "\n".join(f"{name}\n{_aligned(lines)}" for name, lines in parts)


def filled(page: str) -> str:
    """Return the page with the picture as it should be."""
    return BLOCK.sub(lambda block: f"{block[1]}{picture()}{block[2]}", page)


def write() -> None:
    """Put the picture into ``docs/architecture.md``."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _tiers(house: str) -> list[tuple[int, list[str]]]:
    """Return the rooms of a house by tier, the highest tier first."""
    rooms = HOUSES[house]
    numbers = sorted({room.tier for room in rooms.values()}, reverse=True)
    return [(tier, sorted(name for name in rooms if rooms[name].tier == tier)) for tier in numbers]


def _described(house: str, files: Mapping[str, Path]) -> list[tuple[str, str]]:
    """Return a line for each room: tier, name, and the first sentence of its docstring."""
    lines = []
    for tier, rooms in _tiers(house):
        for room in rooms:
            file = files[f"gencard.{house}.{room}"]
            name = f"{room}/" if file.stem == "__init__" else file.name
            lines.append((f"{tier if room == rooms[0] else '':2} {name}", _first_sentence(file)))
    return lines


def _named(house: str) -> list[tuple[str, str]]:
    """Return a line for each tier: its number and the names of its rooms."""
    return [(f"{tier:2}", ", ".join(rooms)) for tier, rooms in _tiers(house)]


def _aligned(lines: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in lines) + 2
    return "".join(f"{name:{width}}{text}".rstrip() + "\n" for name, text in lines)


def _indented(path: Path) -> str:
    return f"{' ' * _INDENT * (len(path.parts) - 2)}{path.name}/"


def _packages(root: Path) -> Iterator[tuple[Path, str]]:
    for _, path in sources(root):
        if path.name == "__init__.py":
            yield path.parent.relative_to(root), _first_sentence(path)


def _first_sentence(file: Path) -> str:
    """Return the first sentence of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(docstring.split("\n\n", maxsplit=1)[0].split())
    return re.split(r"\.(?:\s|$)", paragraph)[0].replace("``", "")
