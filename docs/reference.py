"""docs/reference.md, from the settings and the registries: ``python -m docs.reference``.

What a setting means is the string below its field in the code. It is read from the source, here alone.
"""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from math import comb
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gencard.boxes.registry import BOXES
from gencard.controller.base.files import TableOf
from gencard.controller.settings import Settings
from gencard.core.generators.registry import GENERATORS
from gencard.measures.evaluation.registry import EVALUATIONS

PAGE = Path(__file__).with_suffix(".md")

_HEAD = """\
# Reference: settings, generators, black boxes, evaluations

Made from the code by `make docs`. `gencard --help` and `gencard-controller --help` list the commands.

## Settings

The settings are in `controller.toml`. Relative paths start at the folder of this file. Unknown names
are refused. Environment variables take precedence: `GENCARD_SERVER__ADDRESS` replaces `address` in
`[server]`. A running service applies new datasets and changes of `[datasets.policy]` and
`[datasets.caps]` within seconds; other changes need a restart.

{sections}
"""

_COLUMNS = """
| setting | default | meaning |
|---|---|---|
"""

_GENERATORS = """
## Generators

A proposal is refused with `MODEL_TOO_LARGE` or `TOO_LARGE` if the model of its generator has more cells
than `model_cells` in [`[limits]`](#limits).

| generator | statistics that it needs | cells of its model | bytes of memory for each cell, at most |
|---|---|---|---|
"""

_BOXES = """
## Built-in black boxes

In [`[[black_boxes]]`](#black_boxes-kind--built_in) `box` names the method, and `parameters` replaces
defaults. A card states the claim for the parameters in use; this table states it for the defaults.

| `box` | parameters and their defaults | claim with these defaults |
|---|---|---|
"""

_EVALUATIONS = """
## Evaluations

Settings and commands call evaluations `measures`. An evaluation costs one exact statistic for each
number that it releases about the records; `statistics` in [`[datasets.caps]`](#datasetscaps) limits the
total. The table shows the prices for cards with 5 and with 10 attributes and all their pairs as
marginals. Keys, target and gap are declared in [`[datasets.measures]`](#datasetsmeasures), the holdout
in [`[[datasets]]`](#datasets).

| evaluation | price, 5 attributes | price, 10 attributes | needs |
|---|---|---|---|
"""


def page() -> str:
    """The whole page.

    Raises:
        LookupError: A section or a setting has no docstring.
    """
    shown: dict[type[BaseModel], str] = {}
    settings = [*_settings(Settings, "", shown)]
    parts = [_HEAD.format(sections="\n".join(_contents(shown.values()))), *settings, _GENERATORS]
    parts += [
        f"| `{name}` | {entry.needs} | {entry.bound} | {entry.cell_bytes} |\n"
        for name, entry in GENERATORS.items()
    ]
    parts += [_BOXES, *map(_box_row, BOXES), _EVALUATIONS, *map(_evaluation_row, EVALUATIONS)]
    return "".join(parts)


def main() -> None:
    """Write the page anew."""
    PAGE.write_text(page(), encoding="utf-8")


def meanings(table: type[BaseModel]) -> dict[str, str]:
    """Meaning of each field of a section.

    That is the string below it, in its class or in one above; in a table that states a dataclass, the
    argument in the docstring of the dataclass, or the description of its form.
    The field that tells the kinds of a section apart is left out: headings show it.

    Raises:
        LookupError: A field has none.
    """
    texts = _lines_of_arguments(table.__doc__ or "")
    for kind in reversed(table.__mro__):
        if issubclass(kind, BaseModel) and kind is not BaseModel:
            texts |= _strings_below_fields(kind)
    fields = table.model_fields.items()
    texts |= {name: _prose(one.description) for name, one in fields if one.description}
    names = [name for name in table.model_fields if name != "kind"]
    for name in names:
        if not texts.get(name):
            place = f"{table.__module__}.{table.__qualname__}.{name}"
            raise LookupError(f"{place} has no docstring: write what it means below the field")
    return {name: texts[name] for name in names}


def _lines_of_arguments(docstring: str) -> dict[str, str]:
    """Return the text of each argument in a docstring."""
    blocks = re.findall(r"^Args:\n((?:    .*\n?)+)", inspect.cleandoc(docstring), re.MULTILINE)
    lines = re.findall(r"^    (\w+): (.*(?:\n     .*)*)", "".join(blocks), re.MULTILINE)
    return {name: _prose(text) for name, text in lines}


def _strings_below_fields(kind: type[BaseModel]) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    docstrings = {}
    for field, below in pairwise(body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docstrings[name] = _prose(text)
    return docstrings


def _prose(text: str) -> str:
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def _contents(titles: Iterable[str]) -> Iterator[str]:
    """Links to the sections, those inside one another on one line."""
    for _, group in groupby(titles, lambda title: re.findall(r"\w+", title)[0]):
        yield f"* {', '.join(f'[{title}](#{_anchor(title)})' for title in group)}"


def _settings(model: type[BaseModel], path: str, shown: dict[type[BaseModel], str]) -> Iterator[str]:
    """The sections below a model, depth first, each once."""
    for name, field in model.model_fields.items():
        many = get_origin(field.annotation) is tuple and not path
        for table in _tables_of(field):
            if table not in shown:
                place = f"{path}{field.alias or name}"
                shown[table] = _title(table, f"[[{place}]]" if many else f"[{place}]")
                yield from _section(table, f"{place}.", shown)


def _title(table: type[BaseModel], place: str) -> str:
    kind = table.model_fields.get("kind")
    return f"`{place}`" if kind is None else f'`{place}`, `kind = "{get_args(kind.annotation)[0]}"`'


def _section(table: type[BaseModel], path: str, shown: dict[type[BaseModel], str]) -> Iterator[str]:
    if not table.__doc__:
        raise LookupError(f"{table.__module__}.{table.__qualname__} has no docstring")
    described = meanings(table)
    below = list(_settings(table, path, shown))  # first: rows link to the sections below
    purpose = _prose(re.split(r"\n\s*Args:", table.__doc__)[0])
    yield f"\n### {shown[table]}\n\n{purpose}\n{_COLUMNS}"
    for name, meaning in described.items():
        field = table.model_fields[name]
        tables = [shown[each] for each in _tables_of(field)]
        link = f" See [{tables[0]}](#{_anchor(tables[0])})." if tables else ""
        yield f"| `{field.alias or name}` | {_default(field, bool(tables))} | {meaning}{link} |\n"
    yield from below


def _anchor(title: str) -> str:
    """Return the anchor of a heading, as the page's host makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _tables_of(field: FieldInfo) -> list[type[BaseModel]]:
    """Sections that a field holds."""
    stated = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    return [*dict.fromkeys(_tables_in(stated))]


def _tables_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Sections in an annotation: itself, or in a tuple, a union or an annotation."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    parts = get_args(annotation)
    yield from (one.section(parts[0]) for one in parts if isinstance(one, TableOf))
    for part in parts:
        yield from _tables_in(part)


def _default(field: FieldInfo, holds_table: bool) -> str:
    """Return the default as the settings file would state it."""
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if default is None or (default in ((), "", {}) and not field.validate_default):
        return "none"
    return "as below" if holds_table else f"`{_toml(default)}`"


def _toml(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return f"{value:_}"
        case tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case str() | Path():
            return json.dumps(str(value)) if '"' not in str(value) else f"'{value}'"
    return str(value)


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
