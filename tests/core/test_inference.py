"""Inference from synthetic tables against R's synthpop, brute force, and what chance does."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import chi2, f, norm

from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    DomainMismatchError,
    InvalidFormulaError,
    InvalidInputError,
    InvalidNumberError,
    TooLargeError,
    UnknownAttributeError,
)
from gencard.core.utility.prediction import regression as regressions
from gencard.core.utility.prediction.coefficients import coefficients
from gencard.core.utility.prediction.inference import Rule, combined
from gencard.core.utility.prediction.inference_comparison import inference_comparison
from gencard.core.utility.prediction.regression import Kind, Regression
from tests.core.oracles import read
from tests.shared_data import oracle_file

CODING = Coding(
    (
        Attribute("sick", Labels(("no", "yes"), missing=True)),
        Attribute("work", Labels(("none", "part", "<full>"), missing=True)),
        Attribute("age", Edges((10.0, 20.0, 40.0, 90.0), missing=True)),
        Attribute("rank", Labels(("1", "2", "5", "9"), integer=True, ordered=True)),
    )
)
LOGISTIC = Regression.of("sick ~ work + age", CODING, Kind.LOGISTIC)
LINEAR = Regression.of("rank ~ work + age", CODING)
AGES = np.array([15.0, 30.0, 65.0])
RANKS = np.array([1.0, 2.0, 5.0, 9.0])


def drawn(seed, rows=200, missing=0.1):
    """Records in which everything depends on everything a little."""
    rng = np.random.default_rng(seed)
    work, age = rng.integers(0, 3, rows), rng.integers(0, 3, rows)
    sick = rng.random(rows) < expit(-1 + 0.4 * work + 0.01 * AGES[age])
    rank = np.minimum(3, rng.integers(0, 3, rows) + (rng.random(rows) < 0.2 + 0.2 * work))
    columns = [sick.astype(int), work, age, rank]
    for column, code in zip(columns, (2, 3, 3), strict=False):
        column[rng.random(rows) < missing] = code
    return Dataset.of_columns(CODING.domain, columns)


def by_hand(records, regression):
    """Matrix and response, record by record, of those that lack nothing."""
    sick, work, age, rank = (records.column(name) for name in CODING.domain.attributes)
    logistic = regression.kind is Kind.LOGISTIC
    whole = (work < 3) & (age < 3) & ((sick < 2) | (not logistic))
    columns = np.ones(whole.sum()), work[whole] == 1, work[whole] == 2, AGES[age[whole]]
    return np.column_stack(columns).astype(float), (sick if logistic else RANKS[rank])[whole]


@pytest.fixture(scope="module")
def oracle():
    return json.loads(oracle_file("synthpop/pairD_mixed.json").read_text())


@pytest.fixture(scope="module")
def survey(oracle):
    """The schema, 1,000 records, and as many synthetic ones five times."""
    files = [
        read(f"synthpop/pairD_mixed_{part}.csv") for part in ("orig", *map("syn{}".format, range(1, 6)))
    ]
    ages = sorted({int(row["age"]) for file in files for row in file})
    levels = {name: tuple(oracle["variables"][name]["levels"]) for name in ("sex", "edu", "smoke")}
    coding = Coding(
        (
            Attribute("age", Labels(tuple(map(str, ages)), integer=True, ordered=True)),
            *(Attribute(name, Labels(labels, missing=True)) for name, labels in levels.items()),
        )
    )
    codes = {
        each.name: {text: code for code, text in enumerate((*each.coding.labels, ""))}
        for each in coding.attributes
    }
    tables = [[[codes[name][row[name]] for name in codes] for row in file] for file in files]
    return coding, *(Dataset(coding.domain, np.array(table)) for table in tables)


def close(value):
    return pytest.approx(np.array(value, dtype=float), rel=1e-9, abs=0)


def regression_of(oracle, coding, name):
    """The oracle's formula may be followed by a remark."""
    formula = oracle["inference"][name]["formula"].split(" (")[0]
    return Regression.of(formula, coding, Kind.LOGISTIC if name == "glm" else Kind.LEAST_SQUARES)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["lm", "glm"])
