"""docs/reference.md, from the settings and the registries: ``python -m docs.reference``."""

import inspect
import re
from collections.abc import Iterator
from math import comb
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gencard.boxes.registry import BOXES
from gencard.controller.settings.settings import Settings
from gencard.core.evaluation.registry import EVALUATIONS
from gencard.core.generators.registry import GENERATORS

PAGE = Path(__file__).with_suffix(".md")

_HEAD = """\
# Reference: settings, generators, black boxes, evaluations

Made from the code by `make docs`. `gencard --help` and `gencard-controller --help` list the commands.

## Settings

`controller.toml`; relative paths start at its folder, and unknown names are refused. The environment
takes precedence: `GENCARD_SERVER__ADDRESS` is `address` of `[server]`. Settings are shown with defaults.
"""

_GENERATORS = """
## Generators

| name | needs | counted against `limits.model_cells` | bytes for each cell |
|---|---|---|---|
"""

_BOXES = """
## Built-in black boxes

| `box` | parameters, with defaults | promises by default |
|---|---|---|
"""

_EVALUATIONS = """
## Evaluations

Settings and options call them `measures`. Prices are in exact statistics, for cards with all pairs of
their attributes:

| name | 5 attributes | 10 attributes | needs |
|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, *_settings(Settings, "", {}), _GENERATORS]
    parts += [
        f"| `{name}` | {entry.needs} | {entry.bound} | {entry.cell_bytes} |\n"
        for name, entry in GENERATORS.items()
    ]
    parts += [_BOXES, *map(_box_row, BOXES), _EVALUATIONS, *map(_evaluation_row, EVALUATIONS)]
    return "".join(parts)


def main() -> None:
    """Write the page anew."""
    PAGE.write_text(page(), encoding="utf-8")


def _settings(model: type[BaseModel], path: str, shown: dict[type[BaseModel], str]) -> Iterator[str]:
    """The sections below a model, depth first, each once."""
    for name, field in model.model_fields.items():
        for table in _tables_in(field.annotation):
            if table not in shown:
                shown[table] = f"{path}{field.alias or name}"
                yield from _section(table, shown)


def _section(table: type[BaseModel], shown: dict[type[BaseModel], str]) -> Iterator[str]:
    path, kind = shown[table], table.model_fields.get("kind")
    title = f"`{path}`" if kind is None else f'`{path}`, `kind = "{get_args(kind.annotation)[0]}"`'
    settings = [
        _setting(field.alias or name, field, shown)
        for name, field in table.model_fields.items()
        if name != "kind"
    ]
    yield f"\n**{title}**: {_meaning(table)} Settings: {', '.join(settings)}.\n"
    yield from _settings(table, f"{path}.", shown)


def _tables_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Sections that a field holds: itself, or in a tuple, a union or an annotation."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _tables_in(part)


def _setting(name: str, field: FieldInfo, shown: dict[type[BaseModel], str]) -> str:
    """A setting with its default, or a table with where it is described."""
    tables = list(_tables_in(field.annotation))
    if tables:
        return f"`{name}` (as `{shown[tables[0]]}`)" if tables[0] in shown else f"`{name}` (below)"
    if field.is_required():
        return f"`{name}` (required)"
    return f"`{name}` {_value(field.get_default(call_default_factory=True))}".rstrip()


def _value(default: object) -> str:
    match default:
        case None | () | "":
            return ""
        case bool():
            return str(default).lower()
        case int():
            return f"{default:,}"
        case tuple():
            return "(" + ", ".join(map(str, default)) + ")"
    return "" if default == {} else str(default)


def _meaning(table: type[BaseModel]) -> str:
    """The docstring without its arguments and without references to code."""
    text = re.split(r"\n\s*Args:", inspect.getdoc(table) or "")[0]
    text = re.sub(r"; see [^.]*(\.[a-zA-Z_`/]+)*", "", text)
    return " ".join(text.split()).replace("``", "`").strip()


def _box_row(name: str) -> str:
    entry = BOXES[name]
    parameters = ", ".join(f"`{key}` {value}" for key, value in entry.parameters.items())
    return f"| `{name}` | {parameters} | {entry.claim(entry.parameters).sentence} |\n"


def _evaluation_row(name: str) -> str:
    measure = EVALUATIONS[name]
    prices = [measure.numbers(attributes, comb(attributes, 2)) for attributes in (5, 10)]
    return f"| `{name}` | {prices[0]} | {prices[1]} | {', '.join(measure.needs)} |\n"


if __name__ == "__main__":
    main()
