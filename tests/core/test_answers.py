"""Models from psi: equal to statsmodels on the coded records, and refused with what is wrong."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from formulaic import model_matrix
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.answers_exact import gap
from benchmarks.coded_samples import sample
from benchmarks.model_referees import CASES, WIDE
from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.analysis.answers.margins import PsiMargins, RecordMargins, records_of, within
from gencard.analysis.formulas.answering import answer_of
from gencard.analysis.formulas.formulas import read_formula
from gencard.analysis.formulas.model_matrix import numbers_of, read_condition, read_design
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import (
    InvalidFormulaError,
    InvalidInputError,
    LackingMarginalsError,
    NoEstimateError,
    TooLargeError,
    UnknownAttributeError,
)
from gencard.core.statistics.formula import Analysis, sufficient_cliques
from gencard.core.statistics.marginals import count
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Measurement, Psi

CODING = Coding(
    (
        Attribute("sex", Labels(("f", "m"))),
        Attribute("age", Edges((0, 20, 40, 60, 90))),
        Attribute("home region", Labels(("east", "north", "west"), missing=True)),
        Attribute("income", Edges((0, 1, 2, 5, 10), missing=True)),
        Attribute("visits", Labels(("0", "1", "2", "5"), integer=True, ordered=True)),
        Attribute("ill", Labels(("no", "yes"))),
    )
)
MODELS = [
    ("linear", "age ~ sex * visits + `home region`"),
    ("linear", "log(age) ~ 0 + sex:visits + C(`home region`, Sum)"),
    ("logistic", "ill ~ age + sex + visits"),
    ("multinomial", "`home region` ~ age + sex"),
    ("ordinal", "visits ~ age + ill"),
    ("poisson", "visits ~ age * sex"),
    ("loglinear", "~ sex * ill + age:visits + visits"),
]


def records(rows=3_000, seed=5):
    """Six attributes with one common cause."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(rows, len(CODING.attributes))) + rng.normal(size=(rows, 1))
    cuts = [np.linspace(-1.5, 1.5, size + 1)[1:-1] for size in CODING.domain.sizes]
    columns = [np.searchsorted(cut, column) for cut, column in zip(cuts, scores.T, strict=True)]
    return Dataset.of_columns(CODING.domain, columns)


def psi_for(text, kind, dataset):
    """Only what the analysis needs."""
    cliques = sufficient_cliques(read_formula(text, CODING), Analysis(kind), CODING.domain)
    return measure_dataset(dataset, cliques)


def answer(text, kind, dataset=None, **others):
    dataset = records() if dataset is None else dataset
    return answer_of(text, Analysis(kind), PsiMargins(psi_for(text, kind, dataset)), CODING, **others)


def at_records(text, kind, dataset, **others):
    return answer_of(text, Analysis(kind), RecordMargins.of(dataset), CODING, **others)


def samples(name):
    try:
        return sample(name)
    except SystemExit as absent:
        pytest.skip(str(absent))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [*CASES, WIDE[0]], ids=str)
def test_an_answer_is_that_of_statsmodels_on_the_coded_records(case):
    coded = samples(case.sample)
    formula, kind = read_formula(case.formula, coded.coding), Analysis(case.kind)
    psi = measure_dataset(coded.dataset, sufficient_cliques(formula, kind, coded.coding.domain))
    result = answer_of(case.formula, kind, PsiMargins(psi), coded.coding)
    assert max(gap(ours, theirs) for ours, theirs in case.referee(coded, result)) < 1e-8


