"""Answers from sums of psi: least squares of the records' own numbers, to the last digit."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import ceil

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.oneway import anova_oneway

from gencard.analysis.answers.answer import Use, numbers_of, rule_of
from gencard.analysis.answers.intervals import AT_MOST
from gencard.analysis.answers.levels import level_means, quantile_of_cells
from gencard.analysis.answers.linear import gram_of
from gencard.analysis.answers.margins import Margins, Present, PsiMargins
from gencard.analysis.answers.noisy_estimates import Moved, name_of
from gencard.analysis.answers.noisy_margins import Bootstrap, margins_of
from gencard.analysis.formulas.answering import answer_of
from gencard.analysis.formulas.formulas import read_factors
from gencard.analysis.formulas.model_matrix import read_condition, summed_columns
from gencard.analysis.formulas.numbers import needs_of, numbers_used
from gencard.analysis.formulas.summing import question_needs
from gencard.core.card.sums import Sum as SumOf
from gencard.core.card.sums import product_ends
from gencard.core.coding import Attribute, Coding, Edges, Labels, codes_of_numbers
from gencard.core.errors import InvalidInputError, LevelsTooWideError, NoiseDrownsError
from gencard.core.scale import Scale
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.linear import UnitSums
from gencard.core.statistics.psi import HistogramMeasurement, Measurement, Psi, SumMeasurement

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
    return pd.DataFrame(
        {
            "g": np.array(["a", "b", "c"])[g],
            "x": np.where(rng.random(N) < 0.05, np.nan, x),
            "y": np.where(rng.random(N) < 0.03, np.nan, y),
            "h": np.where(rng.random(N) < 0.04, None, np.array(["no", "yes"])[h]),
            "z": z,
            "k": k,
        }
    )


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
    margins = PsiMargins(psi, CODING)
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


@pytest.mark.parametrize("where", ["", "g != 'c'", "x < 40 and h == 'yes'"])
@pytest.mark.parametrize("text", ["y ~ z", "y ~ g * z", "y ~ 1"])
def test_conditions_choose_records(records, text, where):
    chosen = complete_records(records, text)
    if where:
        chosen = chosen.query(where, engine="python")
    own, reference = asked(records, text, where=where), smf.ols(text, chosen).fit()
    assert own.n == reference.nobs
    assert np.allclose(own.coefficients.params, reference.params, rtol=1e-10, atol=1e-10)
    assert np.allclose(own.coefficients.bse, reference.bse, rtol=1e-9)


def test_above_forty_columns_floats_are_corrected_by_exact_residuals(records, monkeypatch):
    text = "y ~ g * z + x + h"
    exact = asked(records, text)
    monkeypatch.setattr("gencard.analysis.answers.linear.MOST_EXACT", 2)
    near = asked(records, text)
    assert near.coefficients.names == exact.coefficients.names
    assert np.allclose(near.coefficients.params, exact.coefficients.params, rtol=1e-14)
    assert np.allclose(near.coefficients.bse, exact.coefficients.bse, rtol=1e-12)
    assert near["ssr"] == pytest.approx(exact["ssr"], rel=1e-14)


class TestGroups:
    @pytest.mark.parametrize("term", ["g", "h", "g:h", "k", ""])
    def test_means_and_deviations_are_those_of_pandas(self, records, term):
        text = f"y ~ {term or 1}"
        table = asked(records, text, Analysis.MEANS).table("means")
        chosen = complete_records(records, text)
        keys = [chosen[name] for name in term.split(":") if name] or [np.zeros(len(chosen))]
        reference = chosen.groupby(keys)["y"].agg(["count", "mean", "var"])
        own = np.array([row[:3] for row in table.values], dtype=float)
        assert np.allclose(own, reference.to_numpy(), rtol=1e-12)

    @pytest.mark.parametrize("test", ["pooled", "welch"])
    def test_a_t_test_is_that_of_scipy(self, records, test):
        answer = asked(records, "y ~ h", Analysis.TTEST, options={"test": test})
        chosen = complete_records(records, "y ~ h")
        no, yes = (chosen.loc[chosen.h == one, "y"] for one in ("no", "yes"))
        reference = stats.ttest_ind(no, yes, equal_var=test == "pooled")
        assert answer["tvalue"] == pytest.approx(reference.statistic, rel=1e-10)
        assert answer.scalar("tvalue").pvalue == pytest.approx(reference.pvalue, rel=1e-8)

    def test_one_mean(self, records):
        answer = asked(records, "I(2 * y + 1) ~ 1", Analysis.TTEST, options={"value": 60.0})
        reference = stats.ttest_1samp(2 * records.y.dropna() + 1, 60.0)
        assert answer["tvalue"] == pytest.approx(reference.statistic, rel=1e-10)

    def test_one_way(self, records):
        answer = asked(records, "y ~ g", Analysis.ANOVA)
        chosen = complete_records(records, "y ~ g")
        parts = [part["y"] for _, part in chosen.groupby("g")]
        assert answer["fvalue"] == pytest.approx(stats.f_oneway(*parts).statistic, rel=1e-10)
        assert answer["bartlett"] == pytest.approx(stats.bartlett(*parts).statistic, rel=1e-8)
        with pytest.raises(KeyError):
            answer["levene"]

    def test_welch(self, records):
        answer = asked(records, "y ~ g", Analysis.ANOVA, options={"test": "welch"})
        chosen = complete_records(records, "y ~ g")
        reference = anova_oneway(chosen.y, chosen.g, use_var="unequal")
        assert answer["fvalue"] == pytest.approx(reference.statistic, rel=1e-10)

    @pytest.mark.parametrize("typ", [1, 2])
    def test_several_terms(self, records, typ):
        text = "y ~ g * h + k"
        answer = asked(records, "y ~ g * h + C(k)", Analysis.ANOVA, options={"typ": typ})
        fit = smf.ols("y ~ g * h + C(k)", complete_records(records, text)).fit()
        reference = sm.stats.anova_lm(fit, typ=typ)
        own = dict(zip(answer.tables[0].row_names, answer.tables[0].values, strict=True))
        for name, row in reference.iterrows():
            ours = own["k" if name == "C(k)" else name]
            assert ours[0] == pytest.approx(row["sum_sq"], rel=1e-9), name

    def test_squares_of_all_records_give_the_pooled_tests(self, records):
        psi = psi_with(records, [("g",)], [SumOf(("y",), ("g",)), SumOf(("y", "y"))])
        whole = asked(records, "y ~ g", Analysis.ANOVA)
        answer = asked(records, "y ~ g", Analysis.ANOVA, psi=psi)
        assert answer["fvalue"] == pytest.approx(whole["fvalue"], rel=1e-12)
        assert [row[3] for row in answer.table("means").values] == [None] * 3
        with pytest.raises(KeyError):
            answer["bartlett"]

    def test_ranks_are_those_of_levels_and_say_so(self, records):
        psi = psi_with(records, [("g", "y")], [])
        answer = asked(records, "y ~ g", Analysis.ANOVA, options={"test": "kruskal"}, psi=psi)
        assert answer["h"] > 0
        assert any("levels" in note for note in answer.notes)


class TestRefusals:
    def test_levels_of_a_response_that_are_too_wide(self, records):
        psi = psi_with(records, [("g", "y")], [])
        with pytest.raises(LevelsTooWideError) as raised:
            asked(records, "y ~ g", psi=psi)
        assert raised.value.fields["attribute"] == "y"
        assert SumOf(("y",), ("g",)) in raised.value.lacking_sums
        assert SumOf(("y", "y")) in raised.value.lacking_sums

    @pytest.mark.parametrize("kind", [Analysis.MEANS, Analysis.TTEST, Analysis.ANOVA, Analysis.LINEAR])
    @pytest.mark.parametrize("response", ["log(y + 1)", "I(y**2)", "I(y > 5)"])
    def test_functions_inside_levels(self, records, kind, response):
        psi = psi_with(records, [("g", "y")], [])
        with pytest.raises(LevelsTooWideError):
            asked(records, f"{response} ~ h", kind, psi=psi)

    def test_a_condition_on_the_response(self, records):
        psi = psi_with(records, [("g", "y")], [])
        with pytest.raises(LevelsTooWideError):
            asked(records, "y ~ g", where="y < 100", psi=psi)

    def test_a_comparison_with_an_edge_is_of_levels(self, records):
        psi = psi_with(records, [("g", "y")], [])
        own = asked(records, "I(y >= 100) ~ g", psi=psi)
        assert own.coefficients is not None

    def test_values_by_hand_are_an_answer_that_says_so(self, records):
        psi = psi_with(records, [("g", "y")], [])
        values = {"y": [5.0, 40.0, 300.0]}
        margins = PsiMargins(psi, CODING)
        answer = answer_of("y ~ g", Analysis.LINEAR, margins, CODING, values=values, missing="drop")
        assert any("the analyst gave" in note for note in answer.notes)

    def test_a_record_without_a_number_is_not_left_out_in_silence(self, records):
        answer = asked(records, "y ~ g", missing="level")
        assert answer.n == records.y.notna().sum()
        assert "of the records that have y" in answer.notes

    def test_without_missing_values_nothing_needs_to_be_said(self, records):
        whole = records.dropna()
        one, other = (asked(whole, "y ~ g + x", missing=how) for how in ("level", "drop"))
        assert one.coefficients == other.coefficients

    def test_a_term_without_sums_is_grouped(self, records):
        written = read_factors("y ~ x", CODING)
        used = numbers_used(written, Analysis.LINEAR, CODING).without("x")
        needs = needs_of(written, Analysis.LINEAR, CODING, used, about=(), drop=True)
        answer = asked(records, "y ~ x", psi=psi_with(records, needs.cliques, needs.sums))
        assert answer.coefficients.names == ("Intercept", "x (3 groups)")
        assert answer.notes[0].startswith("x: each level counts as one number")


class TestCorrelations:
    @pytest.mark.parametrize("text", ["y ~ x", "~ x + y + z", "~ x:k + y", "I(2 - 3*y) ~ z + k"])
    def test_they_are_those_of_complete_records(self, records, text):
        answer = asked(records, text, Analysis.CORRELATION)
        names = list(answer.table("correlation").row_names)
        chosen = complete_records(records, text)[names]
        if "2 - 3*y" in text:
            chosen = chosen.assign(y=2 - 3 * chosen.y)
        own = np.array(answer.table("correlation").values, dtype=float)
        assert np.allclose(own, chosen.corr().to_numpy(), rtol=1e-10)
        assert answer.n == len(chosen)

    def test_ranks_are_those_of_levels(self, records):
        psi = psi_with(records, [("x", "y")], [])
        options = {"method": "spearman"}
        answer = asked(records, "y ~ x", Analysis.CORRELATION, options=options, psi=psi)
        assert any("levels" in note for note in answer.notes)


class TestHistograms:
    SHARES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)

    def fine(self, records):
        one = CODING.attribute("y").coding
        counts = [int(n) for n in np.histogram(records.y.dropna(), [0, 10, 100, 1000])[0]]
        return one, [*counts, int(records.y.isna().sum())]

    def test_quantiles_lie_in_the_cell_of_the_value_of_their_rank(self, records):
        _, counts = self.fine(records)
        histogram = HistogramMeasurement("y", tuple(counts), 0.0)
        psi = replace(psi_with(records, [("g",)], []), histograms=(histogram,))
        options = {"q": self.SHARES}
        answer = asked(records, "y ~ 1", Analysis.QUANTILES, options=options, psi=psi)
        values = np.sort(records.y.dropna())
        for share, row in zip(self.SHARES, answer.table("quantiles").values, strict=True):
            true = values[max(1, ceil(share * len(values))) - 1]
            value, lower, upper = row
            assert lower <= true <= upper
            assert lower <= value <= upper

    def test_quantiles_of_groups_are_placed_inside_the_levels_that_hold_them(self, records):
        """From levels, too, a bound covers the value of the rank, and the place grows with the share."""
        options = {"q": self.SHARES}
        for text, column in (("y ~ g", "y"), ("x ~ g", "x"), ("z ~ g", "z"), ("k ~ g", "k")):
            psi = psi_with(records, [tuple(sorted({"g", column}))], [])
            answer = asked(records, text, Analysis.QUANTILES, options=options, psi=psi)
            tables = [np.array(answer.table(name).values) for name in ("quantiles", "lower", "upper")]
            assert answer.table("quantiles").row_names == ("a", "b", "c")
            assert len(np.unique(tables[0])) > len(np.unique(tables[1])) or column == "k"
            for place, group in enumerate("abc"):
                values = np.sort(records[column][records.g == group].dropna())
                ranks = [max(1, ceil(share * len(values))) for share in self.SHARES]
                placed, lower, upper = (table[place] for table in tables)
                true = values[np.array(ranks) - 1]
                assert (lower <= true).all()
                assert (true <= upper).all()
                assert (lower <= placed).all()
                assert (placed <= upper).all()
                assert (np.diff(placed) >= 0).all()

    def test_a_uniform_number_is_placed_where_it_is(self):
        """Every fourth number, so that quantiles inside a level are those of the records."""
        frame = pd.DataFrame({"g": "a", "x": np.arange(0, 20, 0.25).astype(int), "h": "no"})
        frame = frame.assign(y=1.0, z=0.0, k=0.0)
        psi = psi_with(frame, [("g", "x")], [])
        answer = asked(frame, "x ~ g", Analysis.QUANTILES, options={"q": (0.25, 0.5, 0.75)}, psi=psi)
        assert answer.table("quantiles").values[0] == (4.0, 9.0, 14.0)
        assert answer.table("lower").values[0] == (0.0, 0.0, 0.0)
        assert answer.table("upper").values[0] == (19.0, 19.0, 19.0)
        assert any("evenly inside a level" in note for note in answer.notes)

    def test_beyond_an_edge_only_a_lower_bound_is_certain(self):
        one = scaled("y", "1", "0 10 100")
        open_end = replace(one, coding=replace(one.coding, scale=replace(one.coding.scale, above=True)))
        coding = Coding((Attribute("g", Labels(("a",))), open_end))
        tables = {("g", "y"): np.array([[30, 10]])}
        psi = Psi(coding.domain, tuple(Measurement(*one) for one in tables.items()))
        margins, options = PsiMargins(psi, coding), {"q": (0.5, 0.9)}
        of_levels = answer_of("y ~ g", Analysis.QUANTILES, margins, coding, options=options)
        assert of_levels.table("quantiles").values == ((6.0, None),)
        assert of_levels.table("lower").values == ((0.0, 10.0),)
        assert of_levels.table("upper").values == ((9.0, None),)
        histogram = HistogramMeasurement("y", (30, 10), 0.0)
        margins = PsiMargins(replace(psi, histograms=(histogram,)), coding)
        of_cells = answer_of("y ~ 1", Analysis.QUANTILES, margins, coding, options=options)
        assert of_cells.table("quantiles").values[1] == (None, 10.0, None)
        for answer in (of_levels, of_cells):
            assert any("at least its lower bound" in note for note in answer.notes)

    def test_numbers_that_an_analyst_gives_levels_stay_those_of_levels(self, records):
        margins = PsiMargins(psi_with(records, [("g", "x")], []), CODING)
        answer = answer_of("x ~ g", Analysis.QUANTILES, margins, CODING, values={"x": [1, 2, 3]})
        assert {table.name for table in answer.tables} == {"quantiles", "cumulative shares"}

    def test_a_histogram_answers_for_the_whole_column_alone(self, records):
        counts = self.fine(records)[1]
        histogram = HistogramMeasurement("y", tuple(counts), 0.0)
        psi = replace(psi_with(records, [("g", "y")], []), histograms=(histogram,))
        for text, where in (("y ~ g", ""), ("y ~ 1", "g == 'a'"), ("log(y + 1) ~ 1", "")):
            answer = asked(records, text, Analysis.QUANTILES, where=where, psi=psi)
            assert answer.table("quantiles").column_names != ("value", "lower", "upper")
        with pytest.raises(InvalidInputError, match="missing"):
            asked(records, "y ~ 1", Analysis.QUANTILES, missing="ignore", psi=psi)

    def test_with_noise_they_hold_in_95_of_100_draws(self, records):
        one, _counts = self.fine(records)
        cells = tuple(Decimal(10 * i) for i in range(101))
        scale = replace(one.scale, cells=cells)
        fine = np.histogram(records.y.dropna(), [10 * i for i in range(101)])[0]
        rng = np.random.default_rng(3)
        values = np.sort(records.y.dropna())
        for share in (0.1, 0.5, 0.9):
            true = values[ceil(share * len(values)) - 1]
            held = 0
            for _ in range(400):
                noisy = [int(n) for n in fine + np.rint(rng.normal(0, 8, len(fine))).astype(int)]
                _, lower, upper = quantile_of_cells(scale, noisy, share, 8.0)
                held += lower <= true <= upper
            assert stats.binomtest(held, 400, 0.95, alternative="less").pvalue > 0.01

    def test_a_group_counts_as_the_mean_of_its_values(self, records):
        cells = tuple(map(Decimal, ["0", "5", "10", "20", "50", "100", "1000"]))
        one = replace(CODING.attribute("y").coding, scale=Scale(Decimal("0.01"), cells))
        means = level_means(one, HistogramMeasurement("y", (0, 3, 1, 1, 0, 0, 9), 0.0))
        assert means[0] == pytest.approx((5 + 9.99) / 2)
        assert means[1] == pytest.approx(((10 + 19.99) / 2 + (20 + 49.99) / 2) / 2)
        assert means[2] == one.midpoints[2]


def noisy_of(psi: Psi, stddev: float, rng: np.random.Generator) -> Psi:
    """psi with noise: of so many records on counts, and the largest product times that on sums."""

    def drawn(values, spread) -> tuple[int, ...]:
        noise = rng.normal(0, spread, len(values))
        return tuple(int(v) + round(float(z)) for v, z in zip(values, noise, strict=True))

    marginals = [
        Measurement(m.clique, np.reshape(drawn(m.values.ravel(), stddev), m.values.shape), stddev)
        for m in psi.measurements
    ]
    sums = []
    for one in psi.sums:
        scale = stddev * max(map(abs, product_ends(CODING, one.sum.of))) if one.sum.of else stddev
        counts = drawn(one.counts, stddev)
        beside = stddev if counts else 0.0
        sums.append(SumMeasurement(one.sum, drawn(one.values, scale), scale, counts, beside))
    return Psi(psi.domain, tuple(marginals), (), (), tuple(sums))


class TestNoise:
    @pytest.mark.parametrize(
        ("text", "stddev"), [("y ~ g + x", 0.3), ("y ~ g * z", 0.5), ("y ~ x", 0.3), ("k ~ z + x", 1.0)]
    )
    def test_the_part_that_is_noise_covers_the_answer_without_noise(self, records, text, stddev):
        written = read_factors(text, CODING)
        used = numbers_used(written, Analysis.LINEAR, CODING)
        needs = needs_of(written, Analysis.LINEAR, CODING, used, drop=True)
        psi = psi_with(records, needs.cliques, needs.sums)
        truth = np.array(asked(records, text, psi=psi).coefficients.params)
        rng, covered, draws = np.random.default_rng(11), 0, 150
        for _ in range(draws):
            margins = margins_of(noisy_of(psi, stddev, rng), CODING)
            answer = answer_of(text, Analysis.LINEAR, margins, CODING, missing="drop")
            own = answer.coefficients
            part = np.array([row[0] for row in answer.table("noise").values])
            assert (part < own.bse).all()
            assert "noise on each sum" in answer.noise
            covered += np.sum(np.abs(np.array(own.params) - truth) <= 1.96 * part)
        number = draws * len(truth)
        assert stats.binomtest(int(covered), number, 0.95).pvalue > 1e-4, covered / number

    @pytest.mark.parametrize(
        ("text", "kind", "stddev"),
        [
            ("y ~ h", Analysis.MEANS, 0.1),
            ("y ~ h", Analysis.TTEST, 0.1),
            ("x ~ z + y", Analysis.CORRELATION, 0.05),
        ],
    )
    def test_it_is_beside_every_number_with_an_interval(self, records, text, kind, stddev):
        needs = question_needs(text, kind, CODING, missing="drop")
        psi = psi_with(records, needs.cliques, needs.sums)
        truth = numbers_of(asked(records, text, kind, psi=psi))
        rules = {at: rule_of(kind, at) for at in truth if truth[at] is not None}
        own = [at for at, rule in rules.items() if rule and rule.use is Use.INTERVAL]
        own += [at for at in rules if at.place == "coefficients"]
        assert len(own) >= 2
        rng, covered, draws = np.random.default_rng(13), 0, 100
        for _ in range(draws):
            margins = margins_of(noisy_of(psi, stddev, rng), CODING)
            answer = answer_of(text, kind, margins, CODING, missing="drop")
            table, numbers = answer.table("noise"), numbers_of(answer)
            part = {name: row[0] for name, row in zip(table.row_names, table.values, strict=True)}
            covered += sum(abs(numbers[at] - truth[at]) <= 1.96 * part[name_of(at)] for at in own)
        # numbers of one draw move together
        assert stats.binomtest(round(covered / len(own)), draws, 0.95).pvalue > 1e-3, covered

    def test_errors_at_most_cover_where_noise_made_the_residuals_small(self, records):
        needs = question_needs("y ~ 1", Analysis.LINEAR, CODING, missing="drop")
        psi = psi_with(records, needs.cliques, needs.sums)
        exact = asked(records, "y ~ 1", psi=psi).coefficients
        rng, covers, draws = np.random.default_rng(17), [], 300
        for _ in range(draws):
            margins = margins_of(noisy_of(psi, 0.6, rng), CODING)
            answer = answer_of("y ~ 1", Analysis.LINEAR, margins, CODING, missing="drop")
            if AT_MOST in answer.notes:
                off = np.array(answer.coefficients.params) - exact.params
                half = 1.96 * answer.coefficients.bse
                # expected over a sampling error
                ends = [stats.norm.cdf((side * half - off) / exact.bse) for side in (1, -1)]
                covers.append(ends[0] - ends[1])
        assert draws / 10 < len(covers) < draws / 3
        assert (np.mean(covers, axis=0) >= 0.93).all()

    @pytest.mark.parametrize("more", [0.25, 2.0**70])
    def test_sums_are_moved_by_what_is_no_whole_number(self, records, more):
        psi = psi_with(records, [("g",)], [SumOf(("y",)), SumOf(("y", "y"))])
        margins = PsiMargins(psi, CODING)
        scale = CODING.attribute("y").coding.scale
        used = numbers_used(read_factors("y ~ 1", CODING), Analysis.LINEAR, CODING)
        column = summed_columns("y ~ 1", CODING, used)["y"]

        def square(of: Margins) -> Fraction:
            return gram_of(Present(of, ("y",)), [column], {"y": scale}).product(0, 0)

        units = np.array(float(margins.sums(("y", "y"), (), ()).item()) + more)
        moved = Moved(margins, {(("y", "y"), ()): units})
        exact = margins.sums(("y", "y"), (), ()).item()
        difference = Fraction(units.item()) - exact
        assert square(moved) - square(margins) == Fraction(scale.step) ** 2 * difference

    def test_too_much_drowns(self, records):
        written = read_factors("y ~ g + x", CODING)
        used = numbers_used(written, Analysis.LINEAR, CODING)
        needs = needs_of(written, Analysis.LINEAR, CODING, used, drop=True)
        psi = psi_with(records, needs.cliques, needs.sums)
        rng = np.random.default_rng(5)
        margins = margins_of(noisy_of(psi, 200.0, rng), CODING)
        with pytest.raises(NoiseDrownsError):
            answer_of("y ~ g + x", Analysis.LINEAR, margins, CODING, missing="drop")

    def test_a_bootstrap_of_sums_is_refused(self, records):
        psi = psi_with(records, [("g",)], [SumOf(("y",), ("g",)), SumOf(("y", "y"))])
        margins = margins_of(noisy_of(psi, 1.0, np.random.default_rng(5)), CODING)
        how = Bootstrap(np.random.default_rng(1))
        with pytest.raises(InvalidInputError, match="bootstrap"):
            answer_of("y ~ g", Analysis.LINEAR, margins, CODING, missing="drop", bootstrap=how)