class TestSynthpopSaysTheSame:
    def test_of_synthetic_tables(self, oracle, survey, name):
        coding, _, *syntheses = survey
        case = oracle["inference"][name]["fit"]
        found = combined(regression_of(oracle, coding, name), syntheses)
        named = [each.replace("=", "") for each in found.regression.names]
        assert named == ["(constant)", *list(case["mcoefavg"])[1:]]
        assert (found.tables, found.rows) == (case["m"], case["k"])
        assert found.values == close(list(case["mcoefavg"].values()))
        assert found.variances == close(list(case["mvaravg"].values()))
        for rule, part in ((Rule.RECORDS, "summary_Qhat"), (Rule.POPULATION, "summary_population")):
            inferred = found.inference(case["n"], rule)
            shown = [inferred.values, inferred.errors, inferred.z, inferred.p_values]
            assert np.column_stack(shown) == close(case[part]["values"])
            assert [list(numbers) for _, numbers in inferred.rows] == np.column_stack(shown).tolist()

    @pytest.mark.parametrize(("part", "rule"), [("", Rule.RECORDS), ("_population", Rule.POPULATION)])
    def test_beside_records(self, oracle, survey, name, part, rule):
        coding, original, *syntheses = survey
        case = oracle["inference"][name].get(f"compare{part}")
        if case is None:
            assert (name, part) == ("lm", "_population")
            return
        regression = regression_of(oracle, coding, name)
        ours = coefficients(regression, original)
        found = inference_comparison(ours, combined(regression, syntheses), rule)
        assert np.array([numbers for _, numbers in ours.rows]) == close(case["coef_obs"]["values"])
        shown = np.array([numbers for _, numbers in found.rows])
        assert shown[:, :4] == close(case["coef_diff"]["values"])
        assert shown[:, 4] == close(case["ci_overlap"])
        assert found.mean_overlap == close(case["mean_ci_overlap"])
        assert found.mean_difference == close(case["mean_abs_std_diff"])
        assert found.lack_of_fit.statistic == close(case["lack_of_fit"])
        assert found.lack_of_fit.p_value == close(case["lof_pvalue"])


class TestOneTable:
    @given(st.integers(0, 999))
    @settings(max_examples=20, deadline=None)
    def test_least_squares_record_by_record(self, seed):
        records = drawn(seed)
        found = coefficients(LINEAR, records)
        matrix, response = by_hand(records, LINEAR)
        expected, squares, _, _ = np.linalg.lstsq(matrix, response)
        inverse = np.linalg.inv(matrix.T @ matrix)
        assert found.values == pytest.approx(expected)
        assert found.covariance == pytest.approx(inverse * squares / (len(matrix) - 4), rel=1e-6)
        assert (found.records, found.complete) == (200, len(matrix))

    @given(st.integers(0, 999))
    @settings(max_examples=20, deadline=None)
    def test_no_likelier_logistic_regression(self, seed):
        """Residuals are orthogonal to every column, and the covariance is the inverse information."""
        records = drawn(seed)
        found = coefficients(LOGISTIC, records)
        matrix, response = by_hand(records, LOGISTIC)
        scores = expit(matrix @ found.values)
        assert matrix.T @ (response - scores) == pytest.approx(0, abs=1e-3)
        information = matrix.T @ (matrix * (scores * (1 - scores))[:, None])
        assert found.covariance @ information == pytest.approx(np.eye(4), abs=1e-2)

    def test_an_interaction_has_every_cell_its_mean(self):
        records = drawn(1, missing=0)
        found = coefficients(Regression.of("rank ~ work * sick", CODING), records)
        assert found.regression.names[-1] == "work=<full>:sick=yes"
        constant, part, _, yes, part_yes, _ = found.values
        chosen = (records.column("work") == 1) & (records.column("sick") == 1)
        mean = RANKS[records.column("rank")[chosen]].mean()
        assert constant + part + yes + part_yes == pytest.approx(mean)

    def test_order_of_records_and_other_attributes_say_nothing(self):
        records = drawn(2)
        backwards = records.take(np.arange(len(records))[::-1]).project(("age", "work", "sick"))
        for one, other in ((LOGISTIC, backwards), (LOGISTIC, records)):
            assert coefficients(one, other).values == pytest.approx(coefficients(one, records).values)

    def test_the_unit_of_a_number_is_that_of_its_coefficient(self):
        records = drawn(3)
        for scale in (1e-60, 1e60):
            edges = Edges(tuple(scale * edge for edge in (10, 20, 40, 90)), missing=True)
            attributes = [Attribute("age", edges) if a.name == "age" else a for a in CODING.attributes]
            for asked in (LINEAR, LOGISTIC):
                scaled = Regression(asked.formula, Coding(tuple(attributes)), asked.kind)
                found, plain = coefficients(scaled, records), coefficients(asked, records)
                units = np.array([1, 1, 1, scale])
                assert found.values * units == pytest.approx(plain.values, rel=1e-6)
                assert found.errors * units == pytest.approx(plain.errors, rel=1e-6)


