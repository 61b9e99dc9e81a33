"""Checked runs as a job: real files in the vault, our own analyses, output checks; and attacks."""

import json
from dataclasses import asdict, replace
from itertools import combinations
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from examples.fair_survey import ATTRIBUTES, SCHEMA, write_records
from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.controller.answers.answers import AgreedShape
from gencard.controller.jobs import answering
from gencard.controller.jobs.measurement import records_as_stored
from gencard.controller.jobs.process import Done, packed, received, unpacked
from gencard.controller.jobs.tasks import ANSWER, AnswerJob, Before, EndedQuestion, RecordsSource
from gencard.controller.records.file_format import USUAL
from gencard.controller.records.schema_file import PublicSchema, read_schema
from gencard.controller.records.vault import Vault
from gencard.core.card.privacy import Mechanism, privacy_with
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.errors import InvalidInputError, UndeclaredLevelError, UnknownAttributeError
from gencard.core.policy import OUTPUT_RULES, USUAL_RULES
from gencard.core.types import ignore_progress
from gencard.wire.canonical import json_bytes
from gencard.wire.documents import Question
from tests.core.stored_runs import stored_run

SALT = b"salt"
CODING = Coding(
    (
        Attribute("region", Labels(("North", "South", "West", "Isle"))),
        Attribute("sex", Labels(("f", "m"))),
        Attribute("age", Edges((20.0, 30.0, 40.0, 50.0, 60.0), missing=True, decimals=0)),
        Attribute("ill", Labels(("no", "yes"))),
        Attribute("income", Edges((0.0, 1000.0, 2000.0, 3000.0, 10000.0))),
    )
)
ROWS = 3_000


def people():
    """Nine people live on the isle; illness grows with age, income with age and sex."""
    rng = np.random.default_rng(5)
    age = rng.integers(20, 60, ROWS).astype(float)
    frame = pd.DataFrame(
        {
            "region": rng.choice(["North", "South", "West"], ROWS, p=[0.5, 0.3, 0.2]),
            "sex": rng.choice(["f", "m"], ROWS),
            "age": age,
            "ill": np.where(rng.random(ROWS) < 0.1 + (age - 20) / 100, "yes", "no"),
        }
    )
    frame["income"] = np.round(
        np.minimum(np.exp(rng.normal(6.8, 0.7, ROWS)) + 20 * age + 200 * (frame.sex == "m"), 9_999), 2
    )
    frame.loc[:8, "region"] = "Isle"
    frame.loc[20:2400:40, "age"] = np.nan
    return frame


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    path = tmp_path_factory.mktemp("vault") / "records.csv"
    people().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def ask(survey):
    """Runs a job, as a message there and back."""
    return asking(survey)


def asking(survey, coding=CODING):
    version = Vault(survey, coding).version(SALT)
    schema = PublicSchema("t", "d", "b", True, coding)
    records = RecordsSource(str(survey), False, USUAL, schema, version, SALT, 10_000, "")
    read = {}

    def read_once(cliques, uncoded, job_records):
        """Most of a run's time goes to reading the records, and here they stay the same."""
        assert job_records == records
        key = (tuple(cliques), uncoded)
        if key not in read:
            read[key] = records_as_stored(cliques, uncoded, job_records)
        return read[key]

    def run(
        kind,
        formula,
        where="",
        missing="level",
        options="",
        *,
        privacy=None,
        limits=USUAL_RULES,
        **before,
    ):
        options = options if isinstance(options, str) else json_bytes(options).decode()
        question = Question(kind, formula, where, missing, options)
        before = {name: tuple(entries) for name, entries in before.items()}
        before["earlier"] = tuple(map(EndedQuestion, before.get("earlier", ())))
        job = AnswerJob(records, question, privacy, 100, Before(**before), limits)
        with patch.object(answering, "records_as_stored", read_once):
            result = ANSWER.run(unpacked(packed(Done(), job))[1], ignore_progress)
        return received(ANSWER, packed(Done(), result))[1]

    return run


