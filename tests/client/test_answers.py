"""Answers from psi: the numbers of the records, what is lacking and what it costs, saved releases."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.analysis.answers import answer as core_answer
from gencard.analysis.answers import kinds
from gencard.analysis.answers.answer import AnswerTable, Scalar, coefficients_of
from gencard.client import Answer, answer
from gencard.client.answers.answer import CoefficientPlot, Interval, digits
from gencard.client.answers.answering import answer_from
from gencard.client.common.arguments import KINDS, TAKES, AnalystQuestion, AnswerOptions
from gencard.client.shell.main import app
from gencard.core import errors
from gencard.core.card.card import CardState
from gencard.core.card.privacy import Mechanism, laplace
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.noise import noisy
from gencard.measures.evaluation.risk_findings import RowUniquesFinding
from gencard.wire.canonical import json_bytes
from tests.client.fake_world import CODING, RECORDS
from tests.client.test_card_report import drawn, report
from tests.client.test_report import text_of
from tests.client.test_views import rich_text
from tests.core.seeded_noise import SeededNoise

EVIL = '=cmd|<script>alert("1")</script>[bold]'
LINEAR = "age ~ C(health)"


@pytest.fixture
def kept(agreed, tmp_path):
    return agreed.release(rows=50, seed=9).save(tmp_path / "kept")


@pytest.fixture
def run(people, connection_toml, monkeypatch):
    monkeypatch.setenv("GENCARD_CONNECTION", str(people / "ana"))
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: CliRunner().invoke(app, ["answer", *map(str, words)])


@pytest.fixture(scope="module")
def made_up():
    """An answer with hostile names, many of them, and a number that is not defined."""
    names = ("Intercept", EVIL, *(f"x{number}" for number in range(70)))
    given = coefficients_of(names, np.linspace(-1, 1, 72), np.diag(np.full(72, 0.04)))
    tables = tuple(
        AnswerTable(name, (EVIL,), ("a",), ((None,),)) for name in ("one", "two", "3", "4", "5")
    )
    scalars = (Scalar("llf", -12.5), Scalar("chi2", 8.0, None, (3.0,), 0.046))
    core = core_answer.AnalysisAnswer(
        "logistic", f"y ~ {EVIL}", 2_000, given, scalars, tables, (("a", "b"),)
    )
    return Answer(core, (("Card", "datasets/d/cards/c"),))


def reference():
    """statsmodels on the coded records, with midpoints of the edges."""
    sm = pytest.importorskip("statsmodels.api")
    age = np.array([9.0, 41.5, 82.5])[RECORDS.column("age")]
    health = pd.get_dummies(RECORDS.column("health"), drop_first=True).to_numpy(float)
    return sm.OLS(age, sm.add_constant(health)).fit()


class TestFromPsi:
    def test_the_numbers_are_those_of_the_records(self, agreed):
        answered, records = agreed.answer(LINEAR, "linear"), reference()
        for name in ("params", "bse", "tvalues", "pvalues"):
            np.testing.assert_allclose(getattr(answered, name), getattr(records, name), rtol=1e-8)
        np.testing.assert_allclose(answered.conf_int(0.1), records.conf_int(0.1), rtol=1e-8)
        assert answered.nobs == records.nobs == len(RECORDS)
        assert answered.rsquared == answered["rsquared"] == pytest.approx(records.rsquared, rel=1e-8)
        assert answered.params.index.tolist() == ["Intercept", "C(health)[T.fair]", "C(health)[T.bad]"]

    def test_it_says_what_it_rests_on(self, agreed):
        text = rich_text(agreed.answer(LINEAR, "linear"))
        assert text.count("age: each level counts as one number") == 1
        for words in ("age × health", "exact", agreed.name, "psi SHA-256", "2,000"):
            assert words in text

    def test_levels_stand_for_what_the_analyst_says(self, agreed):
        usual = agreed.answer(LINEAR, "linear")
        doubled = agreed.answer(LINEAR, "linear", values={"age": [18, 83, 165]})
        np.testing.assert_allclose(doubled.params, 2 * usual.params)
        note = "the analyst gave the levels of age numbers that the schema does not declare"
        (by_level,), (given, said) = usual.estimates.notes, doubled.estimates.notes
        assert by_level.endswith("(age: 9, 41.5, 82.5)")
        assert (given, said) == (by_level.replace("9, 41.5, 82.5", "18, 83, 165"), note)
        assert note in " ".join(rich_text(doubled).split())
        for values in ({"age": [9, 41.5, 82.5]}, {"sex": [3, 4]}):  # the declared ones; not used
            assert (
                agreed.answer(LINEAR, "linear", values=values).estimates.notes == usual.estimates.notes
            )

    def test_what_is_lacking_is_priced_and_proposed_in_one_call(self, agreed, world):
        with pytest.raises(errors.LackingMarginalsError) as raised:
            agreed.answer("age ~ sex + health", "linear")
        lacking = raised.value
        assert {frozenset(clique) for clique in lacking.lacking} == {frozenset({"sex", "age"})}
        assert str(lacking.plan.price) in lacking.advice
        card = lacking.plan.propose(purpose="Sex by age and health")
        assert card.state is CardState.OFFERED
        assert card.accept().answer("age ~ sex + health", "linear").nobs == len(RECORDS)

    def test_what_no_offer_determines_has_no_plan(self, agreed):
        with pytest.raises(errors.LackingMarginalsError) as raised:
            agreed.answer("age ~ sex * health", "linear")
        assert raised.value.plan is None

    @pytest.mark.parametrize(
        ("formula", "options", "error", "words"),
        [
            ("health ~ ", {}, errors.InvalidFormulaError, "expected"),
            ("health ~ income", {}, errors.UnknownAttributeError, "income"),
            ("health ~ sex", {"kind": "logit"}, errors.InvalidInputError, "logistic"),
            ("health ~ sex", {"vaules": {}}, errors.InvalidInputError, "Did you mean 'values'"),
            (
                "health ~ sex",
                {"test": "welch"},
                errors.InvalidInputError,
                "is not an option of kind logistic",
            ),
            ("health ~ sex", {"missing": "no"}, errors.InvalidInputError, "level or drop"),
            ("health ~ sex", {"kind": "quantiles", "q": 2}, errors.InvalidInputError, "shares"),
            ("age ~ sex", {"kind": "means", "response": "stored"}, errors.InvalidInputError, "card.run"),
            ("health ~ sex", {"bootstrap": 7}, errors.InvalidNumberError, "from 100"),
            (LINEAR, {"kind": "linear", "bootstrap": 100}, errors.InvalidInputError, "exact"),
            ("health ~ sex", {"where": "sex ="}, errors.InvalidInputError, "where"),
            (LINEAR, {"values": {"age": [1, 2, 1e300]}}, errors.InvalidInputError, "one number"),
            (LINEAR, {"values": {"age": [1, 2, float("nan")]}}, errors.InvalidInputError, "one num"),
            ("health ~ sex", {"values": {"age": "old"}}, errors.InvalidInputError, "for each level"),
        ],
    )
    def test_what_is_wrong_is_named(self, agreed, formula, options, error, words):
        with pytest.raises(error, match=words):
            agreed.answer(formula, **{"kind": "linear" if formula == LINEAR else "logistic"} | options)

    def test_only_some_of_the_records(self, agreed):
        young = agreed.answer(LINEAR, "linear", where="health != 'bad'")
        assert young.nobs == np.sum(RECORDS.column("health") != 2)

    def test_each_kind_has_a_line_and_its_options_are_known(self):
        assert {*KINDS} == {*Analysis}
        core = {str(kind): {*how.options} for kind, how in kinds.KINDS.items()}
        assert {kind: {*TAKES.get(kind, ())} for kind in core} == core
        assert {name for names in TAKES.values() for name in names} <= {*AnswerOptions.__annotations__}

    def test_of_noisy_psi_intervals_know_the_noise_and_any_number_has_one_by_bootstrap(self):
        privacy, cliques = laplace(2, neighbouring="add-remove"), [("age", "health")]
        psi = noisy(measure_dataset(RECORDS, cliques), privacy, SeededNoise(1))
        plain, drawn = (
            answer_from(
                psi, CODING, AnalystQuestion(LINEAR, "linear", bootstrap=draws), Mechanism.LAPLACE, ()
            )
            for draws in (0, 100)
        )
        assert np.all(plain.bse > reference().bse * 0.99)
        assert "noise of standard deviation" in rich_text(plain)
        intervals = drawn.estimates.table("intervals")
        assert {"Intercept", "rsquared"} <= {*intervals.row_names}


class TestSaved:
    def test_it_is_the_answer_of_the_card(self, agreed, kept, people, world):
        online = agreed.answer(LINEAR, "linear")
        calls = sum(world.faults.calls.values())
        offline = answer(kept, LINEAR, "linear")
        signed = answer(kept, LINEAR, "linear", connection=people / "ana")
        assert offline.estimates == signed.estimates == online.estimates
        assert sum(world.faults.calls.values()) == calls
        assert "not checked" in dict(offline.about)["Verified"]
        assert "not checked" not in dict(signed.about)["Verified"]
        assert dict(offline.about)["psi SHA-256"] == dict(online.about)["psi SHA-256"]

    def test_another_psi_is_refused_without_a_key(self, kept):
        document = json.loads((kept / "psi.json").read_bytes())
        document["measurements"][0]["counts"][0] = "1"
        (kept / "psi.json").write_bytes(json_bytes(document))
        with pytest.raises(errors.VerificationError, match="another psi"):
            answer(kept, LINEAR, "linear")

    def test_a_card_that_somebody_else_signed_is_refused_with_keys(self, kept, people):
        envelope = json.loads((kept / "card.json").read_bytes())
        envelope["signatures"][0]["sig"] = envelope["signatures"][1]["sig"]
        (kept / "card.json").write_bytes(json_bytes(envelope))
        with pytest.raises(errors.VerificationError):
            answer(kept, LINEAR, "linear", connection=people / "ana")

    def test_what_is_lacking_is_named(self, kept):
        with pytest.raises(errors.LackingMarginalsError, match="sex × age"):
            answer(kept, "age ~ sex + health", "linear")


class TestViews:
    def test_a_number_is_an_attribute_and_an_item(self, made_up):
        assert made_up.llf == made_up["llf"] == -12.5
        assert "llf" in dir(made_up)
        with pytest.raises(AttributeError, match="Did you mean 'llf'"):
            _ = made_up.lff
        with pytest.raises(KeyError, match="llf"):
            made_up["deviance"]

    def test_names_from_elsewhere_are_text(self, made_up):
        page, text = made_up._repr_html_(), rich_text(made_up)
        figure = made_up.plot()._repr_html_()
        assert "<script>" not in page + figure
        assert figure.count("var(--high, #") >= len(made_up.plot().shown), "as in a notebook's page"
        assert not re.search(r"var\([^,)]*\)", figure)
        assert EVIL in text_of(page)
        assert EVIL in text

    def test_what_is_long_is_cut_and_that_is_said(self, made_up):
        text = rich_text(made_up)
        assert "and 12 more" in text
        assert "to_frame(...): 5" in text
        assert "11 more are not drawn" in repr(made_up.plot())

    def test_frames_have_all_of_it(self, made_up):
        assert made_up.to_frame().shape == (72, 6)
        assert made_up.to_frame("one").isna().all(axis=None)
        without = Answer(replace(made_up.estimates, coefficients=None, tables=()))
        assert without.to_frame().loc["chi2", "P"] == 0.046
        with pytest.raises(errors.InvalidInputError, match="Valid: one"):
            made_up.to_frame("six")

    def test_what_has_no_coefficients_says_what_it_has(self, made_up):
        without = Answer(replace(made_up.estimates, coefficients=None))
        for use in (lambda: without.params, without.plot, without.conf_int):
            with pytest.raises(errors.InvalidInputError, match=r'to_frame\("one"\)'):
                use()

    def test_files(self, made_up, tmp_path):
        made_up.to_csv(tmp_path / "a.csv")
        assert "\n\"'=cmd" in (tmp_path / "a.csv").read_text()
        made_up.save_json(tmp_path / "a.json")
        kept = json.loads((tmp_path / "a.json").read_bytes())["answer"]
        assert core_answer.AnalysisAnswer.of_json(kept) == made_up.estimates
        for name, start in (("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")):
            assert made_up.plot().save(tmp_path / name).read_bytes().startswith(start)
        with pytest.raises(errors.InvalidInputError, match="ends in"):
            made_up.plot().save(tmp_path / "a.gif")

    def test_the_summary_is_plain_text(self, made_up):
        assert "std err" in made_up.summary()
        assert "\x1b" not in made_up.summary()

    def test_a_report_shows_it_and_lets_nothing_in(self, made_up):
        without = report(drawn(180, 3), findings={"row-uniques": RowUniquesFinding(0.5, 0.25)})
        shown = replace(without, answers=(made_up,))
        page = shown.html
        assert "<script" not in page
        assert page.count("<svg") == len(shown.available) + 1
        assert "&lt;script&gt;" in page.partition('id="answers"')[2].partition("<h2")[0]
        assert shown.document()["answers"] == [made_up.document()]
        assert "answers" not in without.document()
        assert f"y ~ {EVIL}" in rich_text(shown)

    def test_a_long_formula_is_cut_in_a_line(self, made_up):
        long = Answer(replace(made_up.estimates, formula="y ~ " + "x + " * 100))
        assert len(repr(long)) < 160


class TestBars:
    def test_zero_estimate_and_ends_stand_where_they_are(self):
        drawn = (Interval("x", 5.0, 0.0, 10.0), Interval("z", -10.0, -10.0, -10.0))
        plot = CoefficientPlot("y ~ x", drawn, 0.95)
        first, second, scale = plot.bars(21)
        assert first == "x            ├────●────┤"
        assert second.rstrip() == "z  ●         ┊"
        assert scale.split() == ["-10", "10"]

    def test_what_is_not_finite_is_left_out(self):
        plot = CoefficientPlot("y ~ x", (Interval("x", float("nan"), 0, 1),), 0.95)
        assert (plot.bars(), plot.left_out) == ([], 1)
        assert repr(plot) == "<no finite interval>"


@pytest.mark.parametrize(("value", "text"), [(float("nan"), "–"), (0.0, "0"), (1e15, "1e+15")])
def test_numbers_at_the_edge(value, text):
    assert digits(value) == text


class TestShell:
    def test_of_a_card_and_of_a_folder(self, run, agreed, kept):
        for source in (agreed.name, kept):
            shown = run(source, LINEAR, "--kind", "linear")
            assert shown.exit_code == 0, shown.output
            for words in ("C(health)[T.bad]", "std err", "●", "age: each level counts"):
                assert words in shown.stdout

    def test_json_and_files(self, run, kept, tmp_path):
        files = ("--csv", tmp_path / "a.csv", "--plot", tmp_path / "a.svg")
        shown = run(kept, LINEAR, "--kind", "linear", "--json", *files)
        document = json.loads(shown.stdout)
        assert document["format"] == "gencard.answer.v1"
        frame = pd.read_csv(tmp_path / "a.csv", index_col=0)
        assert frame["coef"].tolist() == document["answer"]["coefficients"]["params"]
        assert (tmp_path / "a.svg").stat().st_size > 1_000

    def test_what_is_neither_card_nor_folder_is_named(self, run):
        assert "no/such is neither a folder nor a card" in run("no/such", LINEAR).stderr

    def test_what_is_lacking_comes_with_the_command_that_proposes_it(self, run, agreed):
        shown = run(agreed.name, "age ~ sex + health", "--kind", "linear")
        assert shown.exit_code == 1
        assert "sex × age" in shown.stderr
        assert "gencard propose survey --marginal" in shown.stderr
        assert "Traceback" not in shown.output

    @pytest.mark.parametrize(
        ("words", "named"),
        [
            (("--values", "age"), "must look like"),
            (("--plot", "a.gif"), ".svg"),
            (("--csv", "a.xlsx"), ".csv"),
        ],
    )
    def test_what_is_wrong_is_refused_before_any_call(self, run, agreed, world, words, named):
        before = sum(world.faults.calls.values())
        shown = run(agreed.name, LINEAR, *words)
        assert (shown.exit_code, sum(world.faults.calls.values())) == (1, before)
        assert named in shown.stderr

    def test_help_has_a_line_for_each_kind(self, run):
        lines = run("--help").stdout.splitlines()
        for kind in ("logistic", "crosstab", "polychoric"):
            assert any(line.split()[:1] == [kind] for line in lines)