@pytest.mark.parametrize(("kind", "text"), MODELS)
class TestEveryModel:
    def test_psi_and_records_give_the_same(self, kind, text):
        dataset = records()
        ours, theirs = answer(text, kind, dataset), at_records(text, kind, dataset)
        assert ours.coefficients.names == theirs.coefficients.names
        assert gap(ours.coefficients.params, theirs.coefficients.params) < 1e-9
        assert gap(ours.coefficients.bse, theirs.coefficients.bse) < 1e-9
        assert ours.n == len(dataset)
        assert ours.noise == "exact"

    def test_it_is_written_and_read(self, kind, text):
        result = answer(text, kind)
        assert AnalysisAnswer.of_json(result.to_json()) == result

    def test_each_marginal_that_is_missing_is_named(self, kind, text):
        psi = psi_for(text, kind, records())
        if len(psi.measurements) == 1:
            pytest.skip("needs a single marginal")
        for missing in psi.cliques:
            left = tuple(m for m in psi.measurements if m.clique != missing)
            domain = CODING.domain.covered_by(m.clique for m in left)
            with pytest.raises(LackingMarginalsError) as lacking:
                answer_of(text, Analysis(kind), PsiMargins(Psi(domain, left)), CODING)
            assert lacking.value.lacking == (missing,)

    def test_levels_that_nobody_has_are_as_if_not_declared(self, kind, text):
        dataset = records()
        kept = dataset.take(np.flatnonzero((dataset.column("sex") == 1) | (dataset.column("age") < 2)))
        kept = kept.take(np.flatnonzero(kept.column("visits") != 0))
        names = answer(text, kind, kept).coefficients.names
        assert not [name for name in names if "T.1]" in name or "[0]" in name]

    def test_twice_the_records_have_the_same_estimates(self, kind, text):
        dataset = records()
        one = at_records(text, kind, dataset).coefficients
        both = RecordMargins.of(dataset, np.full(len(dataset), 2.0))
        two = answer_of(text, Analysis(kind), both, CODING).coefficients
        shift = np.log(2) * (np.array(one.names) == "Intercept") * (kind == "loglinear")
        np.testing.assert_allclose(np.array(one.params) + shift, two.params, rtol=1e-8, atol=1e-9)


FACTORS = st.sampled_from(
    [
        "sex",
        "age",
        "visits",
        "ill",
        "`home region`",
        "C(visits)",
        "C(sex, Sum)",
        "I(age ** 2)",
        "log(age)",
        "I(ill == 'yes')",
        "C(`home region`, Treatment('west'))",
        "I(age * visits)",
    ]
)
FRAME_NAMES = {"home region": "home_region"}
TRUTH = "I(ill == 'yes')"


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(FACTORS, min_size=1, max_size=2, unique=True), min_size=1, max_size=4),
    st.booleans(),
)
def test_a_design_is_formulaics_model_matrix_of_the_records(terms, constant):
    """Names, order and values, though no row of the records is ever looked at.

    Truth values are levels, as in statsmodels; formulaic takes them for numbers.
    """
    text = " + ".join(["1" if constant else "0", *map(":".join, terms)])
    dataset = records(200)
    design = read_design(f"~ {text}", CODING)
    codes = dataset.codes[:, [CODING.domain.axis(name) for name in design.attributes]].astype(int)
    frame = frame_of(dataset)
    frame["is_ill"] = (frame["ill"] == "yes").astype(str).astype("category")
    theirs = model_matrix(text.replace("`home region`", "home_region").replace(TRUTH, "is_ill"), frame)
    names = tuple(
        name.replace("home_region", "home region").replace("is_ill", TRUTH) for name in theirs.columns
    )
    assert tuple(name.replace("`", "") for name in design.names) == names
    np.testing.assert_allclose(design.matrix(codes), np.asarray(theirs, dtype=float), atol=1e-12)


def frame_of(dataset):
    numbers, columns = numbers_of(CODING), {}
    for name in CODING.domain.attributes:
        codes, levels = dataset.column(name).astype(int), CODING.attribute(name).coding.level_names
        column = pd.Categorical.from_codes(codes, list(levels))
        if name in numbers:
            column = np.array(numbers[name])[codes]
            column = column.astype(int) if name == "visits" else column
        columns[FRAME_NAMES.get(name, name)] = pd.Series(column)
    return pd.DataFrame(columns)


class TestWhatIsLeftOut:
    def test_a_column_that_earlier_ones_determine_is_named(self):
        result = answer("age ~ sex + I(sex == 'm') + visits", "linear")
        assert result.coefficients.names == ("Intercept", "sex[T.m]", "visits")
        assert "I(sex == 'm')" in result.notes[-1]

    def test_an_empty_margin_of_a_log_linear_model_takes_its_cells_along(self):
        dataset = records()
        codes = dataset.codes.copy()
        codes[codes[:, 0] == 1, 5] = 1
        result = answer("~ sex * ill + age", "loglinear", Dataset(CODING.domain, codes))
        assert result["df_resid"] == 3 * 4 - 4  # of 2 x 2 x 4 cells a quarter is empty
        assert "sex[T.m]:ill[T.yes]" in result.notes[-1]