def rules(result):
    """The rules that a refusal breaks, which its marks name for stewards alone."""
    assert result.reasons == (() if result.answer else (OUTPUT_RULES,))
    return {rule for mark in result.marks for rule in mark.rules}


def asked(kind, formula, where="", missing="level"):
    return Question(kind, formula, where, missing)


def coded(frame):
    """Income and age as their levels' midpoints."""
    income = np.array([500.0, 1500.0, 2500.0, 6500.0])
    return income[np.searchsorted([1000, 2000, 3000], frame.income, "right")], frame.age // 10 * 10 + 4.5


def test_a_run_of_the_survey_of_the_demonstration_is_answered(tmp_path):
    """Beside exact marginals of all pairs it leaves small counts open, and the search finds that."""
    schema, records = tmp_path / "schema.toml", tmp_path / "fair.csv"
    schema.write_text(SCHEMA)
    write_records(records)
    pairs = combinations(ATTRIBUTES, 2)
    formula = "affairs ~ rate_marriage * religious + age + educ"
    result = asking(records, read_schema(schema).coding)("linear", formula, released=pairs)
    assert result.reasons == ()
    assert result.answer is not None


class TestAnswers:
    def test_a_model_is_that_of_the_coded_records_rounded(self, ask):
        result = ask("linear", "income ~ sex + age", missing="drop")
        given = AnalysisAnswer.of_json(result.answer)
        assert (result.reasons, result.review) == ((), False)
        frame = people().dropna()
        y, age = coded(frame)
        age = np.where(age == 54.5, 55.0, age)  # the last interval is closed
        x = np.column_stack([np.ones(len(frame)), frame.sex == "m", age]).astype(float)
        exact, (residual,), *_ = np.linalg.lstsq(x, y, rcond=None)
        errors = np.sqrt(np.diag(np.linalg.inv(x.T @ x)) * residual / (len(frame) - 3))
        assert np.all(np.abs(np.array(given.coefficients.params) - exact) <= errors / 20)
        assert [float(f"{error:.2g}") for error in errors] == pytest.approx(given.coefficients.bse)
        assert given.n == round(len(frame) / 5) * 5

    def test_nine_people_of_the_isle_are_in_no_answer(self, ask):
        refused = ask("linear", "income ~ region")
        assert refused.answer is None
        assert "threshold" in rules(refused)
        assert ask("linear", "income ~ sex").answer is not None

    def test_what_cannot_be_read_costs_nothing(self, ask):
        for bad, error in [
            ({"kind": "nonsense", "formula": "ill ~ sex"}, InvalidInputError),
            ({"kind": "linear", "formula": "income ~ wealth"}, UnknownAttributeError),
            ({"kind": "linear", "formula": "income ~ sex", "where": "age <"}, InvalidInputError),
        ]:
            with pytest.raises(error):
                ask(**bad)

    def test_no_word_of_what_fails_at_the_records(self, ask):
        refused = ask("linear", "income ~ sex", where="region == 'Isle' and sex == 'f' and age < 30")
        assert refused.answer is None
        assert refused.reasons == (OUTPUT_RULES,)


class TestSurvival:
    def test_a_curve_of_coarse_steps_and_a_model_of_hazards(self, ask):
        curve = AnalysisAnswer.of_json(ask("kaplan-meier", "age ~ ill + sex", missing="drop").answer)
        assert {table.name for table in curve.tables} == {"survival[f]", "survival[m]"}
        assert all(row[2] >= 10 for table in curve.tables for row in table.values)
        model = AnalysisAnswer.of_json(ask("cox", "age ~ ill + sex", missing="drop").answer)
        assert model.coefficients.names == ("sex[T.m]",) or len(model.coefficients.names) == 1

    def test_nine_people_of_the_isle_have_no_curve(self, ask):
        for kind in ("kaplan-meier", "cox"):
            assert ask(kind, "age ~ ill + region", missing="drop").answer is None