class TestRules:
    def test_by_hand(self):
        """n = 200 records, k = 100 rows, m = 3 tables."""
        found = combined(LINEAR, [drawn(seed, 100) for seed in (1, 2, 3)])
        variances = found.variances / 2
        between = np.var(found.each, axis=0, ddof=1)
        expected = {
            Rule.RECORDS: variances,
            Rule.POPULATION: variances * (1 + 2 / 3),
            Rule.PROPER: variances * (1 + 3 / 3),
            Rule.INCOMPLETE: variances + between / 3,
        }
        for rule, squared in expected.items():
            inferred = found.inference(200, rule)
            assert inferred.errors == pytest.approx(np.sqrt(squared))
            assert inferred.p_values == pytest.approx(2 * norm.sf(np.abs(inferred.z)))

    def test_syntheses_that_are_the_records(self):
        records = drawn(4)
        for asked in (LINEAR, LOGISTIC):
            found = combined(asked, [records] * 6)
            compared = inference_comparison(coefficients(asked, records), found)
            assert compared.mean_overlap == pytest.approx(1)
            assert compared.mean_difference == pytest.approx(0, abs=1e-12)
            assert compared.lack_of_fit.p_value == pytest.approx(1)
            assert found.between == pytest.approx(0, abs=1e-20)
            assert found.inference(len(records)).errors == pytest.approx(
                coefficients(asked, records).errors
            )

    def test_a_gap_between_intervals_is_a_negative_overlap(self):
        original = coefficients(LINEAR, drawn(5, 2_000))
        codes = drawn(6, 2_000).codes.copy()
        codes[:, 3] = 3 - codes[:, 3]
        found = inference_comparison(
            original, combined(LINEAR, [Dataset(CODING.domain, codes)]), confidence=0.8
        )
        half = norm.ppf(0.9)
        assert found.overlaps == pytest.approx(1 - np.abs(found.standardised) / (2 * half))
        assert found.overlaps.min() < 0
        assert found.lack_of_fit.p_value < 1e-9

    def test_lack_of_fit_of_tables_that_keep_attributes(self):
        """Hotelling's statistic by hand; as many tables as coefficients are too few."""
        original, tables = coefficients(LINEAR, drawn(7)), [drawn(seed) for seed in range(10, 20)]
        found = inference_comparison(original, combined(LINEAR, tables), Rule.INCOMPLETE)
        each = np.array([coefficients(LINEAR, table).values for table in tables])
        far = each.mean(axis=0) - original.values
        squared = far @ np.linalg.inv(np.cov(each.T) / 10) @ far
        assert found.lack_of_fit.freedom == (4, 6)
        assert found.lack_of_fit.statistic == pytest.approx(squared * 6 / (4 * 9))
        assert found.lack_of_fit.p_value == pytest.approx(f.sf(found.lack_of_fit.statistic, 4, 6))
        few = inference_comparison(original, combined(LINEAR, tables[:4]), Rule.INCOMPLETE)
        assert few.lack_of_fit is None
        assert "more tables" in str(few)

    def test_calibration(self):
        """Half as many rows as records, resampled three times: 5 % of tests and intervals err."""
        asked = Regression.of("sick ~ work", CODING, Kind.LOGISTIC)
        truth = coefficients(asked, drawn(0, 400_000, missing=0)).values
        runs, wrong, outside = 150, 0, 0
        rng = np.random.default_rng(1)
        for seed in range(runs):
            records = drawn(1_000 + seed, 600, missing=0)
            tables = [records.take(rng.integers(0, 600, 300)) for _ in range(3)]
            found = combined(asked, tables)
            wrong += inference_comparison(coefficients(asked, records), found).lack_of_fit.p_value < 0.05
            inferred = found.inference(600, Rule.POPULATION)
            outside += np.sum(np.abs(inferred.values - truth) > 1.96 * inferred.errors)
        assert wrong / runs == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / runs))
        assert outside / (3 * runs) == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / runs))


class TestPrinted:
    compared = inference_comparison(coefficients(LINEAR, drawn(8)), combined(LINEAR, [drawn(9)]))

    def test_as_text(self):
        lines = str(self.compared).splitlines()
        assert lines[0].startswith("rank ~ work + age, least squares; synthetic tables beside ")
        assert len({len(line) for line in lines[1:6]}) == 1
        assert lines[3].startswith("work=part")
        statistic = self.compared.lack_of_fit.statistic
        assert lines[-1] == (
            f"lack of fit {statistic:.4g} with 4 degrees of freedom, p {chi2.sf(statistic, 4):.4g}"
        )
        assert lines[-2].startswith("mean overlap of 95 % intervals 0.")

    @pytest.mark.parametrize(
        "shown", [compared, compared.original, combined(LINEAR, [drawn(9)]).inference(9)]
    )
    def test_as_a_page(self, shown):
        page = shown._repr_html_()
        assert "work=&lt;full&gt;" in page
        assert "<full>" not in page
        assert page.count("<tr>") == 1 + 4


