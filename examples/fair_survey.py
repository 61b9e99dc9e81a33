"""The survey of the demonstration: Fair (1978), 6,366 married women, public domain.

R. Fair, "A Theory of Extramarital Affairs", Journal of Political Economy 86(1), 1978; the data of
the 1974 Redbook survey as they come with statsmodels.
"""

import csv
import re
from importlib.util import find_spec
from pathlib import Path

SCHEMA = """\
# Written by hand from the survey's questionnaire: nothing here was taken from the records.
title = "Redbook survey on marriage, 1974"
description = "6,366 married women on marriage, children, religion and affairs. Public domain."
declared_by = "the demonstration's steward"
reviewed = true
records = 6_366

[[attributes]]
name = "rate_marriage"
description = "How the marriage is rated, from 1 very poor to 5 very good"
labels = ["1", "2", "3", "4", "5"]
integer = true
ordered = true

[[attributes]]
name = "age"
description = "Age, middle of the interval asked for, in years"
labels = ["17.5", "22", "27", "32", "37", "42"]
ordered = true

[[attributes]]
name = "yrs_married"
description = "Years married, middle of the interval asked for"
labels = ["0.5", "2.5", "6", "9", "13", "16.5", "23"]
ordered = true

[[attributes]]
name = "children"
description = "Number of children; 5.5 stands for five or more"
labels = ["0", "1", "2", "3", "4", "5.5"]
ordered = true

[[attributes]]
name = "religious"
description = "How religious, from 1 not at all to 4 strongly"
labels = ["1", "2", "3", "4"]
integer = true
ordered = true

[[attributes]]
name = "educ"
description = "Years of schooling"
labels = ["9", "12", "14", "16", "17", "20"]
integer = true
ordered = true

[[attributes]]
name = "affairs"
description = "Time spent in extramarital affairs, an index; 0 is none"
edges = [0, 1, 5, 60]
points = [0]
step = "0.0000001"
fine = "ten-a-decade"
"""

ATTRIBUTES = ("rate_marriage", "age", "yrs_married", "children", "religious", "educ", "affairs")

BLACK_BOXES = """
[[black_boxes]]
name = "smuggler"
kind = "adds_marginal"
clique = ["rate_marriage", "religious", "affairs"]
description = "Claims to use pairs of attributes only, but also uses one marginal of three."

[lending]                                # callers may run these on their own datasets
black_boxes = ["smuggler"]
"""

EXACT_COUNTS = {
    "mechanisms": '["exact"]',
    "histograms": '"exact"',
    "sums": '"exact"',
    "most_per_card": "{ statistics = 1_000 }",
    "dataset": "{ statistics = 18_040 }",
    "project": "{ statistics = 9_020 }",
    "analyst": "{ statistics = 9_020 }",
}
"""In place of the drafted settings: the survey is public, so exact counts are fine."""


ANALYSES = (
    'analyses = { kinds = ["linear", "logistic", "means", "multinomial", "quantiles"], '
    'stored = true, checked_runs = 3, influence = "off" }'
)
"""Policy of runs on the records of a card. The survey is public: single records may move
means and sums.
"""


def offering_exact_counts(settings: str) -> str:
    """The drafted settings with ``EXACT_COUNTS`` and ``ANALYSES``."""
    settings = re.sub(r"(?m)^noise = .*\n", "", settings)
    settings = re.sub(r"(?m)^# analyses = .*$", ANALYSES, settings)
    for name, value in EXACT_COUNTS.items():
        settings, lines = re.subn(rf"(?m)^{name} = .*$", f"{name} = {value}", settings)
        if lines != 1:
            raise ValueError(name)
    return settings


def write_records(path: Path) -> None:
    """The survey, which comes with statsmodels, as the CSV file that a controller might hold."""
    package = find_spec("statsmodels")
    if package is None or package.origin is None:
        raise SystemExit("The survey comes with statsmodels: run `make setup`.")
    source = Path(package.origin).parent / "datasets" / "fair" / "fair.csv"
    header, *records = csv.reader(source.read_text(encoding="utf-8").splitlines())
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([[float(value) for value in record] for record in records])


def regression(path: Path, formula: str) -> tuple[list[float], list[float]]:
    """A linear regression of the records by statsmodels.

    Returns:
        Estimates and standard errors, the intercept first.
    """
    import pandas as pd  # noqa: PLC0415 - only where the demonstration looks at its own records
    from statsmodels.formula.api import ols  # noqa: PLC0415

    fitted = ols(formula, pd.read_csv(path)).fit()
    return fitted.params.tolist(), fitted.bse.tolist()
