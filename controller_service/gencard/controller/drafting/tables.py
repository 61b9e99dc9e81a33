"""Queries on the columns of a table, before there is a schema: declarations of the database, else Ibis.

Of a column whose values an enum, a CHECK or a code list declares, no record is read.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from gencard.controller.drafting.profiles import (
    INTERVALS,
    MOST_LABELS,
    NESTED,
    Profile,
    Repeats,
    check_enough,
    profile_of,
)
from gencard.controller.records.databases import instants_of, open_backend, records_of, runner
from gencard.controller.records.file_format import silently
from gencard.controller.records.table_address import TableAddress
from gencard.controller.records.table_codes import (
    absences,
    as_number,
    compact_date,
    is_float,
    is_timed,
    text_of,
)
from gencard.core.values import (
    AS_DAYS,
    EXACT,
    HIGH_MARKS,
    INFINITE,
    LAST_DAYS,
    MARKS,
    NO_DAYS,
    NUMBER_MARKS,
    STORED_AS_TEXT,
    TOO_LARGE,
    missing_marks,
    number_of,
    number_text,
)

# Declarations of columns: keys, enums, CHECKs, codes.
#
# PostgreSQL and DuckDB are queried; a view, and Spark, declare types alone.

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
    """Declaration of a column by its database; ``reason`` is why a schema should not have the column."""

    labels: tuple[str, ...] = ()
    bounds: _Bounds | None = None
    reason: str = ""


def declarations(
    backend: Any, address: TableAddress, run: Callable[[Any], Iterable[Any]]
) -> dict[str, Declaration]:
    """Return the declarations by column, without empty ones; errors are the engine's own."""
    enums: list[tuple[str, list[str]]] = []
    constraints: list[tuple[str, ...]] = []
    if address.engine == "postgresql":
        enums = backend.con.execute(_ENUMS, _place(address)).fetchall()
        constraints = backend.con.execute(_CONSTRAINTS, _place(address)).fetchall()
    if address.engine == "duckdb":
        table = backend.con.table(".".join(f'"{part}"' for part in address.table_parts))
        types = dict(zip(table.columns, table.types, strict=True))
        enums = [(name, dict(one.children)["values"]) for name, one in types.items() if one.id == "enum"]
        place = [("main", *address.table_parts)[-2], address.name]
        constraints = backend.con.execute(_CONSTRAINTS_OF_DUCKDB, place).fetchall()
    declared = {name: _of_labels(tuple(labels)) for name, labels in enums}
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


def _place(address: TableAddress) -> dict[str, str]:
    schema, name = address.schema_and_name
    return {"schema": schema, "name": name}


def _of_list(
    backend: Any, run: Callable[[Any], Iterable[Any]], schema: str, table: str, column: str
) -> Declaration:
    values_of = backend.table(table, database=(schema,))[[column]]
    batches = run(values_of.distinct().limit(MOST_LABELS + 1))
    values = [one for batch in batches for one in batch.column(0).to_pylist() if one is not None]
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
            is_right = _is_column(node.right)
            if not is_right and not _is_column(node.left):
                raise ValueError("compares something else")
            number = float(_value(node.left if is_right else node.right))
            above = isinstance(node, exp.GTE | exp.GT) != is_right
            return [], (number, math.inf) if above else (-math.inf, number)
    raise ValueError("says something else")


def _together(read: Sequence[_Demands]) -> _Demands:
    labels = next((labels for labels, _ in read if labels), [])
    low = max((bounds[0] for _, bounds in read), default=-math.inf)
    return labels, (low, min((bounds[1] for _, bounds in read), default=math.inf))


def _bare(node: Any) -> Any:
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


# Profiles of columns.


def table_profiles(address: TableAddress, secret: str, progress: Callable[[str], None]) -> list[Profile]:
    """Return the profile of every column of a table."""
    with open_backend(address, secret) as backend:
        run = runner(backend, address)
        records = silently(lambda: records_of(backend, address))
        declared_columns = silently(lambda: declarations(backend, address, run))
        count = _rows(run, records.aggregate(n=records.count()))[0]["n"]
        check_enough(count)
        instants = instants_of(backend, records)
        bases: dict[str, str] = {}
        if address.engine == "postgresql":  # types on which the domains of columns rest
            rows = silently(lambda: backend.con.execute(_DOMAINS, _place(address)).fetchall())
            bases = {name: _BASES[base] for name, base in rows if base in _BASES}
        looks = {
            name: _TableLook(run, records, name, instants, bases.get(name, ""))
            for name in records.columns
        }
        return [
            _profile(look, name, declared_columns.get(name, Declaration()), count, progress)
            for name, look in looks.items()
        ]


