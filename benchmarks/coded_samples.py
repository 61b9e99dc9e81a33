"""Four samples beside the repository, coded by schemas written here: for analyses of coded records.

Fair (1978), from statsmodels; UCI Adult; SD2011, Social Diagnosis 2011, from synthpop; ONS 2011 Census
Microdata Teaching File, first 50,000 records. Records with a missing value are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.datasets.fair

from gencard.core.card.sums import level_values
from gencard.core.coding import Attribute, Coding, Edges, Labels, codes_of_numbers
from gencard.core.dataset import Dataset

_FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """Coded records with what their levels mean.

    Args:
        values: For attributes that are numbers, the number of each code.
        frame: The records before they were coded.
    """

    dataset: Dataset
    coding: Coding
    values: Mapping[str, Sequence[float]]
    frame: pd.DataFrame

    def codes(self, name: str) -> Any:
        return self.dataset.column(name).astype(int)

    def numbers(self, name: str) -> Any:
        """The number of each record."""
        return np.asarray(self.values[name], dtype=float)[self.codes(name)]

    def names(self, name: str) -> Any:
        """The level of each record; levels that nobody has are no categories."""
        levels = pd.Index(self.coding.attribute(name).coding.level_names)
        return pd.Categorical.from_codes(self.codes(name), levels).remove_unused_categories()


@cache
def sample(name: str) -> Coded:
    """One of ``SAMPLES``.

    Raises:
        SystemExit: The file is not there.
    """
    return SAMPLES[name]()


def _coded(frame: Any, codings: Mapping[str, Labels | Edges]) -> Coded:
    frame = frame[list(codings)].dropna()
    columns = []
    for name, one in codings.items():
        if isinstance(one, Edges):
            columns.append(codes_of_numbers(name, one, frame[name].to_numpy(dtype=float)))
        else:
            columns.append(pd.Index(one.labels).get_indexer(frame[name].astype(str)))
    coding = Coding(tuple(Attribute(name, one) for name, one in codings.items()))
    return Coded(Dataset.of_columns(coding.domain, columns), coding, level_values(coding), frame)


def _labels(frame: Any, name: str, *, integer: bool = False) -> Labels:
    levels = (
        sorted(frame[name].dropna().unique())
        if integer
        else sorted(map(str, frame[name].dropna().unique()))
    )
    return Labels(tuple(map(str, levels)), integer=integer, ordered=integer)


def _fair() -> Coded:
    frame = statsmodels.datasets.fair.load_pandas().data
    for name in ("rate_marriage", "religious", "educ", "occupation"):
        frame[name] = frame[name].astype(int)
    codings: dict[str, Labels | Edges] = {
        name: _labels(frame, name, integer=True)
        for name in ("rate_marriage", "religious", "educ", "occupation")
    }
    codings |= {
        "age": Edges((17, 20, 25, 30, 35, 40, 45)),
        "yrs_married": Edges((0, 1, 4, 7, 11, 15, 18, 25)),
        "children": Edges((0, 0.5, 1.5, 2.5, 3.5, 4.5, 6)),
        "affairs": Edges((0, 0.01, 1, 5, 60)),
        "any_affair": Labels(("no", "yes")),
    }
    frame["any_affair"] = np.where(frame["affairs"] > 0, "yes", "no")
    return _coded(frame, codings)


def _adult() -> Coded:
    frame = _read("adult_raw").rename(columns=lambda name: name.replace("-", "_"))
    named = ("workclass", "marital_status", "relationship", "race", "sex", "income")
    codings: dict[str, Labels | Edges] = {name: _labels(frame, name) for name in named}
    codings |= {
        "education_num": _labels(frame, "education_num", integer=True),
        "age": Edges((16, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 95), decimals=0),
        "hours_per_week": Edges((0, 20, 30, 35, 40, 45, 50, 60, 80, 100), decimals=0),
    }
    return _coded(frame, codings)


def _survey() -> Coded:
    frame = _read("sd2011")
    ordered = ("edu", "ls", "placesize", "agegr")
    codings: dict[str, Labels | Edges] = {
        name: _labels(frame, name) for name in ("sex", "smoke", "sport", "region", "marital", "trust")
    }
    codings |= {name: Labels(tuple(frame[name].cat.categories), ordered=True) for name in ordered}
    codings |= {
        "age": Edges((16, 25, 35, 45, 55, 65, 75, 98), decimals=0),
        "depress": Edges((0, 3, 6, 9, 12, 15, 18, 21), decimals=0),
        "height": Edges((110, 155, 160, 165, 170, 175, 180, 185, 205)),
        "weight": Edges((35, 50, 60, 70, 80, 90, 100, 150)),
    }
    return _coded(frame, codings)


def _census() -> Coded:
    frame = _read("ons2011_first50k").rename(columns=lambda name: name.replace(" ", "_").lower())
    integer = ("age", "hours_worked_per_week", "approximated_social_grade", "health")
    named = (
        *("region", "sex", "marital_status", "student", "ethnic_group", "economic_activity"),
        *("family_composition", "country_of_birth", "religion", "occupation", "industry"),
    )
    codings: dict[str, Labels | Edges] = {name: _labels(frame, name, integer=True) for name in integer}
    codings |= {name: _labels(frame, name) for name in named}
    return _coded(frame, codings)


def _read(name: str) -> Any:
    path = _FOLDER / f"{name}.parquet"
    if not path.exists():
        raise SystemExit(f"needs {path.name} in ../shared/data, beside the repository")
    return pd.read_parquet(path)


SAMPLES: Mapping[str, Callable[[], Coded]] = {
    "fair": _fair,
    "adult": _adult,
    "sd2011": _survey,
    "census": _census,
}
