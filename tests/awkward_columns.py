"""Columns as people store them, and the code of each value: the same in every file and engine.

A column is what an array holds; in CSV it is what DuckDB writes of it, None being an empty cell.
"""

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gencard.core.coding import PLAIN, Edges, Labels, Reading, days_of_date

LARGE = 2**53
NAN = float("nan")
_YEARS = tuple(float(days_of_date(dt.date(year, 1, 1))) for year in (1900, 2000, 2100))
_PERIODS = Edges(_YEARS, missing=True, decimals=0, dates=True)
_LAST = Edges((_YEARS[1], _YEARS[2], float(days_of_date(dt.date.max))), decimals=0, dates=True)
_AGES = Reading(age_at=dt.date(2020, 1, 1))


class Awkward(NamedTuple):
    """A column under a coding.

    Args:
        codes: Of the values; None if the column is refused because a value has no level.
        only_stored: A text file, which stores no numbers, is refused: 1.0 is another text than 1.
    """

    values: pa.Array
    coding: Labels | Edges
    codes: tuple[int, ...] | None
    reading: Reading = PLAIN
    only_stored: bool = False


def _column(
    values: list[Any],
    coding: Labels | Edges,
    *codes: int,
    kind: pa.DataType | None = None,
    reading: Reading = PLAIN,
    only_stored: bool = False,
) -> Awkward:
    return Awkward(pa.array(values, kind or pa.string()), coding, codes or None, reading, only_stored)


def _text(*labels: str, missing: bool = False) -> Labels:
    return Labels(labels, missing=missing, text=True)


def _mixed(*labels: str, missing: bool = False) -> Labels:
    """Labels of an earlier schema; by value where all are numbers."""
    return Labels(labels, missing=missing)


_DECIMALS, _WHOLE, _LONG = pa.decimal128(10, 2), pa.decimal128(38, 0), pa.int64()