def _profile(
    look: "_TableLook", name: str, declared: Declaration, count: int, progress: Callable[[str], None]
) -> Profile:
    kind, nullable = look.column.type(), bool(look.records[name].type().nullable)
    if not (declared.reason or declared.labels or declared.bounds):
        plain = (kind.is_string, kind.is_numeric, kind.is_boolean, kind.is_unknown)
        if _is_day(kind) or any(is_so() for is_so in plain):
            return profile_of(look, name, count, progress, nullable=nullable)
        declared = Declaration(reason=NESTED)
    numbers = [float(label) for label in declared.labels] if kind.is_numeric() else []
    bounds = declared.bounds or ((min(numbers), max(numbers)) if numbers else None)
    low, high = bounds or (0.0, 0.0)
    steps = tuple(low + (high - low) * step / INTERVALS for step in range(INTERVALS + 1))
    decimals = kind.scale if kind.is_decimal() else None
    if kind.is_integer() or (numbers and all(map(float.is_integer, numbers))):
        decimals = 0
    return Profile(
        name,
        count,
        count,
        {},
        distinct=0,
        values=declared.labels,
        rare=0,
        longest=max(map(len, declared.labels), default=0),
        kind="number" if bounds else "text",
        quantiles=steps if bounds else (),
        decimals=decimals,
        nullable=nullable,
        declared=True,
        reason=declared.reason,
    )


def _is_day(kind: Any) -> bool:
    return bool(kind.is_date() or kind.is_timestamp())


def _rows(run: Callable[[Any], Any], query: Any) -> list[dict[str, Any]]:
    return silently(lambda: [row for batch in run(query) for row in batch.to_pylist()])


