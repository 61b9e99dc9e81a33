"""Plans against the small controller, whose policy offers marginals of at most two attributes."""

import json
from dataclasses import FrozenInstanceError, replace

import pytest
from typer.testing import CliRunner

from gencard.client.shell.main import app
from gencard.core import errors
from gencard.core.card.budget import Price
from gencard.core.card.card import CardState
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.marginals import dimension
from tests.client.fake_controller import CODING
from tests.client.test_report import text_of
from tests.client.test_views import rich_text

FITS = "health ~ sex + age"
TOO_RICH = "health ~ sex * children + age"


@pytest.fixture
def run(people, connection_toml, monkeypatch):
    monkeypatch.setenv("GENCARD_CONNECTION", str(people / "ana"))
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: CliRunner().invoke(app, ["plan", *words])


class TestPlan:
    def test_it_is_priced_and_nothing_is_left(self, ana, world):
        plan = ana.plan("survey", FITS, kind="logistic")
        assert set(plan.marginals) == {("sex", "health"), ("age", "health"), ("sex", "age")}
        assert plan.price == Price(dimension(CODING.domain, plan.marginals))
        assert plan.kind is Analysis.LOGISTIC
        assert (plan.changes, plan.lacking, plan.missing) == ((), (), ())
        assert plan.next_step == "propose(purpose=...)"
        assert world.cards == {}

    def test_it_does_not_change(self, ana):
        with pytest.raises(FrozenInstanceError):
            ana.plan("survey", FITS).aim = None

    def test_it_becomes_a_card(self, ana, world):
        plan = ana.plan("survey", FITS, rows=500)
        card = plan.propose(purpose="Health by sex and age")
        assert card.state is CardState.OFFERED
        assert list(world.cards) == [card.name]
        assert set(card.terms.marginals) == set(plan.marginals)
        assert (card.terms.rows, card.terms.generator) == (500, "ipf")
        assert card.terms.purpose == "Health by sex and age"
        assert card.price == plan.price
        assert plan.propose(purpose="more", rows=70, generator="other").negotiation.proposed.rows == 70
        assert plan.propose(purpose="?", generator="other").negotiation.proposed.generator == "other"

    def test_an_offer_of_less_is_told(self, ana):
        plan = ana.plan("survey", TOO_RICH)
        assert [change.reason for change in plan.changes] == ["ORDER_TOO_HIGH"] * 2
        assert set(plan.lacking) == {("sex", "children", "health"), ("sex", "children", "age")}
        assert "smaller formula" in plan.next_step
        assert plan.missing == ("children",)

    @pytest.mark.parametrize(
        ("formula", "kind", "expected"),
        [
            ("health ~ sex + age", "logistic", ["sex", "age", "features together"]),
            ("health ~ 1", "linear", ["the response"]),
            ("health ~ age + age:sex", "linear", ["age, age:sex"]),
            ("~ sex:age + health", "crosstab", ["sex:age", "health"]),
        ],
    )
    def test_each_marginal_says_what_it_is_for(self, ana, world, formula, kind, expected):
        world.richest = 3
        purposes = dict(ana.plan("survey", formula, kind=kind).purposes())
        assert sorted(purposes.values()) == sorted(expected)

    @pytest.mark.parametrize(
        ("formula", "kind", "error"),
        [
            ("health ~ ", "logistic", errors.InvalidFormulaError),
            ("~ sex", "linear", errors.InvalidInputError),
            ("health ~ income", "logistic", errors.UnknownAttributeError),
            (FITS, "probit", errors.InvalidInputError),
        ],
    )
    def test_what_is_wrong_is_never_sent(self, ana, world, formula, kind, error):
        with pytest.raises(error):
            ana.plan("survey", formula, kind=kind)
        assert world.faults.calls["ProposeCard"] == 0


class TestViews:
    @pytest.mark.parametrize("shown", [lambda p: text_of(p._repr_html_()), rich_text])
    def test_everything_that_a_reader_needs(self, ana, shown):
        text = shown(ana.plan("survey", TOO_RICH, kind="multinomial"))
        for words in (
            "health ~ sex + children + sex:children + age",
            "multinomial",
            "9 exact statistics (for the offered terms)",
            "age × health",
            "features together",
            "smaller formula",
            "a separate level of children",
            "The offer differs",
            "ORDER_TOO_HIGH",
        ):
            assert words in text

    def test_a_plan_that_fits_says_no_more_than_it_must(self, ana):
        plan = ana.plan("survey", FITS)
        assert "differs" not in text_of(plan._repr_html_())
        assert "Not determined" not in rich_text(plan)
        assert "for the offered terms" not in rich_text(plan)
        assert "Attribute(" not in repr(plan)

    def test_many_marginals_are_cut_and_that_is_said(self, ana):
        plan = ana.plan("survey", FITS)
        plan = replace(plan, aim=replace(plan.aim, marginals=plan.marginals * 8))
        assert "and 4 more" in text_of(plan._repr_html_())


class TestShell:
    def test_for_people(self, run, world):
        shown = run("survey", FITS, "--rows", "100")
        assert "→ gencard propose survey --marginal" in shown.stdout
        assert '--generator ipf --rows 100 --purpose "..."' in shown.stdout
        assert shown.exit_code == 0
        assert "sex × health" in shown.stdout
        assert "propose(purpose=...)" not in shown.stdout
        assert world.cards == {}

    def test_for_programs(self, run):
        document = json.loads(run("survey", TOO_RICH, "--kind", "multinomial", "--json").stdout)
        assert document["formula"] == "health ~ sex + children + sex:children + age"
        assert document["kind"] == "multinomial"
        assert ["age", "health"] in document["marginals"]
        assert ["sex", "children", "health"] in document["lacking"]
        assert document["changes"][0]["reason"] == "ORDER_TOO_HIGH"
        assert document["price"]["statistics"] == "9"  # of age x health: all that is left
        assert document["missing"] == ["children"]

    def test_a_wrong_formula_is_one_line(self, run):
        shown = run("survey", "health ~ sex -")
        assert shown.exit_code == 1
        assert "INVALID_FORMULA" in shown.stderr
        assert "position 15" in shown.stderr

    def test_an_analysis_that_is_none_is_wrong_usage(self, run):
        assert run("survey", FITS, "--kind", "probit").exit_code == 2