STORED = {"response": "stored"}
LAPLACE = privacy_with(Mechanism.LAPLACE, {"epsilon": "1", "neighbouring": "add-remove"})


class TestStored:
    """Numbers of the response as the file has them, not by its edges."""

    def test_means_are_those_of_pandas_rounded(self, ask):
        result = ask("means", "income ~ sex", options=STORED)
        given, exact = AnalysisAnswer.of_json(result.answer), people().groupby("sex").income
        table = given.table("means")
        rows = np.array(table.values)
        assert table.row_names == ("f", "m")
        assert (result.reasons, result.review) == ((), False)
        errors = exact.sem().to_numpy()
        assert np.all(np.abs(rows[:, 1] - exact.mean()) <= errors / 20)
        assert errors == pytest.approx(rows[:, 4], rel=0.06)  # from the rounded deviation and number
        assert not any(note.startswith("as on the coded") for note in given.notes)
        coded_means = AnalysisAnswer.of_json(ask("means", "income ~ sex").answer).table("means")
        assert np.all(np.abs(np.array(coded_means.values)[:, 1] - rows[:, 1]) > 10 * errors)

    def test_quantiles_are_those_of_numpy_rounded(self, ask):
        shares = [0.25, 0.5, 0.9]
        options = STORED | {"q": shares}
        given = AnalysisAnswer.of_json(ask("quantiles", "income ~ sex", options=options).answer)
        exact = people().groupby("sex").income.quantile(shares).unstack().to_numpy()
        errors = np.array(given.table("standard errors").values)
        # a unit is at most a standard error, so that many records have the same quantile
        assert np.all(np.abs(np.array(given.table("quantiles").values) - exact) <= errors / 2 + 1e-9)
        assert np.all((errors > 0) & (errors < 0.2 * exact))

    def test_before_rounding_they_are_the_same_to_the_digit(self):
        frame = people()
        columns = {
            one.name: frame[one.name] for one in CODING.attributes if one.name in ("age", "income")
        }
        for name in ("region", "sex", "ill"):
            columns[name] = pd.Categorical(frame[name], CODING.attribute(name).coding.labels).codes
        by_sex = frame.groupby("sex").age
        for kind, q in (("means", None), ("quantiles", [0.25, 0.5])):
            options = STORED | ({"q": q} if q else {})
            exact = stored_run(kind, "age ~ sex", CODING, columns, options=options).answer
            rows = np.array(exact.tables[0].values)
            if q:
                assert rows == pytest.approx(by_sex.quantile(q).unstack().to_numpy())
            else:
                frames = [by_sex.count(), by_sex.mean(), by_sex.var(), by_sex.std(), by_sex.sem()]
                assert rows[:, :5] == pytest.approx(np.column_stack(frames))
            assert exact.n == frame.age.notna().sum()

    @pytest.mark.parametrize("sign", [1, -1])
    def test_a_group_that_one_record_dominates_has_no_mean(self, tmp_path, sign):
        """Eleven small incomes and a large one in the west; as debts it is the same."""
        edges = Edges((-100_000.0, 0.0, 100_000.0))
        coding = Coding((*CODING.attributes[:4], Attribute("income", edges)))
        frame = people()[["region", "sex", "age", "ill", "income"]][lambda one: one.region != "Isle"]
        frame["income"] *= sign
        west = frame.index[frame.region == "West"]
        frame.loc[west, "income"] = np.linspace(1, 2, len(west))
        frame.loc[west[0], "income"] = sign * 90_000
        frame.to_csv(tmp_path / "records.csv", index=False)
        run = asking(tmp_path / "records.csv", coding)
        refused = run("means", "income ~ region", options=STORED)
        assert refused.answer is None
        assert {"dominance", "p-percent"} <= rules(refused)
        assert run("means", "income ~ sex", options=STORED).answer is not None

    @pytest.mark.parametrize(("kind", "rule"), [("means", "threshold"), ("quantiles", "rank")])
    def test_nine_people_on_the_isle_have_neither(self, ask, kind, rule):
        refused = ask(kind, "income ~ region", options=STORED)
        assert refused.answer is None
        assert {"threshold", rule} <= rules(refused)

    @pytest.mark.parametrize("kind", ["means", "quantiles"])
    def test_populations_that_differ_by_nine_people(self, ask, kind):
        both = asked(kind, "income ~ 1", where="region in ['West', 'Isle']")
        both = replace(both, options=json_bytes(STORED).decode())
        assert ask(**asdict(both)).answer is not None
        west = replace(both, where="region == 'West'")
        for earlier in (both, replace(both, options="")):
            assert "differencing" in rules(ask(**asdict(west), earlier=[earlier]))
        assert ask(**asdict(both), earlier=[both]).answer == ask(**asdict(both)).answer

    def test_shares_that_enclose_few_records_or_stand_near_an_end(self, ask):
        where = "region == 'West' and age < 30 and sex == 'f'"  # about 75 people
        for share, passes in ((0.5, True), (0.25, True), (0.55, False), (0.9, False), (0.51, False)):
            result = ask("quantiles", "income ~ 1", where=where, options=STORED | {"q": share})
            assert (result.answer is not None) == passes, share
            assert rules(result) == (set() if passes else {"rank"})

    @pytest.mark.parametrize(
        ("question", "words"),
        [
            ({"formula": "region ~ sex"}, "is not a number with declared edges"),
            ({"kind": "quantiles", "formula": "log(income) ~ sex"}, "cannot be combined with functions"),
            ({"options": STORED | {"values": {"income": [1, 2, 3, 4]}}}, "no option of runs on records"),
            ({"options": {"response": "raw"}}, "levels, stored, coded"),
            ({"kind": "logistic", "formula": "ill ~ income"}, "no option 'response'"),
            ({"kind": "anova", "options": STORED | {"test": "kruskal"}}, "levels in their order"),
            ({"kind": "quantiles", "options": STORED | {"q": 0.001}}, "multiples of 0.01"),
            ({"kind": "quantiles", "formula": "income ~ sex + ill"}, "one term"),
            ({"privacy": LAPLACE}, "not the numbers"),
        ],
    )
    def test_what_cannot_be_had_is_refused_before_the_records_are_read(
        self, survey, tmp_path, question, words
    ):
        path = tmp_path / "records.csv"
        path.write_bytes(survey.read_bytes())
        run = asking(path)
        path.unlink()
        usual = {"kind": "means", "formula": "income ~ sex", "options": STORED}
        with pytest.raises(InvalidInputError, match=words):
            run(**usual | question)

    def test_numbers_outside_the_edges_are_refused_as_in_every_reading(self, tmp_path):
        frame = people()
        frame.loc[0, "income"] = 100_001
        frame.to_csv(tmp_path / "records.csv", index=False)
        with pytest.raises(UndeclaredLevelError):
            asking(tmp_path / "records.csv")("means", "income ~ sex", options=STORED)


