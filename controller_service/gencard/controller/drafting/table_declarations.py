"""Declarations of a table's columns by its database: keys, enums, CHECKs, codes. No record is read.

PostgreSQL and DuckDB are queried; a view, and Spark, declare types alone.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gencard.controller.drafting.profiles import MOST_LABELS
from gencard.controller.records.tables.address import TableAddress
from gencard.core.values import number_of, number_text

_ENUMS = """
SELECT attname::text, ARRAY(
    SELECT enumlabel::text FROM pg_catalog.pg_enum WHERE enumtypid = atttypid ORDER BY enumsortorder
)
FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_class ON pg_class.oid = attrelid
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
JOIN pg_catalog.pg_type ON pg_type.oid = atttypid
WHERE nspname = %(schema)s AND relname = %(name)s AND typtype = 'e' AND NOT attisdropped"""

_CONSTRAINTS = """
SELECT column_of.attname::text, contype::text, pg_catalog.pg_get_constraintdef(pg_constraint.oid),
    target_schema.nspname::text, target.relname::text, target_column.attname::text
FROM pg_catalog.pg_class AS owner JOIN pg_catalog.pg_namespace ON pg_namespace.oid = owner.relnamespace
JOIN pg_catalog.pg_attribute AS column_of ON column_of.attrelid = owner.oid
JOIN pg_catalog.pg_constraint
    ON conrelid = owner.oid AND conkey = ARRAY[column_of.attnum]
    OR contypid <> 0 AND contypid = column_of.atttypid
LEFT JOIN pg_catalog.pg_class AS target
    ON target.oid = confrelid AND has_table_privilege(target.oid, 'SELECT')
LEFT JOIN pg_catalog.pg_namespace AS target_schema ON target_schema.oid = target.relnamespace
LEFT JOIN pg_catalog.pg_attribute AS target_column
    ON target_column.attrelid = target.oid AND ARRAY[target_column.attnum] = confkey
WHERE pg_namespace.nspname = %(schema)s AND owner.relname = %(name)s AND column_of.attnum > 0"""
"""Query of constraints on single columns, of the table or its domain; readable lists of codes alone."""

_CONSTRAINTS_OF_DUCKDB = """
SELECT constraint_column_names[1], constraint_type, constraint_text,
    schema_name, referenced_table, referenced_column_names[1]
FROM duckdb_constraints()
WHERE database_name = current_database() AND schema_name = ? AND table_name = ?
    AND len(constraint_column_names) = 1"""

_DOMAINS = """
SELECT column_name::text, data_type::text FROM information_schema.columns
WHERE table_schema = %(schema)s AND table_name = %(name)s AND domain_name IS NOT NULL"""

_BASES = {
    **dict.fromkeys(("smallint", "integer", "bigint"), "int64"),
    **dict.fromkeys(("real", "double precision", "numeric"), "float64"),
    "date": "date",
    "boolean": "boolean",
}
"""Types of PostgreSQL on which a domain may rest, which Ibis does not know, as it calls them."""

_BY_KEY = "the table declares that no two records have the same value"
_LONG_LIST = f"it refers to a list of more than {MOST_LABELS} values: declare labels, or groups of them"

_Bounds = tuple[float, float]
_Demands = tuple[list[str], _Bounds]
_ANY: _Bounds = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Declaration:
    """Declaration of a column by its database.

    Args:
        labels: All values that the column can have.
        bounds: Lowest and highest number of the column.
        reason: Why a schema should not have the column.
    """

    labels: tuple[str, ...] = ()
    bounds: _Bounds | None = None
    reason: str = ""


def declarations(
    backend: Any, address: TableAddress, run: Callable[[Any], Iterable[Any]]
) -> dict[str, Declaration]:
    """Return the declarations by column, without empty ones; errors are the engine's own."""
    declared = {name: _of_labels(tuple(labels)) for name, labels in _enums(backend, address)}
    constraints: list[tuple[str, ...]] = []
    if address.engine == "postgresql":
        constraints = backend.con.execute(_CONSTRAINTS, _place(address)).fetchall()
    if address.engine == "duckdb":
        place = [("main", *address.table_parts)[-2], address.name]
        constraints = backend.con.execute(_CONSTRAINTS_OF_DUCKDB, place).fetchall()
    checks: dict[str, list[str]] = defaultdict(list)
    for name, kind, text, *target in constraints:
        if kind in ("p", "u", "PRIMARY KEY", "UNIQUE"):
            declared[name] = Declaration(reason=_BY_KEY)
        elif kind in ("f", "FOREIGN KEY") and all(target):
            declared.setdefault(name, _of_list(backend, run, *target))
        elif kind in ("c", "CHECK"):
            checks[name].append(text)
    for name, texts in checks.items():
        if bounds := _of_checks(texts, backend.name):
            declared.setdefault(name, bounds)
    return declared


def bases_of_domains(backend: Any, address: TableAddress) -> dict[str, str]:
    """Return the type on which the domain of a column rests, as Ibis calls it."""
    if address.engine != "postgresql":
        return {}
    rows = backend.con.execute(_DOMAINS, _place(address)).fetchall()
    return {name: _BASES[base] for name, base in rows if base in _BASES}


