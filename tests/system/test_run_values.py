"""Numbers of an analyst's own for levels, at a real service: refused free of charge; old runs stay."""

import json
import sqlite3
from contextlib import closing

import grpc
import numpy as np
import pytest
from typer.testing import CliRunner

from gencard.client.answers.answering import fetch
from gencard.client.shell.main import app
from gencard.core.errors import (
    AnswerWaitingError,
    InvalidFormulaError,
    InvalidInputError,
    RecordsProtectedError,
    RunRefusedError,
)
from gencard.v1 import answers_pb2 as pb
from gencard.wire.canonical import json_bytes
from gencard.wire.documents import Question
from gencard.wire.dsse import DOCUMENT
from tests.system.house import build, request_id, survey
from tests.system.noisy import noisy, propose
from tests.system.raw_calls import call, configure, state_unchanged
from tests.system.stewards import Steward

PAIRS = [("sex", "health"), ("sex", "work"), ("age",)]
KINDS = ["correlation", "kaplan-meier", "linear", "means"]
POLICY = f"{{ kinds = {KINDS}, checked_runs = 80, numbers = 200 }}".replace("'", '"')
RUN = "/gencard.v1.AnswersService/RunAnalysis"
OWN = {"age": [0, 0, 0, 1e9]}


def few_are_very_ill():
    """Nine people in very bad health."""
    frame = survey(900)
    others = np.flatnonzero(frame.health == "very bad")[9:]
    frame.loc[others, "health"] = "bad"
    return frame


def opened(folder, **policy):
    made = build(folder, few_are_very_ill())
    made.raise_caps()
    configure(made, "datasets.policy", **{"analyses": POLICY, "largest_order": 2} | policy)
    return made.start()


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    made = opened(tmp_path_factory.mktemp("values"), forbidden='[["region", "work"]]')
    yield made
    made.stop()


@pytest.fixture
def ana(house):
    with house.analyst() as analyst:
        yield analyst


def proposed(analyst):
    granted = {"kinds": KINDS, "checked_runs": 30}
    return analyst.propose("survey", PAIRS, purpose="a test", rows=900, analyses=granted).accept()


@pytest.fixture
def card(ana):
    return proposed(ana)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("values", [OWN, {"age": [1, 2, 3, 4]}, {"age": [1]}, {}])
def test_no_run_takes_numbers_of_the_analyst_s_own(house, card, kind, values):
    formula = "~ age + health" if kind == "correlation" else "age ~ sex"
    with (
        state_unchanged(house),
        pytest.raises(InvalidInputError, match="the schema declares") as refused,
    ):
        card.run(formula, kind, values=values, progress=False)
    assert "card.answer" in str(refused.value)
    assert not list(card.answers())


