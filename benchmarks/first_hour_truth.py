"""Figures of a file of records, read by pandas, and differences of rows and answers from them.

Nothing here uses Gencard's own readers: values are texts as pandas reads them, and the schema says which
of them are numbers, dates, labels and missing.
"""

import io
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm

Declared = Mapping[str, Any]
"""One attribute of ``schema.toml``."""

_FOUND_MISSING = ("", "NA", "NaN", "nan", "<NA>", "NULL", "null", "None", "#N/A")


@dataclass(frozen=True, slots=True)
class Differences:
    """Differences between rows and records, by column.

    Args:
        means: Of means, in standard deviations of the file.
        shares: Largest one of shares of a label, or of missing values.
        altered: Columns with a value in the rows that the file has not and the schema does not declare.
        sparse: Largest one of means of numbers that less than a quarter of the rows have, in their
            standard errors; these are not in ``means``.
    """

    means: Mapping[str, float]
    shares: Mapping[str, float]
    altered: tuple[str, ...] = ()
    sparse: float = 0.0

    @property
    def mean(self) -> float:
        return _largest(self.means)[1]

    @property
    def share(self) -> float:
        return _largest(self.shares)[1]

    @property
    def compared(self) -> int:
        return len(self.shares)

    @property
    def worst(self) -> tuple[str, str]:
        """Column of the largest mean difference, and of the largest difference of shares."""
        return _largest(self.means)[0], _largest(self.shares)[0]

    def without(self, names: Collection[str]) -> tuple[str, float]:
        """Return the largest difference of means of other numbers than these, after its name."""
        return _largest({name: gap for name, gap in self.means.items() if name not in names})


def _largest(gaps: Mapping[str, float]) -> tuple[str, float]:
    name, gap = max(gaps.items(), key=itemgetter(1), default=("", 0.0))
    return name, float(gap)


NOTHING = Differences({}, {})


def read_file(path: Path, written: Mapping[str, Any]) -> pd.DataFrame:
    """Read a file of records as texts.

    Args:
        written: ``format`` of the settings.
    """
    if path.suffix == ".parquet":
        return _as_texts(pd.read_parquet(path))
    if path.suffix in (".xlsx", ".xls", ".ods"):
        return _as_texts(pd.read_excel(path))
    if path.suffix in (".dta", ".sav", ".zsav"):
        import pyreadstat  # noqa: PLC0415 - not everywhere

        read = pyreadstat.read_dta if path.suffix == ".dta" else pyreadstat.read_sav
        return _as_texts(read(str(path), apply_value_formats=True, formats_as_category=False)[0])
    content: Any = path
    if written.get("line_ends"):  # pandas takes the first end for all
        content = io.BytesIO(b"\n".join(path.read_bytes().splitlines()))
    frame = pd.read_csv(
        content,
        dtype=str,
        keep_default_na=False,
        sep=written.get("delimiter") or ",",
        encoding=written.get("encoding") or "utf-8",
        skiprows=written.get("skip", 0),
        quotechar=written.get("quote") or '"',
        skip_blank_lines=True,
    )
    frame = frame.rename(columns=lambda name: name.removeprefix("\ufeff"))
    if written.get("trim"):
        frame = frame.rename(columns=str.strip).map(str.strip)
    return frame


def _as_texts(frame: pd.DataFrame) -> pd.DataFrame:
    def text(value: object) -> str:
        if value is None or value is pd.NaT:
            return ""
        if isinstance(value, float):  # numpy's, too; whole numbers are floats where some are missing
            is_whole = value.is_integer() and abs(value) < 2**53
            return "" if math.isnan(value) else str(int(value) if is_whole else value)
        return str(value)

    return frame.astype(object).map(text)