class TestParts:
    def test_a_condition_chooses_records(self):
        dataset = records()
        kept = dataset.take(np.flatnonzero((dataset.column("sex") == 1) & (dataset.column("age") < 2)))
        where = "sex == 'm' and age < 40"
        part = at_records("visits ~ ill", "linear", dataset, where=where)
        assert part.n == len(kept)
        assert part.coefficients == at_records("visits ~ ill", "linear", kept).coefficients

    def test_psi_answers_for_a_part_where_it_has_the_wider_table(self):
        dataset = records()
        psi = measure_dataset(dataset, [("sex", "visits", "ill")])
        ours = answer_of("visits ~ ill", Analysis.LINEAR, PsiMargins(psi), CODING, where="sex == 'm'")
        theirs = at_records("visits ~ ill", "linear", dataset, where="sex == 'm'")
        assert gap(ours.coefficients.params, theirs.coefficients.params) < 1e-12
        pairs = measure_dataset(dataset, list(combinations(("sex", "visits", "ill"), 2)))
        with pytest.raises(LackingMarginalsError, match="visits × ill"):
            answer_of("visits ~ ill", Analysis.LINEAR, PsiMargins(pairs), CODING, where="sex == 'm'")

    def test_missing_numbers_need_a_decision(self):
        dataset = records()
        with pytest.raises(InvalidFormulaError, match="missing='drop'"):
            answer("age ~ income", "linear", dataset)
        assert (
            answer("age ~ C(income)", "linear", dataset).coefficients.names[-1].endswith("[T.missing]")
        )
        dropped = at_records("age ~ income", "linear", dataset, missing="drop")
        assert dropped.n == (dataset.column("income") != 4).sum()

    def test_a_missing_response_has_no_place_in_the_order(self):
        with pytest.raises(InvalidInputError, match="missing='drop'"):
            answer("income ~ sex", "ordinal")

    @pytest.mark.parametrize(
        ("text", "chosen"),
        [
            ("visits in [0, 5]", [True, False, False, True]),
            ("not visits > 0", [True, False, False, False]),
            ("1 <= visits < 5", [False, True, True, False]),
            ("visits == 1 or visits == 5", [False, True, False, True]),
        ],
    )
    def test_conditions(self, text, chosen):
        attributes, mask = read_condition(text, CODING)
        assert attributes == ("visits",)
        assert mask.tolist() == chosen

    @pytest.mark.parametrize(
        "text", ["sex", "sex == ", "sex < 3", "visits == 'x'", "sum(visits) > 1", "[v for v in visits]"]
    )
    def test_a_condition_that_is_none(self, text):
        with pytest.raises((InvalidInputError, UnknownAttributeError)):
            read_condition(text, CODING)

    def test_a_missing_number_fulfils_no_condition(self):
        _, mask = read_condition("not 1 <= income < 2", CODING)
        assert mask.tolist() == [True, False, True, True, False]

    @pytest.mark.parametrize("text", ["age < 41", "age <= 20", "age == 30", "sex == 'm' and income > 6"])
    def test_no_condition_cuts_through_an_interval(self, text):
        with pytest.raises(InvalidInputError, match="edges"):
            read_condition(text, CODING)

    def test_whole_numbers_end_before_the_next_edge(self):
        whole = Coding((Attribute("age", Edges((0, 20, 40, 90), decimals=0)),))
        assert read_condition("age <= 39", whole)[1].tolist() == [True, True, False]
        assert read_condition("age > 1", whole, {"age": [0, 1, 2]})[1].tolist() == [False, False, True]

    def test_within_is_the_same_for_psi_and_records(self):
        dataset = records()
        psi = PsiMargins(measure_dataset(dataset, [("sex", "age", "ill")]))
        attributes, mask = read_condition("ill == 'yes' or age >= 60", CODING)
        ours, theirs = within(psi, attributes, mask), within(RecordMargins.of(dataset), attributes, mask)
        for clique in [(), ("sex",), ("age", "sex"), ("ill", "sex", "age")]:
            np.testing.assert_array_equal(ours.counts(clique), theirs.counts(clique))
            cells, others = ours.occupied(clique), theirs.occupied(clique)
            np.testing.assert_array_equal(cells.codes, others.codes)
            np.testing.assert_array_equal(cells.counts, others.counts)


