"""Each way to a signature says first what noise and levels do to the analysis."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date

import pytest
from typer.testing import CliRunner

from gencard.client import Analyst, planning, total
from gencard.client.card import Card
from gencard.client.shell.main import app
from gencard.client.shell.terminal import number_option
from gencard.controller.drafting.folder import drafted_schema_text
from gencard.controller.drafting.schema_draft import draft_schema
from gencard.core.card.card import USABLE, CardState
from gencard.core.errors import LevelsTooWideError, NotAcceptedError
from tests.client.test_report import text_of
from tests.system.house import House, build
from tests.system.raw_calls import configure
from tests.system.test_numbers import expenditures

RECORDS = 6_000
FORMULA, KIND = "spent ~ sex + hours", "linear"
ENOUGH = {"rho": "5", "neighbouring": "add-remove"}
LITTLE = {"rho": "0.00001", "neighbouring": "add-remove"}
NO_NOISE: dict[str, str] = {}
WIDE = {"COLUMNS": "4000"}


def with_numbers(folder, **policy: str) -> House:
    """A controller with a file of expenditures, whose number of records is declared."""
    built = build(folder, expenditures(RECORDS))
    text = drafted_schema_text(draft_schema(folder / "survey.csv", "A survey", today=date(2026, 1, 1)))
    text = text.replace("reviewed = false", f"reviewed = true\nrecords = {RECORDS}", 1)
    (built.folder / "schema.toml").write_text(text)
    built.offer_private('["ipf"]', "100_000")
    noise = '{ mechanism = "gaussian", neighbouring = "add-remove", rho = "5" }'
    offered = {"histograms": '"noise"', "sums": '"noise"', "largest_order": "4", "noise": noise}
    return configure(built, "datasets.policy", **offered | policy).start()


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Iterator[House]:
    built = with_numbers(tmp_path_factory.mktemp("before"), mechanisms='["exact", "gaussian"]')
    yield built
    built.stop()


@pytest.fixture(scope="module")
def noisy(tmp_path_factory) -> Iterator[House]:
    """A policy that offers noise in place of exact counts."""
    built = with_numbers(tmp_path_factory.mktemp("noisy"), mechanisms='["gaussian"]')
    yield built
    built.stop()


@dataclass(frozen=True)
class At:
    """A controller, an analyst and what is written on standard error."""

    house: House
    analyst: Analyst
    patch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]

    def shell(self, *words: str) -> str:
        """All that a command writes; raises the error that it names."""
        folder = self.house.person("ana")
        (folder / "connection.toml").write_text(f'address = "{self.house.address}"\n')
        result = CliRunner().invoke(app, [*words, "-c", str(folder)], env=WIDE)
        if LevelsTooWideError.reason in result.stderr and result.exit_code:
            raise LevelsTooWideError(attribute="spent", cliques=result.stderr)
        if NotAcceptedError.reason in result.stderr:
            raise NotAcceptedError(problem=result.stderr)
        assert result.exit_code == 0, result.output
        return result.stderr + result.stdout

    def statistics(self, formula: str) -> tuple[object, ...]:
        """Return the statistics that a plan proposes, as an analyst without a plan would write them."""
        plan = self.analyst.plan("survey", formula, kind=KIND, **ENOUGH)
        return (*plan.marginals, *plan.numbers)

    def proposal(self, formula: str, privacy: Mapping[str, str], *more: str) -> list[str]:
        """The same in the shell."""
        words = ["survey"]
        for one in self.statistics(formula):
            words += ["--marginal", ",".join(one)] if isinstance(one, tuple) else []
            words += [] if isinstance(one, tuple) else ["--moment", number_option(one)]
        noise = [word for name, text in privacy.items() for word in (f"--{name}", text)]
        return [*words, *noise, *more]


def flat(shown: str) -> str:
    """Join the text of a panel in one line."""
    return " ".join(shown.replace("│", " ").split())


def synthesize_in_python(at: At, formula: str, privacy: Mapping[str, str]) -> str:
    at.analyst.synthesize("survey", formula, kind=KIND, rows=50, accept=True, **privacy)
    return at.capture.readouterr().err.partition("Signed: ")[0]


def synthesize_in_the_shell(at: At, formula: str, privacy: Mapping[str, str]) -> str:
    noise = [word for name, text in privacy.items() for word in (f"--{name}", text)]
    output = str(at.house.folder / "rows.csv")
    words = ["--kind", KIND, "--rows", "50", "--output", output, "--yes", "--replace", *noise]
    return at.shell("synthesize", "survey", formula, *words).partition("Signed: ")[0]


def synthesize_when_asked(at: At, formula: str, privacy: Mapping[str, str]) -> str:
    """In a terminal or notebook: the panel and the question are what stands before the signature."""
    shown: list[str] = []

    def answer(offer: planning.Plan | Card, question: str) -> bool:
        shown.append(text_of(offer._repr_html_()) + question)
        if "does not determine" in question:
            raise NotAcceptedError(problem=question)
        return True

    at.patch.setattr(planning, "_answer", answer)
    at.analyst.synthesize("survey", formula, kind=KIND, rows=50, progress=False, **privacy)
    return "".join(shown)


def plan_and_propose(at: At, formula: str, privacy: Mapping[str, str]) -> str:
    """In a notebook: the plan and the card are shown where they are made."""
    plan = at.analyst.plan("survey", formula, kind=KIND, **privacy)
    if plan.lacking or plan.lacking_sums:
        raise NotAcceptedError(problem=dict(plan.lines())["Not determined"])
    card = plan.propose(purpose="A test")
    said = text_of(card._repr_html_())
    assert dict(plan.lines())["Noise"] in said
    card.accept()
    return said


def propose_for_an_analysis(at: At, formula: str, privacy: Mapping[str, str]) -> str:
    statistics = [("sex",)] if formula != FORMULA else at.statistics(formula)
    about = {"formula": formula, "kind": KIND, "purpose": "A test"}
    card = at.analyst.propose("survey", statistics, **about, **privacy)
    said = text_of(card._repr_html_())
    if card.effects.lacking:
        raise NotAcceptedError(problem=card.effects.lacking)
    card.accept()
    return said


def propose_and_accept_in_the_shell(at: At, formula: str, privacy: Mapping[str, str]) -> str:
    """Without a terminal: `propose` says it, and `accept` again."""
    about = ["--formula", formula, "--kind", KIND]
    proposal = ["survey", "--marginal", "sex"] if formula != FORMULA else at.proposal(formula, privacy)
    said = at.shell("propose", *proposal, *about, "--purpose", "A test")
    name = next(card.name for card in at.analyst.cards() if card.state is CardState.OFFERED)
    again = at.shell("accept", name, *about, "--yes").partition("agreed")[0]
    noise = [line for line in again.splitlines() if line.startswith("Noise: ")]
    assert noise
    assert all(line.removeprefix("Noise: ") in flat(said) for line in noise)
    return again


def propose_and_sign_in_one_command(at: At, formula: str, privacy: Mapping[str, str]) -> str:
    about = ["--formula", formula, "--kind", KIND, "--purpose", "A test", "--accept"]
    proposal = ["survey", "--marginal", "sex"] if formula != FORMULA else at.proposal(formula, privacy)
    return at.shell("propose", *proposal, *about).partition("Price: ")[0]


def propose_without_an_analysis(at: At, formula: str, privacy: Mapping[str, str]) -> str:
    """No formula is named: the offer says what noise does to groups of its sums' numbers."""
    if formula != FORMULA:
        pytest.skip("nothing is said of an analysis that is not named")
    card = at.analyst.propose("survey", at.statistics(formula), purpose="A test", **privacy)
    words = planning.Consent(accept=True, show=True)
    words.ask(card)
    card.accept()
    return at.capture.readouterr().err


