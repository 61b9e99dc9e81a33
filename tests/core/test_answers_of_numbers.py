"""Answers from sums of psi: least squares of the records' own numbers, to the last digit."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from gencard.core.answers.margins import PsiMargins
from gencard.core.coding import Attribute, Coding, Edges, Labels, codes_of_numbers
from gencard.core.errors import InvalidInputError, LackingMarginalsError, LevelsTooWideError
from gencard.core.scale import Scale
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.psi import Measurement, Psi, SumMeasurement
from gencard.core.statistics.unit_sums import UnitSums
from gencard.formulas.answering import answer_of
from gencard.formulas.conditions import read_condition
from gencard.formulas.formulas import read_factors
from gencard.formulas.numbers import linear_function, needs_of, numbers_used

N = 1_500
CLOSE = 1e-9
"""In standard errors: statsmodels has rounding of its own."""


def scaled(name: str, step: str, edges: str, *, missing: bool = False) -> Attribute:
    cells = tuple(map(Decimal, edges.split()))
    return Attribute(name, Edges.of_scale(cells[:-1], Scale(Decimal(step), cells), missing=missing))


CODING = Coding(
    (
        Attribute("g", Labels(("a", "b", "c"))),
        scaled("x", "1", "0 20 40 100", missing=True),
        scaled("y", "0.01", "0 10 100 1000", missing=True),
        Attribute("h", Labels(("no", "yes"), missing=True)),
        scaled("z", "0.5", "-5 0 2 9"),
        scaled("k", "1", "0 1 2 2"),
    )
)


@pytest.fixture(scope="module")
def records() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    g, h = rng.integers(0, 3, N), rng.integers(0, 2, N)
    x = np.clip(np.rint(rng.gamma(3, 12, N)), 0, 100)
    z = np.clip(np.rint(rng.normal(1, 2, N) * 2) / 2, -5, 9)
    k = rng.integers(0, 3, N).astype(float)
    noise = rng.gamma(1.5, 20, N)
    y = np.clip(np.round(5 + 3 * g + 0.5 * x + 2 * z + noise, 2), 0, 1000)
    frame = pd.DataFrame(
        {
            "g": np.array(["a", "b", "c"])[g],
            "x": np.where(rng.random(N) < 0.05, np.nan, x),
            "y": np.where(rng.random(N) < 0.03, np.nan, y),
            "h": np.where(rng.random(N) < 0.04, None, np.array(["no", "yes"])[h]),
            "z": z,
            "k": k,
        }
    )
    return frame


def coded(frame: pd.DataFrame) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    codes, numbers = {}, {}
    for one in CODING.attributes:
        column = frame[one.name]
        if isinstance(one.coding, Labels):
            place = {label: code for code, label in enumerate(one.coding.labels)}
            codes[one.name] = np.array([place.get(value, len(place)) for value in column])
        else:
            numbers[one.name] = column.to_numpy(dtype=float)
            codes[one.name] = codes_of_numbers(one.name, one.coding, numbers[one.name])
    return codes, numbers


def psi_with(frame: pd.DataFrame, cliques, sums) -> Psi:
    codes, numbers = coded(frame)
    marginals = []
    for clique in cliques or [("g",)]:
        sizes = tuple(CODING.domain.size(name) for name in clique)
        table = np.zeros(sizes, dtype=np.int64)
        np.add.at(table, tuple(codes[name] for name in clique), 1)
        marginals.append(Measurement(clique, table))
    unit_sums = UnitSums(CODING, sums)
    unit_sums.add(codes, numbers)
    held = [m.clique for m in marginals]
    measured = []
    for one, cells in zip(sums, unit_sums.totals(), strict=True):
        counts = cells.counts if one.counts_beside(held, CODING) or not one.of else ()
        values = cells.values
        measured.append(SumMeasurement(one, values, 0.0, counts if one.of else ()))
    return Psi(CODING.domain, tuple(marginals), (), (), tuple(measured))


def asked(frame, text, kind=Analysis.LINEAR, *, where="", missing="drop", options=None, psi=None):
    written = read_factors(text, CODING)
    about = read_condition(where, CODING)[0] if where else ()
    used = numbers_used(written, kind, CODING, fixed={*about})
    needs = needs_of(written, kind, CODING, used, about=about, drop=missing == "drop")
    psi = psi or psi_with(frame, needs.cliques, needs.sums)
    margins = PsiMargins.of(psi, CODING)
    return answer_of(text, kind, margins, CODING, where=where, missing=missing, options=options)


FORMULAS = [
    "y ~ x",
    "y ~ g",
    "y ~ g + x",
    "y ~ g * x",
    "y ~ x + z",
    "y ~ I(2*x - 3) + C(g)",
    "y ~ I(x + z)",
    "y ~ x + z + g + h",
    "y ~ h * z + g",
    "y ~ x - 1",
    "y ~ g + x - 1",
    "y ~ k + x",
    "y ~ k * x",
    "y ~ I(k**2) + z:g",
    "y ~ C(g, Sum) + x",
    "I(y / 10) ~ x + g",
    "k ~ x + z",
    "y ~ g:h + z",
    "y ~ I(z >= 0) + x",
    "y ~ 1",
]


def same_names(names) -> list[str]:
    """Names of columns without spaces, and the parts of products in one order."""
    return [":".join(sorted(name.replace(" ", "").split(":"))) for name in names]


def complete_records(records, text):
    names = [name for name in records if name in read_factors(text, CODING).formula.attributes]
    return records.dropna(subset=names)


@pytest.mark.parametrize("text", FORMULAS)
def test_least_squares_are_those_of_statsmodels_on_the_records(records, text):
    answer = asked(records, text)
    reference = smf.ols(text, complete_records(records, text)).fit()
    own = answer.coefficients
    assert own is not None
    assert not answer.notes
    assert answer.n == reference.nobs
    names = same_names(own.names)
    order = [names.index(name) for name in same_names(reference.params.index)]
    errors = reference.bse.to_numpy()
    params = reference.params.to_numpy()
    assert len(order) == len(params)
    assert (np.abs(np.array(own.params)[order] - params) <= CLOSE * errors).all()
    assert np.allclose(own.bse[order], errors, rtol=1e-9)
    for name in ("rsquared", "rsquared_adj", "scale", "ssr", "llf", "aic", "bic"):
        ours, theirs = answer[name], getattr(reference, name)
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12), name


def test_a_product_of_numbers_groups_both(records):
    answer = asked(records, "y ~ x:z + g")
    assert "x (3 groups):z (3 groups)" in answer.coefficients.names
    assert answer.notes[0].startswith("x, z: each level counts as one number")
