"""The tutorial's commands, with the settings that `init` drafts: noise alone, people with own keys."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gencard.client import Analyst, all_marginals
from gencard.client.shell.main import app as analyst_shell
from gencard.controller.drafting.folder import draft
from gencard.controller.records.schema_file import read_schema
from gencard.controller.shell.main import app as steward_shell
from gencard.core.card.budget import Price
from gencard.core.card.privacy import gaussian
from gencard.core.coding import Edges
from gencard.core.errors import BudgetExceededError
from tests.system.house import House, survey
from tests.system.people import answered, person, request_in

NOISE = ("--rho", "0.05", "--neighbouring", "add-remove")
SUMS = ("--moment", "sum=age:sex", "--moment", "sum=age*age")
PAIRS = ("--marginals-of-order", "2", *SUMS, "--purpose", "Health by age", "--rows", "1000", *NOISE)
QUESTION = ("age ~ sex", "--kind", "linear")


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    folder = tmp_path_factory.mktemp("by-hand")
    survey().to_csv(folder / "survey.csv", index=False)
    house = House(folder / "controller")
    draft(house.folder, folder / "survey.csv", now=datetime.now(UTC))
    schema = house.folder / "schema.toml"
    schema.write_text(schema.read_text().replace("reviewed = false", "reviewed = true"))
    house.edit({"address": '"localhost:0"'})
    yield house.start()
    house.stop()


@pytest.fixture(scope="module")
def ana(house, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("person") / "ana"
    person("enrol", "ana", "-c", folder)
    given = ("--role", "analyst", "--project", "pilot", "--address", house.address)
    person("enrol", "--answer", answered(house, request_in(folder), *given), "-c", folder)
    return folder


def test_from_a_plan_to_a_report(house, ana, tmp_path):
    """All commands of the page that an analyst types, on noisy counts."""
    release = tmp_path / "release"
    planned = person("plan", "survey", "health ~ sex + age", "-c", ana).stdout
    assert "gaussian" in planned
    offered = person("propose", "survey", *PAIRS, "-c", ana).stdout
    (card,) = set(re.findall(r"datasets/survey/cards/[0-9a-f]+", offered))
    assert "rho 0.05" in " ".join(offered.split())
    assert "agreed" in person("accept", card, "--yes", "-c", ana).stdout
    person("generate", card, "--rows", "1000", "--seed", "7", "--output", release, "-c", ana)
    assert "Everything agrees" in person("verify", release, "-c", ana).stdout
    assert "Every byte agrees" in person("replay", release, "-c", ana).stdout
    assert person("fidelity", release, "-c", ana).stdout
    for source in (card, release):
        answered = person("answer", source, *QUESTION, "-c", ana).stdout
        assert "noise of standard deviation" in answered
        assert "●" in answered
    page, asked = tmp_path / "report.html", f"linear: {QUESTION[0]}"
    assert person("report", card, "--html", page, "--answer", asked, "-c", ana).exit_code == 0
    assert f">{QUESTION[0]}</h3>" in page.read_text()


def test_no_other_mechanism_is_signed_without_a_question(house, ana):
    exact = ("--marginal", "sex", "--purpose", "Exact counts", "--rows", "10")
    offered = person("propose", "survey", *exact, "-c", ana).stdout
    (card,) = set(re.findall(r"datasets/survey/cards/[0-9a-f]+", offered))
    for words in ((), ("--yes",)):
        result = CliRunner().invoke(analyst_shell, ["accept", card, *words, "-c", str(ana)])
        assert result.exit_code == 1
        said = " ".join(result.output.split())
        assert "it measures with gaussian, rho 0.05" in said
        assert "where exact was asked for" in said
        assert "--rho 0.05 --neighbouring add-remove" in said


def test_exact_counts_are_not_to_be_had(house, ana):
    with Analyst.connect(house.address, folder=ana) as analyst:
        card = analyst.propose("survey", all_marginals(1), purpose="A test", rows=1_000)
        assert card.offer.terms.privacy == gaussian("0.05", neighbouring="add-remove", delta="1e-6")
        assert card.price == Price(rho=Decimal("0.05"))
        assert card.changes


def test_the_caps_bind(house, ana):
    """One analyst has two cards of the drafted budget, and no third."""
    with Analyst.connect(house.address, folder=ana) as analyst:

        def release(attribute: str) -> None:
            card = analyst.propose("survey", [(attribute,)], purpose="A test", rows=1_000)
            card.accept().release(rows=10, seed=1, progress=False)

        release("sex")  # beside the card of the first test
        with pytest.raises(BudgetExceededError):
            release("work")


def test_the_steward_is_told_how_small_the_cells_are(house):
    """The text is for the steward alone: counted here with pandas over the drafted labels and edges."""
    said = CliRunner().invoke(steward_shell, ["check", "-c", str(house.settings_file)]).stdout
    assert "for the steward only" in said
    coding = read_schema(house.folder / "schema.toml").coding
    frame = survey()
    for attribute in coding.attributes:
        if isinstance(attribute.coding, Edges):
            edges = attribute.coding.edges
            frame[attribute.name] = np.searchsorted(edges[1:-1], frame[attribute.name], side="right")
    pairs = list(combinations(coding.domain.attributes, 2))
    counts = np.concatenate([frame.groupby(list(pair), observed=True).size() for pair in pairs])
    numbers = (len(pairs), (counts == 1).sum(), (counts < 10).sum(), 10, len(counts))
    assert numbers[1] > 0
    _, _, row = said.partition("Small cells")[2].partition("survey: tables")[0].rpartition("survey")
    assert [str(number) for number in numbers] == re.findall(r"\d+", row)[:5]


def test_a_question_becomes_a_confirmed_answer(house, tmp_path):
    """The tutorial's chapter: the steward grants runs, somebody asks psi and then the records."""
    settings = house.folder / "controller.toml"
    settings.write_text(settings.read_text().replace("# analyses = {", "analyses = {"))
    house.stop()
    house.start()
    folder = tmp_path / "bob"
    person("enrol", "bob", "-c", folder)
    given = ("--role", "analyst", "--project", "pilot", "--address", house.address)
    person("enrol", "--answer", answered(house, request_in(folder), *given), "-c", folder)
    offered = person("propose", "survey", *PAIRS, "--analyses", "linear", "-c", folder).stdout
    (card,) = set(re.findall(r"datasets/survey/cards/[0-9a-f]+", offered))
    person("accept", card, "--yes", "-c", folder)
    run = person("run", card, *QUESTION, "-c", folder).stdout
    assert "Released by" in run
    assert "released" in person("answers", card, "-c", folder).stdout
