"""Modules that no user can reach: imported by tests and benchmarks at most.

A user's doors are the names of ``gencard.client``, the commands of ``pyproject.toml``, the modules that
an image runs, and migrations that alembic loaded by folder. Programs that are started as processes
(``python -m gencard...``) and modules imported by name are reached from the module that names them.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from docs.house.module import ModuleFacts
from docs.house.sources import reached

_LOADED_BY_FOLDER = ".migrations"


def unreachable(root: Path, modules: Mapping[str, ModuleFacts]) -> tuple[str, ...]:
    """Names of the modules that no door leads to, sorted.

    Args:
        root: The checkout, for its ``pyproject.toml`` and its images.
        modules: Every module by name.
    """
    edges = _edges(modules)

    def loaded(name: str) -> set[str]:
        package = name.rpartition(".")[0]  # importing a module runs its package
        return {*edges[name], package} & modules.keys()

    return tuple(sorted(modules.keys() - reached(_doors(root, modules), loaded)))


def _doors(root: Path, modules: Mapping[str, ModuleFacts]) -> Iterator[str]:
    yield "gencard.client"
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yield from (target.partition(":")[0] for target in project["scripts"].values())
    for image in root.glob("*/Dockerfile"):
        named = set(re.findall(r"gencard\.[\w.]+", image.read_text(encoding="utf-8")))
        yield from named & modules.keys()
    yield from (name for name in modules if _LOADED_BY_FOLDER in name)


def _edges(modules: Mapping[str, ModuleFacts]) -> dict[str, frozenset[str]]:
    """Module -> modules that it imports, starts or loads by name."""
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for name, facts in modules.items():
        for target in facts.imports & modules.keys():
            importers[target].add(name)
    edges = {}
    for name, facts in modules.items():
        nearby = facts.strings.union(*(modules[user].strings for user in importers[name]))
        by_name = {prefix + word for prefix in facts.prefixes for word in nearby}
        edges[name] = (facts.imports | facts.strings | by_name) & modules.keys()
    return edges
