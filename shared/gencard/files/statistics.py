"""Files of Stata, SPSS and SAS, by pyreadstat; values as R's haven and PSPP show them.

Codes become their labels, if every value that occurs has one. Codes that the file declares as missing,
Stata's ``.a`` to ``.z`` and empty texts become missing. Dates and times become dates, timestamps
and texts by the format of their variable.
"""

import datetime as dt
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyreadstat

from gencard.core.errors import InvalidInputError
from gencard.files.apart import answered, read_apart
from gencard.files.content import (
    StoredColumn,
    StoredTable,
    check_names,
    code_text,
    distinct_labels,
    ending_of,
    time_texts,
    too_many_bytes,
    whole_or_float,
)

_READERS: dict[str, Callable[..., Any]] = {
    ".dta": pyreadstat.read_dta,
    ".sav": pyreadstat.read_sav,
    ".zsav": pyreadstat.read_sav,
    ".sas7bdat": pyreadstat.read_sas7bdat,
    ".xpt": pyreadstat.read_xport,
}
_WITH_MISSING = (".dta", ".sav", ".zsav", ".sas7bdat")

_CELLS_AT_ONCE = 4_000_000
"""Values that are objects of Python at one time."""

_DAY = 86_400

STATA_DAYS = 3_653
"""Days from 1960-01-01 to 1970-01-01."""

SPSS_DAYS = 141_428
"""Days from 1582-10-14 to 1970-01-01."""


@dataclass(frozen=True, slots=True)
class _Calendar:
    """Numbers of a package for dates.

    Args:
        epoch: First day of the package's calendar, in days since 1970-01-01.
        dates, instants, times: Beginnings of formats of dates, timestamps and times of day.
        date_unit, instant_unit: Seconds of one unit.
    """

    epoch: int
    dates: tuple[str, ...]
    instants: tuple[str, ...]
    times: tuple[str, ...]
    date_unit: float
    instant_unit: float


_SPSS = _Calendar(
    epoch=-SPSS_DAYS,  # in seconds for dates, too
    dates=("date", "adate", "edate", "sdate", "jdate"),
    instants=("datetime", "ymdhms"),
    times=("time",),
    date_unit=1.0,
    instant_unit=1.0,
)
_STATA = _Calendar(
    epoch=-STATA_DAYS,  # leap seconds of %tC are not known here, so it stays a number
    dates=("%td", "%-td", "%d", "%-d"),
    instants=("%tc", "%-tc"),
    times=(),
    date_unit=_DAY,
    instant_unit=0.001,
)
_SAS = _Calendar(
    epoch=-STATA_DAYS,  # of SAS, too
    dates=(
        *("date", "day", "ddmmyy", "mmddyy", "yymmdd", "julian", "julday", "weekdate", "weekdatx"),
        *("worddate", "worddatx", "monyy", "mmyy", "yymm", "yymon", "yyq", "e8601da", "b8601da"),
        *("is8601da", "nldate"),
    ),
    instants=("datetime", "dateampm", "e8601dt", "b8601dt", "dtdate", "mdyampm", "is8601dt"),
    times=("time", "hhmm", "tod", "e8601tm", "b8601tm", "timeampm", "is8601tm"),
    date_unit=_DAY,
    instant_unit=1.0,
)
_CALENDARS = {".dta": _STATA, ".sav": _SPSS, ".zsav": _SPSS, ".sas7bdat": _SAS, ".xpt": _SAS}


def read(path: Path, field: str, *, most_bytes: int) -> StoredTable:
    """Read a file in a process of its own; see ``content.read_stored``."""
    return read_apart("gencard.files.statistics", path, field, most_bytes)