class TestDifferencing:
    WITHOUT_NINE = "region != 'Isle'"

    def test_all_but_nine_people_are_refused_first_or_second(self, ask):
        assert "differencing" in rules(ask("linear", "income ~ sex", where=self.WITHOUT_NINE))
        earlier = [asked("linear", "income ~ sex")]
        refused = ask("linear", "age ~ sex", where=self.WITHOUT_NINE, missing="drop", earlier=earlier)
        assert "differencing" in rules(refused)

    def test_nested_groups_that_leave_nine(self, ask):
        """West and Isle, then West: each is large, and nobody asked for everybody."""
        both = asked("linear", "income ~ sex", where="region in ['West', 'Isle']")
        assert ask(**asdict(both)).answer is not None
        refused = ask("linear", "income ~ sex", where="region == 'West'", earlier=[both])
        assert "differencing" in rules(refused)

    def test_a_chain_of_groups_that_leaves_nine(self, ask):
        """The groups leave out North, then South, then West."""
        groups = [
            asked("linear", "income ~ sex", where=f"region == '{name}'") for name in ("North", "South")
        ]
        assert ask(**asdict(groups[1]), earlier=groups[:1]).answer is not None
        refused = ask("linear", "income ~ sex", where="region == 'West'", earlier=groups)
        assert "differencing" in rules(refused)

    def test_missing_values_that_are_dropped(self, ask):
        """Sixty people have no age; with fewer than the threshold it would be a difference."""
        number = int(people().age.isna().sum())
        assert number == 60
        earlier = [asked("linear", "income ~ sex")]
        assert ask("linear", "income ~ age", missing="drop", earlier=earlier).answer is not None
        few = ask("linear", "income ~ age", missing="drop", earlier=earlier, limits=limits(threshold=61))
        assert "differencing" in rules(few)

    def test_cells_of_a_card(self, ask):
        """A card told illness by age; ages without the isle would tell of the isle's people by age."""
        where = "age < 30 and region != 'Isle'"
        assert ask("linear", "income ~ sex", where=where, released=[("age", "ill")]).answer is None

    def test_the_same_question_again_is_no_difference(self, ask):
        again = asked("linear", "income ~ sex", where="age < 40")
        assert ask(**asdict(again), earlier=[again, again]) == ask(**asdict(again))