@pytest.mark.parametrize(
    "values", [OWN, {}, {"age": [1]}, {"nothing": [1]}, {"age": "x"}, None, 7, [OWN]]
)
@pytest.mark.parametrize("where", ["", "age > 5"])
def test_nor_does_a_message_straight_to_the_service(house, card, values, where):
    options = json_bytes({"values": values}).decode()
    request = pb.RunAnalysisRequest(
        card=card.name,
        kind="linear",
        formula="age ~ sex",
        where=where,
        options=options,
        request_id=request_id(),
    )
    with state_unchanged(house):
        ending = call(house.channel(house.person("ana")), RUN, request)
    assert (ending.code, ending.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")


def test_the_shell_says_so(house, card):
    folder = house.person("ana")
    (folder / "connection.toml").write_text(f'address = "{house.address}"\n')
    words = ["run", card.name, "age ~ sex", "--kind", "linear", "--connection", str(folder)]
    with state_unchanged(house):
        ran = CliRunner().invoke(app, [*words, "--values", "age=0,0,0,1e9"])
    assert ran.exit_code == 1
    assert "the schema declares" in " ".join(ran.output.split())
    assert "--values" not in CliRunner().invoke(app, ["run", "--help"]).output


@pytest.mark.parametrize(
    ("formula", "kind"),
    [
        *((formula, "linear") for formula in (
            "I(age ** 30) ~ sex", "exp(age) ~ sex", "I((age == 55) * 1e9) ~ sex",
            "age ~ I((health == 'very bad') * 1e9)", "age ~ ifelse(health == 'bad', 1e9, 0)",
            "age ~ C(health, levels=['good', 'bad'])", "I(age + 1e6) ~ sex",
        )),
        ("I((age == 55) * 1e9) ~ sex", "means"),
        ("~ age + I((sex == 'male') * 1e9)", "correlation"),
        ("I(-age) ~ sex", "kaplan-meier"),
    ],
)  # fmt: skip
def test_nor_does_a_function_choose_them(house, card, formula, kind):
    with state_unchanged(house), pytest.raises((InvalidFormulaError, InvalidInputError)):
        card.run(formula, kind, progress=False)


def test_usual_functions_are_answered_and_groups_are_judged(house, card):
    assert card.run("log(age) ~ sex", "linear", progress=False).nobs == 900
    assert card.run("age ~ I(health in ['good', 'fair']) + sex", "linear", progress=False).nobs == 900
    for group in (
        "I(health == 'very bad')",
        "ifelse(health != 'very bad', 1, 0)",
        "C(health == 'very bad')",
    ):
        with pytest.raises(RunRefusedError):
            card.run(f"age ~ {group}", "linear", progress=False)
    with pytest.raises(RunRefusedError):  # differs by the nine from the group above
        card.run("age ~ I(health in ['good', 'fair', 'very bad']) + sex", "linear", progress=False)


def test_the_policy_counts_and_keeps_apart_the_attributes_of_groups(house, card):
    with state_unchanged(house), pytest.raises(RecordsProtectedError, match="region and work"):
        card.run("age ~ I(region == 'north' and work == 'part')", "linear", progress=False)
    wide = "age ~ I(sex == 'male' or work == 'part') + health"
    with state_unchanged(house), pytest.raises(RecordsProtectedError, match="tables of 3"):
        card.run(wide, "linear", progress=False)


def test_runs_under_noise_take_neither(tmp_path):
    granted = {"kinds": ["linear"], "checked_runs": 3, "epsilon": "0.25"}
    policy = '{ kinds = ["linear"], checked_runs = 80, numbers = 200 }'
    with noisy(tmp_path, analyses=policy) as house, house.analyst() as ana:
        card = propose(ana, epsilon="0.5", neighbouring="replace-one", analyses=granted).accept()
        for formula, values in (("age ~ sex", {"age": [0, 0, 0, 1]}), ("exp(age) ~ sex", None)):
            with state_unchanged(house), pytest.raises(InvalidInputError, match="runs on records"):
                card.run(formula, "linear", values=values, progress=False)


def as_of_before(house, name, **options):
    """Make a run one that was asked before values were withdrawn."""
    question = Question("linear", "age ~ sex", options=json_bytes({"values": options}).decode())
    path = house.folder / "state" / "state.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        changed = connection.execute(
            "UPDATE runs SET request = ?, question = ? WHERE name = ?",
            (json_bytes(DOCUMENT.write(question)), question.digest, name),
        )
        assert changed.rowcount == 1


def test_a_run_of_before_is_released_read_verified_and_judged_beside(tmp_path):
    """The run waited for a steward while the service was renewed."""
    house = opened(tmp_path, analyses=POLICY.replace(" }", ', release = "steward" }'))
    try:
        with house.analyst() as ana:
            card = proposed(ana)
            with pytest.raises(AnswerWaitingError):
                card.run("age ~ sex", "linear", progress=False)
            name = next(iter(card.answers())).name
            as_of_before(house, name, age=[1, 2, 3, 4])
            steward = Steward(house.controller.controller_state)
            assert [row.name for row in steward.waiting()] == [name]
            steward.release(name)
            answer = fetch(card.agreement, name)
            assert answer.nobs == 900
            repeated = card.run("age ~ sex", "linear", values={"age": [1, 2, 3, 4]}, progress=False)
            assert repeated.envelope == answer.envelope
            kept = answer.save(tmp_path / "kept")
            folder = card.agreement.connection.credentials.folder
            words = ["verify", str(kept), "--connection", str(folder), "--json"]
            outcomes = json.loads(CliRunner().invoke(app, words).stdout)
            assert ("Answer answer.json", "passed") in {
                (one["what"], one["outcome"]) for one in outcomes
            }
            with pytest.raises(RunRefusedError):  # differs by nine from the run of before
                card.run("age ~ sex", "linear", where="health != 'very bad'", progress=False)
            with pytest.raises(AnswerWaitingError):
                card.run(
                    "age ~ health",
                    "linear",
                    where="sex == 'male' and health in ['good', 'fair']",
                    progress=False,
                )
    finally:
        house.stop()