@dataclass(frozen=True, slots=True)
class _TableLook:
    """Queries on one column of a table: a ``Look``."""

    run: Callable[[Any], Any]
    records: Any
    name: str
    of_instants: Collection[str] = ()
    base: str = ""

    def marks(self) -> dict[str, int]:
        if not self._is_text:
            return {}
        text = self._text
        code = text.re_search("^[A-Z]{2}$")  # NA is Namibia among codes of countries
        codes = not self._count(~(self._absent(MARKS) | code))
        words = [mark for mark in MARKS if not (codes and mark == "NA")]
        test = text.isin(words) | self._number.isnan()  # however it is spelt
        return {row["v"]: row["n"] for row in self._groups(text, test, MOST_LABELS)}

    def number_marks(self) -> dict[str, int]:
        number, codes = self._number, (*NUMBER_MARKS, *HIGH_MARKS)
        counts = {row["v"]: row["n"] for row in self._groups(number, number.isin(codes), len(codes))}
        if not counts:
            return {}
        some = self.records.filter(~self._absent(()) & number.notin(codes)).select(v=number)
        (row,) = _rows(self.run, some.aggregate(low=some.v.min(), high=some.v.max()))
        return missing_marks(counts, None if row["low"] is None else (row["low"], row["high"]))

    def day_marks(self, marks: dict[str, int]) -> dict[str, int]:
        import ibis  # noqa: PLC0415 - the extra ``ibis``

        if not _is_day(self.column.type()):
            return {}
        test = self.column.cast("date").isin([ibis.date(day) for day in LAST_DAYS])
        if not self._count(~self._absent(marks) & ~test):
            return {}
        return {row["v"]: row["n"] for row in self._groups(self._text, test, len(LAST_DAYS))}

    def kind(self, marks: dict[str, int]) -> tuple[str, str]:
        import ibis  # noqa: PLC0415 - the extra ``ibis``

        kind = self.column.type()
        if kind.is_boolean():
            return "boolean", ""
        if _is_day(kind):
            day, (first, last) = self.column.cast("date"), map(ibis.date, LAST_DAYS)
            here = ~self._absent(marks)
            outside = self._count(here & ~day.between(first, last).fill_null(False))
            return ("", NO_DAYS) if outside else ("date", "")
        if not self._is_text:
            return self._kind_of_numbers(marks)
        present, here, number = self.present(marks), ~self._absent(marks), self._number
        tests = {"boolean": self._text.lower().isin(["true", "false"]), "number": ~number.isinf()}
        for name, test in tests.items():
            if present and self._count(test & here) == present:
                return ("text", STORED_AS_TEXT) if name == "number" else (name, "")
        return "text", ""

    def _kind_of_numbers(self, marks: dict[str, int]) -> tuple[str, str]:
        here = ~self._absent(marks)
        if self._count(self._number.isinf() & here):
            return "", INFINITE
        days, present = self._count(compact_date(self.column).notnull() & here), self.present(marks)
        if days == present > 0:
            return "date", AS_DAYS
        if not is_float(self.column) and self._count((self._number.abs() >= EXACT) & here):
            return "text", TOO_LARGE
        return "number", ""

    def present(self, marks: dict[str, int]) -> int:
        return self._count(~self._absent(marks))

    def common(self, marks: dict[str, int], kind: str) -> tuple[int, tuple[str, ...], int, int]:
        value, here = self._number if kind == "number" else self._text, ~self._absent(marks)
        groups = self._grouped(value, here)
        facts = groups.aggregate(
            distinct=groups.count(),
            longest=groups.v.cast("string").length().max(),
            rare=(groups.n < 3).sum(),
        )
        distinct, longest, rare = _rows(self.run, facts)[0].values()
        values = [row["v"] for row in self._groups(value, here, MOST_LABELS + 1)]
        texts = tuple(map(number_text if kind == "number" else str, sorted(values)))
        return distinct, texts if distinct <= MOST_LABELS else (), int(rare or 0), int(longest or 0)

    def quantiles(
        self, marks: dict[str, int], kind: str, points: Sequence[float], *, positive: bool = False
    ) -> tuple[float, ...]:
        import ibis  # noqa: PLC0415 - the extra ``ibis``

        if kind == "number":
            value = self._number
        else:
            is_number = self.column.type().is_numeric()
            day = compact_date(self.column) if is_number else self.column.cast("date")
            value = day.delta(ibis.date(1970, 1, 1), unit="day").cast("float64")
        here = ~self._absent(marks) & ((value > 0) if positive else True)
        some = self.records.filter(here).select(v=value)
        numbers = _rows(self.run, some.aggregate(q=some.v.quantile([*points])))[0]["q"]
        return tuple(map(float, numbers or ()))

    def heaps(self, marks: dict[str, int], least: int) -> tuple[tuple[float, int], ...]:
        groups = self._grouped(self._number, ~self._absent(marks))
        rows = _rows(self.run, groups.filter(groups.n >= least))
        heaps = [(float(row["v"]), int(row["n"])) for row in rows]
        return tuple(sorted(heaps, key=lambda one: (-one[1], one[0])))

    def repeats(self, marks: dict[str, int]) -> Repeats:
        groups = self._grouped(self._text, ~self._absent(marks))
        facts = groups.aggregate(
            values=groups.count(),
            repeated=(groups.n > 1).sum(),
            usual=groups.n.cast("float64").quantile(0.95),
            most=groups.n.max(),
        )
        (row,) = _rows(self.run, facts)
        return Repeats(*(int(row[name] or 0) for name in Repeats._fields))

    def decimals(self, marks: dict[str, int], most: int) -> int | None:
        import ibis  # noqa: PLC0415 - the extra ``ibis``

        if most < 0:
            return None
        here = ~self._absent(marks)
        # infinite ones, and none, cannot be rounded
        number = ibis.cases((here & (self._number.abs() < 2.0**52), self._number))
        over = {decimals: 10.0**decimals for decimals in range(most + 1)}
        differ = {
            f"d{decimals}": ((number * unit + 0.5).floor().cast("float64") / unit != number).sum()
            for decimals, unit in over.items()
        }
        (row,) = _rows(self.run, self.records.aggregate(**differ))
        return next((decimals for decimals in over if not row[f"d{decimals}"]), None)

    def is_undecided(self) -> bool:
        return False

    def instants(self, marks: dict[str, int]) -> str:  # noqa: ARG002  # a file's look needs it
        if self.name in self.of_instants:
            return "offset"
        column = self.column
        if not column.type().is_timestamp():
            return ""
        return "local" if self._count(is_timed(column)) else ""

    def mean(self, marks: dict[str, int]) -> float:
        some = self.records.filter(~self._absent(marks)).select(v=self._number)
        return float(_rows(self.run, some.aggregate(mean=some.v.mean()))[0]["mean"])

    @property
    def column(self) -> Any:
        """The column; that of a domain has the type on which the domain rests."""
        column = self.records[self.name]
        return column.cast(self.base) if self.base else column

    @property
    def _is_text(self) -> bool:
        kind = self.column.type()
        return bool(kind.is_string() or kind.is_unknown())

    @property
    def _text(self) -> Any:
        return text_of(self.column)

    @property
    def _number(self) -> Any:
        return as_number(self.column)

    def _absent(self, marks: Sequence[str] | dict[str, int]) -> Any:
        tests = absences(self.column, tuple(marks))
        kind = self.column.type()
        if self._is_text or kind.is_floating() or kind.is_decimal():  # which may be NaN in PostgreSQL
            tests.append(self._number.isnan().fill_null(False))
        return reduce(or_, (test.fill_null(False) for test in tests))

    def _grouped(self, value: Any, here: Any) -> Any:
        some = self.records.filter(here).select(v=value)
        return some.group_by("v").aggregate(n=some.count())

    def _groups(self, value: Any, here: Any, most: int) -> list[dict[str, Any]]:
        return _rows(self.run, self._grouped(value, here).order_by("v").limit(most))

    def _count(self, condition: Any) -> int:
        some = self.records.filter(condition)
        return int(_rows(self.run, some.aggregate(n=some.count()))[0]["n"])