def limits(**checks):
    """The usual rules with some numbers changed."""
    return replace(USUAL_RULES, checks=replace(USUAL_RULES.checks, **checks))


class TestTables:
    def test_no_number_rests_on_more_than_what_was_judged(self, ask):
        """A classifier's accuracy takes all attributes together; the rules look at pairs."""
        result = ask("naive-bayes", "ill ~ sex + age", missing="drop")
        given = AnalysisAnswer.of_json(result.answer)
        assert {scalar.name for scalar in given.scalars} == {"baseline"}
        assert "confusion" not in {table.name for table in given.tables}

    @pytest.mark.parametrize(
        ("kind", "formula"),
        [
            ("crosstab", "sex ~ region + ill"),
            ("naive-bayes", "sex ~ region"),
            ("chow-liu", "~ sex + region"),
            ("correspondence", "~ sex + region"),
            ("means", "income ~ region"),
            ("anova", "income ~ region + sex"),
            ("discriminant", "region ~ income"),
        ],
    )
    def test_nine_people_on_the_isle_are_in_no_table(self, ask, kind, formula):
        result = ask(kind, formula)
        assert result.answer is None
        assert "threshold" in rules(result)

    def test_counts_of_each_of_several_tables_are_rounded(self, ask):
        result = ask("crosstab", "sex ~ ill + age", missing="drop")
        tables = AnalysisAnswer.of_json(result.answer).tables
        base = USUAL_RULES.checks.rounding
        counts = [table for table in tables if table.name.startswith("counts")]
        assert len(counts) == 2
        assert all(value % base == 0 for table in counts for row in table.values for value in row)


@pytest.mark.parametrize(
    ("kind", "formula"),
    [("loglinear", "~ region"), ("loglinear", "~ region + sex"), ("crosstab", "ill ~ region")],
)
def test_a_level_that_no_record_has_is_not_called_a_small_count(tmp_path, kind, formula):
    """Every cell with a record has far more than the threshold; the steward reads "zero"."""
    path = tmp_path / "records.csv"
    frame = people()
    frame[frame.region != "Isle"].to_csv(path, index=False)
    assert rules(asking(path)(kind, formula)) == {"zero"}


def test_a_small_count_is_called_one(ask):
    assert "threshold" in rules(ask("loglinear", "~ region"))


@pytest.mark.parametrize("release", ["a\x00b", "a\ud800b", "a\nb"])
def test_a_dry_run_names_its_release_in_a_text_that_every_database_takes(release):
    document = json.dumps({"release": release, "seed": 1, "outputs": []})
    assert AgreedShape.read(document.replace(json.dumps(release), '"r"').encode()).release == "r"
    with pytest.raises(InvalidInputError, match="dry_run"):
        AgreedShape.read(document.encode())