Way = Callable[[At, str, Mapping[str, str]], str]
WAYS: tuple[Way, ...] = (
    synthesize_in_python,
    synthesize_in_the_shell,
    synthesize_when_asked,
    plan_and_propose,
    propose_for_an_analysis,
    propose_and_accept_in_the_shell,
    propose_and_sign_in_one_command,
    propose_without_an_analysis,
)
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@pytest.fixture
def at(house, monkeypatch, capsys) -> Iterator[At]:
    with house.analyst() as analyst:
        monkeypatch.setenv("COLUMNS", "4000")
        yield At(house, analyst, monkeypatch, capsys)
        end_all(analyst)


def end_all(analyst: Analyst) -> None:
    """Each way makes a card of its own."""
    for card in analyst.cards():
        if card.state in (*USABLE, CardState.OFFERED):
            card.terminate()


def signed(analyst: Analyst) -> int:
    return sum(card.state in USABLE for card in analyst.cards())


@every_way
@pytest.mark.parametrize("privacy", [ENOUGH, LITTLE], ids=["enough", "little"])
def test_noise_is_said_before_the_signature(at, way, privacy):
    said = way(at, FORMULA, privacy)
    assert signed(at.analyst) == 1
    effect = dict(at.analyst.plan("survey", FORMULA, kind=KIND, **privacy).lines())["Noise"]
    if way is not propose_without_an_analysis:
        assert effect in said, "the same words everywhere"
    else:
        assert "spent ~ sex (linear): " in said
    drowns = "will probably drown this analysis (NOISE_DROWNS)"
    assert (drowns in said) is (privacy is LITTLE)