def differences(
    file: pd.DataFrame, rows: pd.DataFrame, schema: Declared, written: Mapping[str, Any]
) -> Differences:
    """Compare all columns of the rows with the file."""
    means: dict[str, float] = {}
    shares: dict[str, float] = {}
    altered: list[str] = []
    sparse = [0.0]
    for one in schema["attributes"]:
        name = one["name"]
        if name not in rows or not _is_as_stored(one):
            continue
        texts, made = file[name], rows[name]
        if "labels" in one:
            shares[name], known = _labels(texts, made, one)
        else:
            own, theirs = _numbers(texts, one, written), _numbers(made, one, {})
            shares[name] = abs(own.isna().mean() - theirs.isna().mean())
            known = _are_on_grid(theirs, made, one)
            spread = own.std()
            gap, present = abs(own.mean() - theirs.mean()), theirs.notna().sum()
            if 4 * present >= len(made) or not spread > 0:
                means[name] = gap / spread if spread > 0 else 0.0
            else:
                sparse.append(gap / spread * math.sqrt(present) if present else 0.0)
        if not known:
            altered.append(name)
    return Differences(means, shares, tuple(altered), float(max(sparse)))


def _is_as_stored(one: Declared) -> bool:
    """Whether values are those of the column: no age, time of day or derived attribute."""
    return not {"of", "time_of", "age_at"} & one.keys()


def _labels(texts: pd.Series, made: pd.Series, one: Declared) -> tuple[float, bool]:
    """The largest difference of shares; whether all labels of the rows are the file's or declared."""
    by = _key(one)
    own, theirs = (_counted(column, by) for column in (texts, made))
    declared = {by(label) for label in map(str, one["labels"])} | {None}
    known = {*own} | declared
    if "other" in one:  # all that is not declared counts as it
        for key in {*own} - declared:
            own[by(str(one["other"]))] += own.pop(key)
    gaps = (abs(own[key] / len(texts) - theirs[key] / len(made)) for key in {*own, *theirs})
    return max(gaps), {*theirs} <= known


def _counted(texts: pd.Series, by: Callable[[str], object]) -> Counter[object]:
    counts = Counter[object]()
    for text, count in Counter(texts).items():
        counts[by(text)] += count
    return counts


def _key(one: Declared) -> Callable[[str], object]:
    """Return the key by which texts are compared: a number if all labels are, None if missing."""
    labels, tokens = [*map(str, one["labels"])], _tokens(one)
    numbers = not one.get("text") and all(map(_is_number, labels))
    numbers = numbers and len({float(label) for label in labels}) == len(labels)
    boolean = {label.lower() for label in labels} == {"true", "false"}

    def key(text: str) -> object:
        if text in labels and text not in tokens:
            return float(text) if numbers else text
        if text in tokens or (text in _FOUND_MISSING and text not in labels):
            return None
        if _is_number(text):
            value = float(text)
            if any(_is_number(token) and float(token) == value for token in tokens):
                return None
            same = [label for label in labels if _is_number(label) and float(label) == value]
            if numbers:
                return value
            return same[0] if len(same) == 1 and not one.get("text") else text
        return text.lower() if boolean else text

    return key


def _tokens(one: Declared) -> tuple[str, ...]:
    missing = one.get("missing", False)
    return ("",) if isinstance(missing, bool) else ("", *map(str, missing))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?", text.strip()) is not None


def _numbers(texts: pd.Series, one: Declared, written: Mapping[str, Any]) -> pd.Series:
    """Numbers, or days since 1970; NaN where missing."""
    present = texts.where(~texts.isin([*_tokens(one), *_FOUND_MISSING]))
    if "dates" in one:
        return _days(present, one, written)
    if thousands := written.get("thousands"):
        present = present.str.replace(thousands, "")
    if (decimal := written.get("decimal", ".")) != ".":
        present = present.str.replace(decimal, ".")
    numbers = pd.to_numeric(present, errors="coerce")
    tokens = [float(token) for token in _tokens(one) if _is_number(token)]
    return numbers.where(~numbers.isin(tokens))


def _days(texts: pd.Series, one: Declared, written: Mapping[str, Any]) -> pd.Series:
    if zone := one.get("zone"):
        instants = pd.to_datetime(texts, utc=True, errors="coerce", format="ISO8601")
        local = instants.dt.tz_convert(zone).dt.tz_localize(None).dt.normalize()
        plain = pd.to_datetime(texts, format="%Y-%m-%d", errors="coerce")
        days = plain if plain.notna().sum() == texts.notna().sum() else local
    else:
        days = pd.Series(pd.NaT, index=texts.index, dtype="datetime64[ns]")
        for form in (*written.get("dates", ()), "ISO8601", "%Y%m%d"):
            read = pd.to_datetime(texts, format=form, errors="coerce")
            days = days.fillna(read.astype("datetime64[ns]"))
    return (days - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)


