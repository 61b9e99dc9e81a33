"""Every module written by hand, and which modules each one imports."""

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOTS = ("protos", "shared", "controller_service", "analyst_client")


def sources(root: Path = ROOT) -> Iterator[tuple[str, Path]]:
    """Name and file of every module written by hand; generated protobuf stubs are left out."""
    for top in ROOTS:
        for path in sorted((root / top).rglob("*.py")):
            if "_pb2" not in path.name:
                name = ".".join(path.relative_to(root / top).with_suffix("").parts)
                yield name.removesuffix(".__init__"), path


SOURCES: Mapping[str, str] = {name: path.read_text(encoding="utf-8") for name, path in sources()}
"""Name of each module of this checkout -> its text."""


@cache
def imported_by(source: str) -> frozenset[str]:
    """Every module that a source names in an import, also inside functions.

    Raises:
        ValueError: An import is relative.
    """
    return frozenset(imports_in(ast.walk(ast.parse(source))))


def imports_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The same of the nodes of a parsed source.

    ``from package import name`` gives both ``package`` and ``package.name``: the name may be a module.
    """
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"line {node.lineno}: a relative import hides the package it is from")
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def reached_from(module: str) -> set[str]:
    """Return every module of ours that is loaded with this one, itself included."""
    return reached({module}, lambda name: imported_by(SOURCES[name]) & SOURCES.keys())


def reached(first: Iterable[str], edges: Callable[[str], Collection[str]]) -> set[str]:
    """Return all names that edges lead to from the first ones, these included."""
    known: set[str] = set()
    ahead = {*first}
    while ahead:
        known |= ahead
        ahead = set().union(*map(edges, ahead)) - known
    return known