@every_way
def test_a_response_whose_levels_are_too_wide_is_refused_before_the_signature(at, way):
    before = len(at.analyst.cards())
    with pytest.raises(LevelsTooWideError):
        way(at, "log(spent + 1) ~ sex", ENOUGH)
    assert len(at.analyst.cards()) == before


@every_way
def test_an_offer_without_the_sums_of_the_response_is_not_signed(at, way):
    """The policy has sums with noise only: exact counts of levels would not give the answer."""
    if way is propose_without_an_analysis:
        pytest.skip("nothing is said of an analysis that is not named")
    with pytest.raises(NotAcceptedError, match="sum of spent by sex"):
        way(at, FORMULA, NO_NOISE)
    assert signed(at.analyst) == 0


@every_way
def test_no_other_mechanism_is_signed_without_a_question(noisy, way, monkeypatch, capsys):
    """Exact counts were asked for, and noise is offered; who is asked sees it as a change."""
    if way in (synthesize_when_asked, plan_and_propose, propose_for_an_analysis):
        pytest.skip("an analyst who reads the changes may sign them")
    monkeypatch.setenv("COLUMNS", "4000")
    with noisy.analyst() as analyst:
        at = At(noisy, analyst, monkeypatch, capsys)
        with pytest.raises(NotAcceptedError, match="measures with gaussian") as caught:
            way(at, FORMULA, NO_NOISE)
        assert signed(analyst) == 0
        if way is propose_and_sign_in_one_command:
            (card,) = (one for one in analyst.cards() if one.state is CardState.OFFERED)
            assert f"Card {card.name} stays open." in str(caught.value)
        end_all(analyst)


def test_plan_price_and_offer_have_the_same_effects(at):
    """The effects are the same as lines, in the shell and as JSON; predicted errors are side by side."""
    plan = at.analyst.plan("survey", FORMULA, kind=KIND, **ENOUGH)
    effects = plan.answer.effects
    assert [name for name, _ in effects.lines()] == ["Noise"]
    assert plan.prediction is not None
    assert plan.prediction.noise is not None
    card = plan.propose(purpose="A test")
    assert card.effects == effects
    about = ["--formula", FORMULA, "--kind", KIND]
    noise = at.proposal(FORMULA, ENOUGH)[-4:]
    priced = at.shell("price", *at.proposal(FORMULA, ENOUGH, *about))
    planned = at.shell("plan", "survey", FORMULA, "--kind", KIND, *noise)
    for said in (priced, planned):
        assert effects.noise in flat(said)
        for words in ("Sampling error", "Error by noise", *plan.prediction.names):
            assert words in said
    documents = [
        json.loads(at.shell("price", *at.proposal(FORMULA, ENOUGH, *about, "--json"))),
        json.loads(at.shell("plan", "survey", FORMULA, "--kind", KIND, *noise, "--json")),
    ]
    for document in documents:
        assert document["effects"] == json.loads(json.dumps(effects.document()))


def test_an_offer_of_sums_says_what_noise_does_to_their_groups(at):
    """Without the marginals of levels that a plan adds for rows."""
    phi = [("sex",), total("spent", by=["sex"]), total("spent", "spent")]
    card = at.analyst.propose("survey", phi, purpose="A test", **ENOUGH)
    (name, words), *_ = card.effects.lines()
    assert name == "Noise"
    assert words.startswith("spent ~ sex (linear): adds 0.0")
    assert words.count("predicted for independent") == 1


def test_invented_values_are_said_by_plan_price_and_offer(at):
    words = "values inside levels are invented: spent"
    card = at.analyst.propose("survey", [("spent", "sex")], purpose="A test")
    assert ("Numbers", words) in card.lines()
    assert words in flat(at.shell("price", "survey", "--marginal", "spent,sex"))
    price = ["price", "survey", "--marginal", "spent,sex", "--kind", KIND, "--formula"]
    lacking = flat(at.shell(*price, "spent ~ sex"))
    assert "sum of spent by sex" in lacking
    assert "Not determined" in lacking
    cards = len(at.analyst.cards())
    with pytest.raises(LevelsTooWideError):
        at.shell(*price, "log(spent + 1) ~ sex")
    assert len(at.analyst.cards()) == cards