def _are_on_grid(theirs: pd.Series, made: pd.Series, one: Declared) -> bool:
    """Whether numbers of the rows could be the file's: within its range, with as many decimals."""
    step = float(one.get("step", 1 if one.get("integer") or "dates" in one else 0))
    low, high = (_edges(one)[place] for place in (0, -1))
    present = theirs.dropna().to_numpy()
    if len(present) and (present.min() < low - 1e-9 or present.max() > high + 1e-9):
        return False
    unread = theirs.isna() & ~made.isin([*_tokens(one), *_FOUND_MISSING])
    on_grid = not step or np.allclose(present / step, np.rint(present / step), rtol=0, atol=1e-4)
    return bool(on_grid and not unread.any())


def _edges(one: Declared) -> list[float]:
    if "dates" in one:
        first = pd.Timestamp("1970-01-01")
        return [(pd.Timestamp(day) - first) / pd.Timedelta(days=1) for day in one["dates"]]
    return [*map(float, one["edges"])]


@dataclass(frozen=True, slots=True)
class Question:
    """A linear regression of a number.

    Args:
        number: Another number, as it is; "" for none.
        group: An attribute with few labels; "" for none.
    """

    response: str
    number: str
    group: str

    @property
    def formula(self) -> str:
        """The question in the words of formulas."""
        terms = [f"Q({name!r})" for name in (self.number, self.group) if name]
        return f"Q({self.response!r}) ~ {' + '.join(terms) or '1'}"


def question_of(schema: Declared) -> Question | None:
    """The first number by the next one and the first group; None without a number."""
    stored = [*filter(_is_as_stored, schema["attributes"])]
    numbers = [one["name"] for one in stored if "edges" in one and "step" in one]
    groups = [
        one["name"]
        for one in schema["attributes"]
        if 2 <= len(one.get("labels", ())) <= 8 and "ordered" not in one and not _missing(one)
    ]
    if not numbers:
        return None
    return Question(numbers[-1], numbers[0] if len(numbers) > 1 else "", (groups or [""])[0])


def _missing(one: Declared) -> bool:
    return bool(one.get("missing", False))


def slope_gap(
    question: Question,
    answer: Mapping[str, Any],
    file: pd.DataFrame,
    schema: Declared,
    written: Mapping[str, Any],
) -> float:
    """The largest difference of a coefficient from the file's own, in standard errors of the file's.

    Raises:
        KeyError: The answer lacks a coefficient.
    """
    declared = {one["name"]: one for one in schema["attributes"]}
    numbers = {
        name: _numbers(file[name], declared[name], written)
        for name in (question.response, question.number)
        if name
    }
    design: dict[str, Any] = {"Intercept": np.ones(len(file))}
    if question.number:
        design[f"Q({question.number!r})"] = numbers[question.number]
    if question.group:
        one = declared[question.group]
        by = _key(one)
        codes = file[question.group].map(by)
        for label in one["labels"][1:]:
            chosen = (codes == by(str(label))).astype(float)
            if chosen.any():
                design[f"Q({question.group!r})[T.{label}]"] = chosen
    frame = pd.DataFrame(design).assign(response=numbers[question.response]).dropna()
    # by standardised columns, or floats lose the slope of numbers such as 19647336097927
    centred = frame.drop(columns="Intercept") - frame.drop(columns="Intercept").mean()
    response, scale = centred.pop("response"), centred.std()
    fit = sm.OLS(response, centred / scale).fit()
    # the constant is a coefficient, too
    errors = fit.bse / scale * math.sqrt(fit.df_resid / max(fit.df_resid - 1, 1))
    slopes = fit.params / scale
    given = {name.lower(): one for name, one in zip(answer["names"], answer["params"], strict=True)}
    gaps = [abs(given[name.lower()] - slopes[name]) / errors[name] for name in map(str, centred)]
    return float(max(gaps, default=0.0))