class TestNoEstimate:
    def separated(self):
        codes = records().codes.copy()
        codes[:, 5] = codes[:, 1] > 1
        return Dataset(CODING.domain, codes)

    @pytest.mark.parametrize("text", ["ill ~ age", "ill ~ C(age)", "ill ~ sex + I(age > 45)"])
    def test_separation_is_named(self, text):
        with pytest.raises(NoEstimateError, match="age"):
            answer(text, "logistic", self.separated())

    def test_separation_by_any_plane_is_found_however_sums_are_rounded(self):
        rng = np.random.default_rng(0)
        for _ in range(200):
            dataset = records(rows=int(rng.integers(20, 2_000)), seed=int(rng.integers(1_000)))
            codes = dataset.codes.copy()
            scores = codes[:, [0, 1, 4]] @ rng.normal(size=3)
            codes[:, 5] = scores > np.quantile(scores, rng.uniform(0.1, 0.9))
            if len(np.unique(codes[:, 5])) == 2:
                with pytest.raises(NoEstimateError):
                    answer("ill ~ sex + age + C(visits)", "logistic", Dataset(CODING.domain, codes))

    def test_one_record_of_a_million_on_the_other_side_is_no_separation(self):
        domain = CODING.domain.project(("age", "ill"))
        table = np.array([[500_000, 0], [499_999, 1], [1, 499_999], [0, 500_000]])
        psi = Psi(domain, (Measurement(("age", "ill"), table),))
        fit = answer_of("ill ~ I(age > 45)", Analysis.LOGISTIC, PsiMargins(psi), CODING)
        logit = np.log(999_999)
        np.testing.assert_allclose(fit.coefficients.params, [-logit, 2 * logit], rtol=1e-9)

    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ("visits ~ C(age)", "multinomial"),
            ("visits ~ C(age)", "ordinal"),
            ("I(ill == 'yes') ~ C(age)", "poisson"),
        ],
    )
    def test_so_it_is_by_every_likelihood(self, text, kind):
        codes = self.separated().codes.copy()
        codes[:, 4] = np.where(codes[:, 1] > 1, 3, 0)
        with pytest.raises(NoEstimateError):
            answer(text, kind, Dataset(CODING.domain, codes))

    def test_a_response_that_never_varies(self):
        codes = records().codes.copy()
        codes[:, 5] = 0
        dataset = Dataset(CODING.domain, codes)
        with pytest.raises(NoEstimateError, match="same in all records"):
            answer("I(ill == 'yes') ~ sex", "logistic", dataset)

    def test_as_many_coefficients_as_records(self):
        with pytest.raises(NoEstimateError, match="as many coefficients"):
            answer("age ~ C(visits) * sex", "linear", records(4))

    def test_a_response_of_many_levels_is_no_event(self):
        with pytest.raises(InvalidInputError, match="multinomial"):
            answer("age ~ sex", "logistic")

    def test_a_text_is_no_linear_response(self):
        with pytest.raises(InvalidInputError, match="needs a number"):
            answer("ill ~ sex", "linear")

    def test_a_log_linear_model_has_no_response(self):
        with pytest.raises(InvalidInputError, match="no response"):
            answer("ill ~ sex", "loglinear")


HOSTILE = [
    "I(__import__('os').system('true'))",
    "I(age.__class__)",
    "I(().__class__.__bases__)",
    "I((lambda: 1)())",
    "I([x for x in age])",
    "I(age if sex else 1)",
    "I(f'{age}')",
    "I(open('/etc/passwd'))",
    "C(age, __import__('os'))",
    "log(age, out=age)",
    "I(age @ age)",
    "I('a' * 9999999999)",
    "I(np.load('x'))",
]


@pytest.mark.parametrize("code", HOSTILE)
def test_no_text_of_a_formula_is_ever_run(code):
    with pytest.raises((InvalidFormulaError, UnknownAttributeError)):
        read_design(f"visits ~ {code}", CODING)