def _enums(backend: Any, address: TableAddress) -> Iterator[tuple[str, list[str]]]:
    if address.engine == "postgresql":
        yield from backend.con.execute(_ENUMS, _place(address)).fetchall()
    if address.engine == "duckdb":
        table = backend.con.table(".".join(f'"{part}"' for part in address.table_parts))
        for name, kind in zip(table.columns, table.types, strict=True):
            if kind.id == "enum":
                yield name, dict(kind.children)["values"]


def _place(address: TableAddress) -> dict[str, str]:
    schema, name = address.schema_and_name
    return {"schema": schema, "name": name}


def _of_list(
    backend: Any, run: Callable[[Any], Iterable[Any]], schema: str, table: str, column: str
) -> Declaration:
    """Return the values of a public list of codes that a column refers to."""
    distinct_values = (
        backend.table(table, database=(schema,))[[column]].distinct().limit(MOST_LABELS + 1)
    )
    values = [
        value
        for batch in run(distinct_values)
        for value in batch.column(0).to_pylist()
        if value is not None
    ]
    if all(isinstance(value, int | float) for value in values):
        return _of_labels(tuple(number_text(float(value)) for value in sorted(values)))
    return _of_labels(tuple(sorted(map(str, values))))


def _of_labels(labels: tuple[str, ...]) -> Declaration:
    return Declaration(labels) if len(labels) <= MOST_LABELS else Declaration(reason=_LONG_LIST)


def _of_checks(texts: Iterable[str], dialect: str) -> Declaration | None:
    """Return the declaration by all CHECKs of a column: a list of values, or bounds; else None."""
    import sqlglot  # noqa: PLC0415 - comes with Ibis

    checks = []
    for text in texts:
        stated = re.fullmatch(r"CHECK ?\((.*)\)", text, re.DOTALL)
        with suppress(sqlglot.errors.SqlglotError, ValueError):
            if stated is not None:  # with NOT VALID behind it records may be otherwise
                checks.append(_read(sqlglot.parse_one(stated[1], dialect=dialect)))
    labels, (low, high) = _together(checks)
    if labels:
        numbers = {label: number_of(label) for label in labels}
        if None in numbers.values():  # in their declared order
            return _of_labels(tuple(numbers))
        return _of_labels(tuple(sorted(numbers, key=lambda label: numbers[label] or 0.0)))
    return Declaration(bounds=(low, high)) if math.isfinite(high - low) and low < high else None


def _read(tree: Any) -> _Demands:
    """Return the values and bounds that a condition on one column demands; else raise ValueError."""
    from sqlglot import exp  # noqa: PLC0415

    node = _bare(tree)
    match node:
        case exp.And():
            # an unreadable side is ignored, because it can only narrow the other
            sides = []
            for side in (node.left, node.right):
                with suppress(ValueError):
                    sides.append(_read(side))
            return _together(sides)
        case exp.Or():
            first, second = (_read(_bare(side))[0] for side in (node.left, node.right))
            if not (first and second):
                raise ValueError("says more than which values there are")
            return first + second, _ANY
        case exp.Between() if _is_column(node.this):
            return [], (float(_value(node.args["low"])), float(_value(node.args["high"])))
        case exp.In() if _is_column(node.this) and node.expressions:
            return [_value(one) for one in node.expressions], _ANY
        case exp.EQ() if _is_column(node.left):
            right = _bare(node.right)
            values = _bare(right.this).expressions if isinstance(right, exp.Any) else [right]
            return [_value(one) for one in values], _ANY
        case exp.GTE() | exp.GT() | exp.LTE() | exp.LT():
            return [], _half(node)
    raise ValueError("says something else")


def _together(read: Sequence[_Demands]) -> _Demands:
    labels = next((labels for labels, _ in read if labels), [])
    low = max((bounds[0] for _, bounds in read), default=-math.inf)
    return labels, (low, min((bounds[1] for _, bounds in read), default=math.inf))


def _half(node: Any) -> _Bounds:
    from sqlglot import exp  # noqa: PLC0415

    above = isinstance(node, exp.GTE | exp.GT)
    if _is_column(node.right):
        above, number = not above, float(_value(node.left))
    elif _is_column(node.left):
        number = float(_value(node.right))
    else:
        raise ValueError("compares something else")
    return (number, math.inf) if above else (-math.inf, number)


def _bare(node: Any) -> Any:
    """Without parentheses and casts."""
    from sqlglot import exp  # noqa: PLC0415

    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    return node


def _is_column(node: Any) -> bool:
    from sqlglot import exp  # noqa: PLC0415

    return isinstance(_bare(node), exp.Column)


def _value(node: Any) -> str:
    from sqlglot import exp  # noqa: PLC0415

    node = _bare(node)
    if isinstance(node, exp.Neg):
        return f"-{_value(node.this)}"
    if not isinstance(node, exp.Literal):
        raise ValueError("is no value")
    return str(node.this)
