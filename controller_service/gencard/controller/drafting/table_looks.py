"""Queries on the columns of a table, before there is a schema: declarations of the database, else Ibis.

Of a column whose values an enum, a CHECK or a code list declares, no record is read.
"""

from collections.abc import Callable, Collection, Sequence
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
from gencard.controller.drafting.table_declarations import (
    Declaration,
    bases_of_domains,
    declarations,
)
from gencard.controller.records.file_format import silently
from gencard.controller.records.tables.address import TableAddress
from gencard.controller.records.tables.codes import (
    absences,
    as_number,
    compact_date,
    is_float,
    is_timed,
    text_of,
)
from gencard.controller.records.tables.engines import instants_of, open_backend, records_of, runner
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
    number_text,
)


def table_profiles(address: TableAddress, secret: str, progress: Callable[[str], None]) -> list[Profile]:
    """Return the profile of every column of a table.

    Raises:
        InvalidInputError: There are too few records, or the libraries for it are not installed.
        EmptyDatasetError, DatasetUnavailableError: There is nothing to look at.
    """
    with open_backend(address, secret) as backend:
        run = runner(backend, address)
        records = silently(lambda: records_of(backend, address))
        declared_columns = silently(lambda: declarations(backend, address, run))
        count = _rows(run, records.aggregate(n=records.count()))[0]["n"]
        check_enough(count)
        instants = instants_of(backend, records)
        bases = silently(lambda: bases_of_domains(backend, address))
        looks = {
            name: _TableLook(run, records, name, instants, bases.get(name, ""))
            for name in records.columns
        }
        return [
            _profile(look, name, declared_columns.get(name, Declaration()), count, progress)
            for name, look in looks.items()
        ]


def _profile(
    look: "_TableLook",
    name: str,
    declared: Declaration,
    count: int,
    progress: Callable[[str], None],
) -> Profile:
    kind, nullable = look.column.type(), bool(look.records[name].type().nullable)
    if not (declared.reason or declared.labels or declared.bounds):
        if (
            kind.is_string()
            or kind.is_numeric()
            or kind.is_boolean()
            or _is_day(kind)
            or kind.is_unknown()
        ):
            return profile_of(look, name, count, progress, nullable=nullable)
        declared = Declaration(reason=NESTED)
    numbers = [float(label) for label in declared.labels] if kind.is_numeric() else []
    bounds = declared.bounds or ((min(numbers), max(numbers)) if numbers else None)
    low, high = bounds or (0.0, 0.0)
    steps = tuple(low + (high - low) * step / INTERVALS for step in range(INTERVALS + 1))
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
        decimals=_decimals(kind, numbers),
        nullable=nullable,
        declared=True,
        reason=declared.reason,
    )


def _decimals(kind: Any, numbers: Sequence[float]) -> int | None:
    if kind.is_integer() or (numbers and all(map(float.is_integer, numbers))):
        return 0
    return kind.scale if kind.is_decimal() else None


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
        """Return the days that mark a missing or open date, if the column has other days."""
        import ibis  # noqa: PLC0415 - the extra ``ibis``

        if not _is_day(self.column.type()):
            return {}
        test = self.column.cast("date").isin([ibis.date(day) for day in LAST_DAYS])
        if not self._count(~self._absent(marks) & ~test):
            return {}
        return {row["v"]: row["n"] for row in self._groups(self._text, test, len(LAST_DAYS))}

    def kind(self, marks: dict[str, int]) -> tuple[str, str]:
        """Return the kind of all values, and why they are not numbers though they could be."""
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
        present, here = self.present(marks), ~self._absent(marks)
        number = self._number
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
        ((distinct, longest, rare),) = (
            row.values()
            for row in _rows(
                self.run,
                groups.aggregate(
                    distinct=groups.count(),
                    longest=groups.v.cast("string").length().max(),
                    rare=(groups.n < 3).sum(),
                ),
            )
        )
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
        """Numbers that at least so many records have, and how many."""
        groups = self._grouped(self._number, ~self._absent(marks))
        rows = _rows(self.run, groups.filter(groups.n >= least))
        heaps = [(float(row["v"]), int(row["n"])) for row in rows]
        return tuple(sorted(heaps, key=lambda one: (-one[1], one[0])))

    def repeats(self, marks: dict[str, int]) -> Repeats:
        """Return how often values occur."""
        groups = self._grouped(self._text, ~self._absent(marks))
        (row,) = _rows(
            self.run,
            groups.aggregate(
                values=groups.count(),
                repeated=(groups.n > 1).sum(),
                usual=groups.n.cast("float64").quantile(0.95),
                most=groups.n.max(),
            ),
        )
        return Repeats(*(int(row[name] or 0) for name in Repeats._fields))

    def decimals(self, marks: dict[str, int], most: int) -> int | None:
        """Return the least number of decimals of which each number is the nearest float."""
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
        """Return "offset" for instants, "local" for times of day without an offset, else nothing."""
        if self.name in self.of_instants:
            return "offset"
        column = self.column
        if not column.type().is_timestamp():
            return ""
        return "local" if self._count(is_timed(column)) else ""

    def mean(self, marks: dict[str, int]) -> float:
        """Return the mean of the numbers that are present."""
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
        groups = self._grouped(value, here)
        return _rows(self.run, groups.order_by("v").limit(most))

    def _count(self, condition: Any) -> int:
        some = self.records.filter(condition)
        return int(_rows(self.run, some.aggregate(n=some.count()))[0]["n"])