def without(**levels):
    """Records without some level of an attribute."""
    records = drawn(9)
    kept = np.all([records.column(name) != code for name, code in levels.items()], axis=0)
    return records.take(np.flatnonzero(kept))


class TestRefused:
    def test_no_response(self):
        with pytest.raises(InvalidInputError, match="names no response"):
            Regression.of("~ work", CODING)

    @pytest.mark.parametrize(
        ("formula", "kind", "error"),
        [
            ("sick ~ income", Kind.LOGISTIC, UnknownAttributeError),
            ("income ~ sick", Kind.LEAST_SQUARES, UnknownAttributeError),
            ("work ~ sick", Kind.LOGISTIC, InvalidInputError),
            ("work ~ sick", Kind.LEAST_SQUARES, InvalidInputError),
            ("rank ~ work + work:sick", Kind.LEAST_SQUARES, InvalidInputError),
            ("rank ~ work:sick", Kind.LEAST_SQUARES, InvalidInputError),
            ("rank ~", Kind.LEAST_SQUARES, InvalidFormulaError),
        ],
    )
    def test_regressions(self, formula, kind, error):
        with pytest.raises(error):
            Regression.of(formula, CODING, kind)

    def test_too_many_parameters(self):
        coding = Coding((*CODING.attributes, Attribute("area", Labels(tuple(map(str, range(401)))))))
        with pytest.raises(TooLargeError):
            Regression.of("rank ~ area", coding)

    def test_too_large_a_matrix(self, monkeypatch):
        monkeypatch.setattr(regressions, "MOST_ENTRIES", 40)
        with pytest.raises(TooLargeError):
            coefficients(LINEAR, drawn(1))

    @pytest.mark.parametrize(
        "records",
        [
            drawn(1, rows=0),
            drawn(1, rows=4, missing=0),
            drawn(1, missing=1),
            without(work=0),
            without(work=1),
            drawn(1, rows=50, missing=0).take(np.zeros(50, dtype=int)),
        ],
        ids=["none", "few", "incomplete", "first level", "level", "one kind"],
    )
    def test_tables(self, records):
        for asked in (LINEAR, LOGISTIC):
            with pytest.raises(InvalidInputError):
                coefficients(asked, records)

    def test_responses_without_error(self):
        codes = drawn(1, missing=0).codes.copy()
        codes[:, 3] = codes[:, 1]
        exact = Regression.of("rank ~ work", CODING)
        with pytest.raises(InvalidInputError, match="without error"):
            coefficients(exact, Dataset(CODING.domain, codes))

    @pytest.mark.parametrize("everybody", [True, False])
    def test_responses_told_apart(self, everybody):
        """All sick where work is full; or, all who work more than another."""
        codes = drawn(1, 5_000, missing=0).codes.copy()
        codes[:, 0] = np.where((codes[:, 1] == 2) | everybody, codes[:, 1] > 0, codes[:, 0])
        with pytest.raises(InvalidInputError, match="apart entirely"):
            coefficients(LOGISTIC, Dataset(CODING.domain, codes))

    def test_other_attributes(self):
        domain = Domain.of({"sick": 3, "work": 3, "age": 4})
        with pytest.raises(DomainMismatchError):
            coefficients(LOGISTIC, Dataset(domain, np.zeros((9, 3), dtype=int)))
        with pytest.raises(UnknownAttributeError):
            coefficients(LOGISTIC, drawn(1).project(("sick", "work")))

    def test_numbers_that_cannot_be_counted_with(self):
        for edges in ((0, 1e150, 1e200), (0, 1e-310, 2e-310), (0, 1e-160, 2e-160)):
            coding = Coding((CODING.attribute("rank"), Attribute("far", Edges(edges))))
            records = Dataset(coding.domain, np.random.default_rng(1).integers(0, 2, (50, 2)))
            with pytest.raises(InvalidInputError):
                coefficients(Regression.of("rank ~ far", coding), records)

    def test_combinations(self):
        found = combined(LINEAR, [drawn(1)])
        with pytest.raises(InvalidInputError):
            combined(LINEAR, [])
        with pytest.raises(InvalidInputError):
            combined(LINEAR, [drawn(1), drawn(2, 199)])
        with pytest.raises(InvalidInputError):
            found.inference(200, Rule.INCOMPLETE)
        with pytest.raises(InvalidNumberError):
            found.inference(0)
        original = coefficients(LINEAR, drawn(3))
        with pytest.raises(InvalidInputError):
            inference_comparison(coefficients(LOGISTIC, drawn(3)), found)
        with pytest.raises(InvalidNumberError):
            inference_comparison(original, found, confidence=1.0)
        with pytest.raises(InvalidInputError):
            inference_comparison(original, found, Rule.INCOMPLETE)