@pytest.mark.parametrize(
    "code", ["scale(age)", "center(age)", "poly(age, 2)", "bs(age, df=4)", "cut(age, 3)"]
)
def test_a_function_of_the_records_is_refused_with_what_to_write(code):
    with pytest.raises(InvalidFormulaError, match="fixed numbers"):
        read_design(f"visits ~ {code}", CODING)


@pytest.mark.parametrize("depth", [10, 100, 900])
def test_deep_formulas_end(depth):
    text = f"visits ~ I({'(' * depth}age{')' * depth})"
    try:
        read_design(text, CODING)
    except InvalidFormulaError:
        assert depth > 50


def test_values_take_the_place_of_midpoints():
    ours = answer("visits ~ age", "linear", values={"age": [1, 2, 3, 4]}).coefficients
    plain = answer("visits ~ age", "linear").coefficients
    assert ours.params != plain.params
    with pytest.raises(InvalidInputError, match="one number for each of the 4 levels"):
        answer("visits ~ age", "linear", values={"age": [1, 2, 3]})
    with pytest.raises(InvalidInputError, match="one number"):
        answer("visits ~ age", "linear", values={"age": [1, 2, 3, np.inf]})


def test_what_would_be_large_is_refused_before_it_is_made():
    """4,000 levels a side: the columns of the first would fill 2 TB."""
    huge = Coding(tuple(Attribute(name, Labels(tuple(map(str, range(4_000))))) for name in "abc"))
    for text in ("~ a:b", "~ a", "~ I(a == b)", "~ a:b:c"):
        with pytest.raises(TooLargeError):
            read_design(text, huge)
    long = Coding(
        (
            Attribute("a", Edges(tuple(range(30_001)))),
            Attribute("b", Labels(tuple("0123456789abcdefghijklmnopqrst"))),
        )
    )
    assert len(read_design("~ a", long).columns) == 2
    for text in ("~ a:b", "~ C(a)"):
        with pytest.raises(TooLargeError):
            read_design(text, long)


def test_too_many_columns_are_refused():
    wide = Coding(
        (Attribute("a", Labels(tuple(map(str, range(1_200))))), Attribute("b", Labels(("0", "1"))))
    )
    with pytest.raises(TooLargeError, match="columns"):
        read_design("b ~ a", wide)


class TestNoisyMargins:
    def psi(self):
        dataset = records()
        cliques = [("sex", "age"), ("age", "ill"), ("sex", "ill"), ("age", "sex")]
        return dataset, Psi(
            CODING.domain.covered_by(cliques),
            tuple(
                Measurement(clique, count(dataset, clique).astype(float), 2.0 + place)
                for place, clique in enumerate(cliques)
            ),
        )

    def test_all_that_hold_a_clique_are_weighted_by_inverse_variance(self):
        _, psi = self.psi()
        margins = PsiMargins(psi)
        shares = dict(margins.shares(("sex", "age")))
        assert shares == pytest.approx({0: 25 / 29, 3: 4 / 29})
        variance = margins.variances(("age", "sex"))
        np.testing.assert_allclose(variance, np.full((4, 2), 1 / (1 / 4 + 1 / 25)))
        assert sum(dict(margins.shares(())).values()) == pytest.approx(1.0)

    def test_an_exact_marginal_overrules_noisy_ones(self):
        dataset, psi = self.psi()
        exact = Measurement(("sex",), count(dataset, ("sex",)))
        margins = PsiMargins(Psi(psi.domain, (*psi.measurements, exact)))
        assert margins.source(("sex",)) == ("sex",)
        assert not margins.variances(("sex",)).any()
        assert records_of(margins) == len(dataset)

    def test_the_answer_says_so(self):
        _, psi = self.psi()
        result = answer_of("age ~ sex", Analysis.LINEAR, PsiMargins(psi), CODING)
        assert result.noise.startswith("noise of standard deviation")


def test_weights_are_checked():
    with pytest.raises(InvalidInputError, match="weights"):
        RecordMargins.of(records(10), [1.0] * 9)
    with pytest.raises(InvalidInputError, match="weights"):
        RecordMargins.of(records(2), [1.0, np.nan])