def _read(path: Path, field: str, *, most_bytes: int) -> StoredTable:
    ending = ending_of(path)
    if ending == ".xpt":
        # a transport file that is cut, or holds several data sets, is read wrongly
        content = path.read_bytes()
        if len(content) % _TRANSPORT_BLOCK:
            raise InvalidInputError(field=field, problem="is cut off", advice="Copy the file again.")
        if sum(not one.start() % _TRANSPORT_BLOCK for one in _MEMBER.finditer(content)) > 1:
            problem, advice = "holds several data sets", "Export one data set to each file."
            raise InvalidInputError(field=field, problem=problem, advice=advice)
    meta = _metadata(path, ending)
    names = list(meta.column_names)
    check_names(names, field, [f"in column {place}" for place, _ in enumerate(names, 1)])
    _check_size(meta, meta.number_rows or 0, most_bytes)
    chunks: list[dict[str, pa.Array]] = []
    rows = 0
    for values in _batches(path, ending, max(1, _CELLS_AT_ONCE // max(len(names), 1))):
        chunks.append({name: _array(values[name], meta, name) for name in names})
        rows += len(chunks[-1][names[0]])
        _check_size(meta, rows, most_bytes)
    columns, arrays = [], []
    for name in names:
        kind = pa.string() if _is_text(meta, name) else pa.float64()
        described, array = _column(
            meta, name, pa.chunked_array([one[name] for one in chunks], type=kind), _CALENDARS[ending]
        )
        columns.append(described)
        arrays.append(array)
    return StoredTable(pa.table(dict(zip(names, arrays, strict=True))), tuple(columns))


_TRANSPORT_BLOCK = 80
_MEMBER = re.compile(rb"HEADER RECORD\*{7}MEMB(?:ER|V8) ")


def _metadata(path: Path, ending: str) -> Any:
    # Workaround: pyreadstat fills in missing_ranges only if user_missing is set, also for metadata
    # alone.
    options = {"user_missing": True} if ending in _WITH_MISSING else {}
    _, meta = _READERS[ending](path, metadataonly=True, output_format="dict", **options)
    return meta


def _check_size(meta: Any, rows: int, most_bytes: int) -> None:
    """Refuse a file whose records take too many bytes; compressed files do not show it by their size."""
    if rows * sum(map(int, meta.variable_storage_width.values())) > most_bytes:
        raise too_many_bytes(most_bytes)


def _batches(path: Path, ending: str, size: int) -> Iterator[dict[str, list[Any]]]:
    offset = 0
    while True:
        # Without user_missing, codes that are declared missing come as NaN. Dates stay numbers:
        # pyreadstat's own conversion fails on days beyond the calendar of Python.
        values, _ = _READERS[ending](
            path,
            output_format="dict",
            disable_datetime_conversion=True,
            row_offset=offset,
            row_limit=size,
        )
        rows = len(next(iter(values.values()), ()))
        if rows:
            yield values
        if rows < size:
            return
        offset += rows


def _is_text(meta: Any, name: str) -> bool:
    return bool(meta.readstat_variable_types[name] == "string")


def _array(values: list[Any], meta: Any, name: str) -> pa.Array:
    if _is_text(meta, name):
        return pa.array([value or None for value in values], pa.string())
    return pa.array(values, pa.float64(), from_pandas=True)  # NaN is missing


def _column(
    meta: Any, name: str, values: pa.ChunkedArray, calendar: _Calendar
) -> tuple[StoredColumn, pa.ChunkedArray]:
    description = meta.column_names_to_labels.get(name) or ""
    missing, labels = _missing(meta, name), _labels(meta, name)
    shown, note = values, ""
    if not _is_text(meta, name):
        shown, note = _dated(values, meta.original_variable_types.get(name) or "", calendar)
    if shown is values and labels and _all_in(values, labels):
        places = pc.index_in(values, value_set=pa.array(list(labels), values.type))
        texts = pa.array(list(labels.values()), pa.string())
        shown = pa.chunked_array(
            [pa.DictionaryArray.from_arrays(chunk, texts) for chunk in places.chunks],
            type=pa.dictionary(pa.int32(), pa.string()),
        )
        return StoredColumn(name, description, tuple(labels.values()), missing), shown
    if shown is values and not _is_text(meta, name):
        shown, form = whole_or_float(values), meta.original_variable_types.get(name) or ""
        if not note and _DATE_LIKE.search(form):
            note = f"Its values are numbers of the package's calendar, with the format {form}."
    if labels:
        note = "Some of its values have no label, so values are shown without labels."
    return StoredColumn(name, description, missing=missing, note=note), shown


def _labels(meta: Any, name: str) -> dict[Any, str]:
    """Return the labels of values that are not missing, by code, in the order of codes."""
    labels = meta.variable_value_labels.get(name) or {}
    ranges = meta.missing_ranges.get(name) or []
    given: dict[Any, str]
    if _is_text(meta, name):
        given = {str(code).rstrip(" "): label for code, label in labels.items()}
    else:
        given = {float(code): label for code, label in labels.items() if not isinstance(code, str)}
    kept = {code: label for code, label in given.items() if not _is_missing(code, ranges)}
    return distinct_labels(dict(sorted(kept.items())))


def _is_missing(code: Any, ranges: list[dict[str, Any]]) -> bool:
    alike = (one for one in ranges if isinstance(one["lo"], str) == isinstance(code, str))
    return any(one["lo"] <= code <= one["hi"] for one in alike)


def _missing(meta: Any, name: str) -> tuple[str, ...]:
    labels = meta.variable_value_labels.get(name) or {}
    texts = []
    for one in meta.missing_ranges.get(name) or []:
        if one["lo"] == one["hi"]:
            texts.append(_with_label(one["lo"], labels))
        else:
            texts.append(f"{code_text(one['lo'])} to {code_text(one['hi'])}")
            inside = (code for code in labels if _is_missing(code, [one]))
            texts += [_with_label(code, labels) for code in inside]
    letters = dict.fromkeys(
        chain(
            meta.missing_user_values.get(name) or [],
            () if _is_text(meta, name) else (code for code in labels if isinstance(code, str)),
        )
    )
    return (*texts, *(_with_label(letter, labels, mark=".") for letter in sorted(letters)))


def _with_label(code: Any, labels: dict[Any, str], mark: str = "") -> str:
    label = labels.get(code)
    return f"{mark}{code_text(code)} = {label}" if label else f"{mark}{code_text(code)}"


def _all_in(values: pa.ChunkedArray, labels: dict[Any, str]) -> bool:
    known = pa.array(list(labels), values.type)
    is_known = pc.is_in(pc.drop_null(values), value_set=known)
    return bool(pc.all(is_known).as_py() is not False)


def _dated(values: pa.ChunkedArray, form: str, calendar: _Calendar) -> tuple[pa.ChunkedArray, str]:
    """Return dates, timestamps and times of day in place of numbers, where the format says so."""
    # the kind of a format such as DATE11, without its width; of another format none
    plain = form if form.startswith("%") else form.lower().rstrip("0123456789.")
    plain = _SEPARATED.sub(r"\1", plain)
    kinds = {"instant": calendar.instants, "date": calendar.dates, "time": calendar.times}
    fits = plain.startswith if form.startswith("%") else lambda forms: plain in forms
    kind = next((kind for kind, forms in kinds.items() if fits(forms)), "")
    if not kind:
        return values, ""
    unit = calendar.date_unit if kind == "date" else calendar.instant_unit
    seconds = values.to_numpy().astype(np.float64) * (1.0 if kind == "time" else unit)
    absent = np.isnan(seconds)
    whole = np.round(np.where(absent, 0.0, seconds), 6)
    if kind == "time":
        if np.any((whole < 0) | (whole >= _DAY)):
            return values, "Its values are times outside of a day, in seconds."
        midnight = dt.datetime.min
        times = [(midnight + dt.timedelta(seconds=second)).time() for second in whole.tolist()]
        texts = pa.array(time_texts(times), pa.string(), mask=absent)
        return pa.chunked_array([texts]), "Its values are times of day."
    if np.any(np.abs(whole) > _DAY * 4_000_000):  # over 10,000 years
        return values, "Some of its dates are outside of the calendar, so its values are numbers."
    if np.all(whole % _DAY == 0):
        days = (whole // _DAY).astype(np.int32) + np.int32(calendar.epoch)
        return pa.chunked_array([pa.array(days, pa.int32(), mask=absent).cast(pa.date32())]), ""
    micros = np.round((whole + calendar.epoch * float(_DAY)) * 1e6).astype(np.int64)
    return pa.chunked_array([pa.array(micros, pa.int64(), mask=absent).cast(pa.timestamp("us"))]), ""


_SEPARATED = re.compile(r"^(ddmmyy|mmddyy|yymmdd|yymm|mmyy|yyq)[bcdnps]$")
"""Formats of SAS whose last letter names the separator."""

_DATE_LIKE = re.compile(r"date|yy|%t|moyr|qyr|wkyr|nengo|eurdf|8601|julian|pdjul", re.IGNORECASE)


if __name__ == "__main__":
    sys.exit(answered(lambda path, field, most: _read(path, field, most_bytes=int(most))))
