"""Pictures of the packages: the tree of all, and the tiers of ``docs/architecture.md``.

A room is a folder or a file of a package. Its tier follows from the imports: one above the highest room
that it imports. Rooms that import one another share a tier.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path

from docs.house.sources import ROOT, ROOTS, imported_by, sources

PAGE = ROOT / "docs" / "architecture.md"
BLOCK = re.compile(r"(<!-- tiers: made by `make docs` -->\n```text\n).*?(```\n)", re.DOTALL)

DESCRIBED = ("gencard", "gencard.controller")
"""Packages whose rooms the picture of the tiers describes."""

NAMED = ("gencard.client", "gencard.measures", "gencard.analysis", "gencard.core", "gencard.wire")
"""Packages whose rooms the picture only names."""

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
    """Return the rooms of the packages by tier, the highest first."""
    files = dict(sources(root))
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    described = [(package, _described(rooms_by_tier(package, texts), files)) for package in DESCRIBED]
    named = [(package, _named(rooms_by_tier(package, texts))) for package in NAMED]
    return "\n".join(f"{package}\n{_aligned(lines)}" for package, lines in [*described, *named])


def rooms_by_tier(package: str, texts: Mapping[str, str]) -> list[tuple[int, list[str]]]:
    """Return the rooms of a package by tier, the highest tier first.

    Args:
        texts: Name of a module -> its source.
    """
    imports: dict[str, set[str]] = {"gencard.v1": set()} if package == "gencard" else {}
    for module, text in texts.items():
        if room := _room(package, module):
            names = {_room(package, name) for name in imported_by(text)}
            imports.setdefault(room, set()).update(name for name in names if name)
    reached = {room: _reached(room, imports) for room in imports}

    @cache
    def tier(room: str) -> int:
        group = {room} | {other for other in reached[room] if room in reached[other]}
        below = set[str]().union(*(reached[one] for one in group)) - group
        return 1 + max(map(tier, below), default=0)

    rooms = sorted(imports, key=lambda room: (-tier(room), room))
    return [(number, list(group)) for number, group in groupby(rooms, tier)]


def filled(page: str) -> str:
    """Return the page with the picture as it should be."""
    return BLOCK.sub(lambda block: f"{block[1]}{picture()}{block[2]}", page)


def write() -> None:
    """Put the picture into ``docs/architecture.md``."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _room(package: str, module: str) -> str:
    """Return the room of a package that holds a module; empty for the package itself, and for others."""
    parts, inside = package.split("."), module.split(".")
    return ".".join(inside[: len(parts) + 1]) if inside[: len(parts)] == parts != inside else ""


def _reached(room: str, imports: Mapping[str, set[str]]) -> set[str]:
    """Return the rooms that a room imports, directly or through others."""
    reached: set[str] = set()
    ahead = set(imports[room])
    while ahead:
        reached |= ahead
        ahead = set[str]().union(*(imports.get(one, ()) for one in ahead)) - reached
    return reached & imports.keys()


def _described(tiers: list[tuple[int, list[str]]], files: Mapping[str, Path]) -> list[tuple[str, str]]:
    """Return a line for each room, with the first sentence of its docstring."""
    lines = []
    for number, rooms in tiers:
        for room in rooms:
            place = f"{number:2}" if room == rooms[0] else "  "
            lines.append((f"{place} {_shown(room, files)}", _promise(room, files)))
    return lines


def _named(tiers: list[tuple[int, list[str]]]) -> list[tuple[str, str]]:
    """Return a line for each tier, with the names of its rooms."""
    return [
        (f"{number:2}", ", ".join(room.rpartition(".")[2] for room in rooms)) for number, rooms in tiers
    ]


def _shown(room: str, files: Mapping[str, Path]) -> str:
    """Return the name of a folder with a slash, or of a file with its ending."""
    is_file = room in files and files[room].stem != "__init__"
    return room.rpartition(".")[2] + (".py" if is_file else "/")


def _promise(room: str, files: Mapping[str, Path]) -> str:
    return _docstring(files[room]) if room in files else _STUBS[1]


def _aligned(lines: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in lines) + 2
    return "".join(f"{name:{width}}{text}".rstrip() + "\n" for name, text in lines)


def _indented(path: Path) -> str:
    return f"{' ' * _INDENT * (len(path.parts) - 2)}{path.name}/"


def _packages(root: Path) -> Iterator[tuple[Path, str]]:
    for _, path in sources(root):
        if path.name == "__init__.py":
            yield path.parent.relative_to(root), _docstring(path)


def _docstring(path: Path) -> str:
    """Return the first sentence of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(docstring.split("\n\n", maxsplit=1)[0].split())
    return re.split(r"\.(?:\s|$)", paragraph)[0].replace("``", "")
