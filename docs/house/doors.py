"""Doors of rooms: the names of each room that modules of other rooms import."""

import ast
from collections.abc import Mapping

from docs.house.rooms import HOUSES
from docs.house.sources import SOURCES

IN_PARTS = {*HOUSES, "analysis", "measures"}
"""Packages below ``gencard`` whose parts are rooms; of the others each is one room."""


def room_of(module: str) -> str:
    """Return the name of a module's room, without ``gencard``."""
    house, *rest = module.split(".")[1:]
    return f"{house}.{rest[0]}" if rest and house in IN_PARTS else house


def doors(sources: Mapping[str, str] = SOURCES) -> dict[str, frozenset[str]]:
    """Return the names that other rooms import, by room.

    Args:
        sources: Name of each module -> its text.
    """
    names: dict[str, set[str]] = {room_of(module): set() for module in sources}
    for module, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            for alias in node.names:
                # A module that is imported whole counts as one name.
                place = f"{node.module}.{alias.name}"
                target = place if place in sources else node.module
                if target in sources and room_of(target) != room_of(module):
                    names[room_of(target)].add(alias.name)
    return {room: frozenset(some) for room, some in sorted(names.items())}