COLUMNS: Mapping[str, Awkward] = {
    "postcodes": _column(["01067", "1067", "99999"], _text("01067", "1067", "99999"), 0, 1, 2),
    "postcodes of before": _column(["01067", "1067", "2"], _mixed("1067", "2"), 0, 0, 1),
    "a plus before zeros": _column(["+049", "049", "49"], _text("+049", "049", "49"), 0, 1, 2),
    "a plus": _column(["+49", "49"], _mixed("49"), 0, 0),
    "16 digits": _column([f"{LARGE + 1}", f"{LARGE}"], _text(f"{LARGE}", f"{LARGE + 1}"), 1, 0),
    "16 digits of before": _column([f"{LARGE + 1}", f"{LARGE}"], _mixed(f"{LARGE}", "7")),
    "one of 16 digits": _column([f"{LARGE}", "7", "7.0"], _mixed(f"{LARGE}", "7"), 0, 1, 1),
    "large whole": _column([LARGE + 1, LARGE], _text(f"{LARGE}", f"{LARGE + 1}"), 1, 0, kind=_LONG),
    "large whole of before": _column([LARGE + 1, 7], _mixed(f"{LARGE}", "7"), kind=_LONG),
    "large decimal": _column(
        [Decimal(10**30 + 1), Decimal(10**30)], _text(f"{10**30}", f"{10**30 + 1}"), 1, 0, kind=_WHOLE
    ),
    "large decimal of before": _column([Decimal(10**30 + 1)], _mixed(f"{10**30}"), kind=_WHOLE),
    "large float": _column([1e16, 7.0], _mixed(f"{10**16}", "7"), 0, 1, kind=pa.float64()),
    "digits E digits": _column(["1E5", "10E4", "100000"], _text("100000", "10E4", "1E5"), 2, 1, 0),
    "digits E digits of before": _column(["1E5", "100000"], _mixed("100000", "1"), 0, 0),
    "underscores": _column(["1_0", "10"], _text("10", "1_0"), 1, 0),
    "an underscore is no number": _column(["1_0", "10"], _mixed("10", "20")),
    "labels with underscores": _column(["1_0", "2_0"], _mixed("1_0", "2_0"), 0, 1),
    "digits of Arabic": _column(["١٢", "12"], _text("12", "١٢"), 1, 0),
    "digits of Arabic are no number": _column(["١٢", "12"], _mixed("12", "13")),
    "floats of labels": _column([1.0, 2.0, NAN, None], _mixed("1", "2", missing=True), 0, 1, 2, 2,
                                kind=pa.float64()),
    "floats of texts": _column([1.0, 2.0, None], _text("1", "2", missing=True), 0, 1, 2,
                               kind=pa.float64(), only_stored=True),
    "floats of mixed labels": _column([1.0, 2.0, None], _mixed("1", "2", "N", missing=True), 0, 1, 3,
                                      kind=pa.float64()),
    "float of no text": _column([1.5, 1.0], _text("1", "2"), kind=pa.float64()),
    "floats of half the digits": _column([0.1, 0.7], _mixed("0.1", "0.7"), 0, 1, kind=pa.float32()),
    "decimals": _column([Decimal("1.50"), Decimal(2)], _mixed("1.5", "2"), 0, 1, kind=_DECIMALS),
    "decimals of texts": _column([Decimal("1.50"), Decimal(2)], _text("1.5", "2"), 0, 1, kind=_DECIMALS,
                                 only_stored=True),
    "whole of texts": _column([1, 2, None], _text("1", "2", missing=True), 0, 1, 2, kind=_LONG),
    "whole of mixed labels": _column([1, 2], _mixed("1", "2", "N"), 0, 1, kind=pa.int32()),
    "1.0 of whole numbers": _column([1, 2], _mixed("1.0", "N", "2"), 0, 2, kind=_LONG),
    "1.0 of whole numbers of texts": _column([1, 2], _text("1.0", "2"), 0, 1, kind=_LONG,
                                             only_stored=True),
    "no zeros of whole numbers": _column([1, 2], _text("01", "02"), kind=_LONG),
    "1.0 of mixed labels": _column(["1.0", "1", "N"], _mixed("1", "N"), 0, 0, 1),
    "1.0 of a text": _column(["1.0", "1"], _text("1", "2")),
    "1.0 is a text": _column(["1.0", "1"], _text("1", "1.0"), 1, 0),
    "007 of mixed labels": _column(["007", "7"], _mixed("7", "N")),
    "007 among mixed labels": _column(["007", "7", "N"], _mixed("007", "7", "N"), 0, 1, 2),
    "spaces around a number": _column([" 1", "2 "], _mixed("1", "2"), 0, 1),
    "spaces around a text": _column([" 1", "1"], _text("1", "2")),
    "spaces in texts": _column([" 1", "1"], _text("1", " 1"), 1, 0),
    "other of numbers": _column(["1", "5", "99"], _mixed("1", "99"), 0, 1, 1,
                                reading=Reading(other="99")),
    "other of numbers takes words": _column(["1", "x"], _mixed("1", "99"), 0, 1,
                                            reading=Reading(other="99")),
    "other of stored numbers": _column([1, 5, None], _mixed("1", "99", missing=True), 0, 1, 2,
                                       kind=_LONG, reading=Reading(other="99")),
    "other takes no missing value": _column([1.0, 5.0, None], _mixed("1", "99"), kind=pa.float64(),
                                            reading=Reading(other="99")),
    "other takes floats that are none": _column([1.0, NAN, None], _mixed("1", "N", missing=True),
                                                0, 1, 2, kind=pa.float64(),
                                                reading=Reading(other="N")),
    "other of texts": _column(["01", "1"], _text("01", "other"), 0, 1, reading=Reading(other="other")),
    "marks of numbers": _column(["1", "-9", "-9.0"], _mixed("1", "2", missing=True), 0, 2, 2,
                                reading=Reading(("-9",))),
    "marks of texts": _column(["01", "-9"], _text("01", "1", missing=True), 0, 2,
                              reading=Reading(("-9",))),
    "marks of texts are texts": _column(["01", "-9.0"], _text("01", "1", missing=True),
                                        reading=Reading(("-9",))),
    "099 is no mark 99": _column(["099", "99"], _text("099", missing=True), 0, 1,
                                 reading=Reading(("99",))),
    "099 is no mark 99 of before": _column(["099", "99", "N"], _mixed("099", "N", missing=True), 0, 2, 1,
                                           reading=Reading(("99",))),
    "1 is no mark 1.0": _column(["1", "1.0", "2"], _mixed("1", "2", missing=True), 0, 2, 1,
                                reading=Reading(("1.0",))),
    "marks of stored numbers": _column([1.0, -9.0], _text("1", missing=True), 0, 1, kind=pa.float64(),
                                       reading=Reading(("-9",)), only_stored=True),
    "empty texts": _column(["", None, "a"], _mixed("a", missing=True), 1, 1, 0),
    "empty texts that are no level": _column(["", "a"], _mixed("a")),
    "empty texts of codes": _column(["", None, "01"], _text("01", missing=True), 1, 1, 0),
    "empty texts of numbers": _column(["", None, "1"], _mixed("1", "2", missing=True), 2, 2, 0),
    "empty amounts": _column(["", None, "1"], Edges((0.0, 2.0), missing=True), 1, 1, 0),
    "a label missing": _column(["missing", None], _mixed("missing", missing=True), 0, 1),
    "words are missing if they are declared": _column(["<NA>", "#N/A", "NULL", "a"],
                                                      _mixed("a", missing=True), 1, 1, 1, 0,
                                                      reading=Reading(("<NA>", "#N/A", "NULL"))),
    "undeclared words are not": _column(["NULL", "a"], _mixed("a", missing=True)),
    "truth values": _column(["TRUE", "False", "true"], Labels(("false", "true"), boolean=True), 1, 0, 1),
    "stored truth values": _column([True, False], Labels(("false", "true"), boolean=True), 1, 0,
                                   kind=pa.bool_()),
    "an amount with an underscore": _column(["1_000"], Edges((0.0, 1e4))),
    "an amount with two signs": _column(["+-5"], Edges((-10.0, 10.0))),
    "an amount in hexadecimal digits": _column(["0x1A"], Edges((0.0, 100.0))),
    "an amount without an end": _column(["inf"], Edges((0.0, 100.0))),
    "an amount beyond floats": _column(["1e400"], Edges((0.0, 100.0))),
    "an amount below all floats": _column(["-1e400"], Edges((-100.0, 100.0))),
    "digits beyond floats": _column(["9" * 400], Edges((0.0, 100.0))),
    "amounts beside zero": _column(["1e-400", "-1e-400", "5e-324", "-5e-324", "1e-310", "1"],
                                   Edges((-1.0, 0.0, 1e-320, 1.0)), 1, 1, 1, 0, 2, 2),
    "digits beside zero": _column(["0." + "0" * 400 + "1", "1"], Edges((0.0, 1.0, 2.0))),
    "many digits": _column(["0." + "0" * 150 + "1", "1." + "3" * 180, "0" * 150 + "1"],
                           Edges((0.0, 1.0, 2.0)), 0, 1, 1),
    "exponents of many digits": _column(["1e-99999999999", "0e99999999999", "2e-0000000000001", "1"],
                                        Edges((0.0, 0.1, 2.0)), 0, 0, 1, 1),
    "labels beside zero": _column(["1e-400", "0", "1"], _mixed("0", "1"), 0, 0, 1),
    "an exponent beyond all": _column(["1e99999999999"], Edges((0.0, 1.0))),
    "a label beyond floats": _column(["1e400", "1"], _mixed("0", "1")),
    "floats beside zero": _column([5e-324, -5e-324, 1e-310, 1.0], Edges((-1.0, 0.0, 1e-320, 1.0)),
                                  1, 0, 2, 2, kind=pa.float64()),
    "amounts as texts": _column(["1e2", " 5 ", ".5", "007", "+3.2"], Edges((0.0, 6.0, 200.0)),
                                1, 0, 0, 1, 0),
    "amounts that are none": _column(["NaN", "nan", None, "1"], Edges((0.0, 2.0), missing=True),
                                     1, 1, 1, 0),
    "days as whole numbers": _column([20190305, 19990101, 20200229, None], _PERIODS, 1, 0, 1, 2,
                                     kind=_LONG),
    "days as floats": _column([20190305.0, 19990101.0, None], _PERIODS, 1, 0, 2, kind=pa.float64()),
    "days as floats that are none": _column([20190305.0, NAN, None], _PERIODS, 1, 2, 2,
                                             kind=pa.float64(), reading=Reading(("nan",))),
    "the last day": _column([dt.date(9999, 12, 31), dt.date(2020, 1, 1)], _LAST, 1, 0, kind=pa.date32()),
    "no such day": _column([20190231, 20190228], _PERIODS, kind=_LONG),
    "no leap year": _column([19000229], _PERIODS, kind=_LONG),
    "a day of another century": _column([17991231], _PERIODS, kind=_LONG),
    "births as whole numbers": _column([19900101, 20100102], Edges((0.0, 18.0, 100.0), decimals=0), 1, 0,
                                       kind=_LONG, reading=_AGES),
}  # fmt: skip

ROWS = 12


def stored() -> pa.Table:
    """All columns beside the number of each record; each repeats its values."""
    names = [f"c{axis}" for axis in range(len(COLUMNS))]
    places = [np.arange(ROWS) % len(one.values) for one in COLUMNS.values()]
    columns = [one.values.take(pa.array(at)) for one, at in zip(COLUMNS.values(), places, strict=True)]
    return pa.table([pa.array(range(ROWS), pa.int64()), *columns], ["row", *names])
