"""Refused runs over a real service: alike in all that is read, counted, ended with their card."""

import base64
import json
import re
import time
from datetime import timedelta

import grpc
import numpy as np
import pytest
from google.longrunning import operations_pb2, operations_pb2_grpc
from typer.testing import CliRunner

from gencard.controller.shell.main import app
from gencard.controller.state import results
from gencard.controller.state.cards import as_of
from gencard.core.card.budget import SpendState
from gencard.core.errors import (
    AnswerWaitingError,
    CardStateError,
    InvalidInputError,
    NoAnswerError,
    RunRefusedError,
    TooManyRefusalsError,
)
from gencard.core.policy import OUTPUT_RULES
from gencard.v1 import answers_pb2, answers_pb2_grpc
from tests.system.house import SCHEMA, Clock, build, survey
from tests.system.raw_calls import configure, enrolled
from tests.system.recorder import Recorder
from tests.system.stewards import Steward

KINDS = ["crosstab", "linear", "logistic", "means", "poisson"]
POLICY = f"{{ kinds = {json.dumps(KINDS)}, checked_runs = 80, numbers = 200 }}"
MOST = 3
BALANCE = '\n[[attributes]]\nname = "balance"\nedges = [-100, -20, 0, 20, 100]\n'


def people(target="good"):
    """Nine people in very bad health, and a target who is one of them or not; balances may be debts."""
    frame = survey(900)
    ill = np.flatnonzero(frame.health == "very bad")
    frame.loc[ill[9:], "health"] = "bad"
    frame.loc[0, "health"] = target
    frame["balance"] = np.clip(np.random.default_rng(2).normal(5, 30, len(frame)), -99, 99).round()
    return frame


def made(folder, frame, most=1_000, schema=SCHEMA + BALANCE):
    folder.mkdir()
    house = build(folder, frame, schema)
    house.raise_caps()
    configure(house, "datasets.policy", analyses=POLICY, largest_order=3)
    configure(house, "limits", refusals=most)
    return house.start()


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """Two services whose records differ in the health of one person."""
    folder = tmp_path_factory.mktemp("worlds")
    houses = [made(folder / target.replace(" ", "-"), people(target)) for target in ("bad", "very bad")]
    yield houses
    for house in houses:
        house.stop()


@pytest.fixture
def house(tmp_path):
    house = made(tmp_path / "house", people(), MOST)
    yield house
    house.stop()


def proposed(analyst):
    granted = {"kinds": KINDS, "checked_runs": 40, "numbers": 100}
    card = analyst.propose("survey", [("sex", "work")], purpose="a test", rows=900, analyses=granted)
    return card.accept()


REFUSED = [
    ("crosstab", "health ~ sex", ""),  # a small cell
    ("crosstab", "sex ~ work", "health == 'very bad'"),  # too few people
    ("means", "age ~ sex", "health == 'very bad'"),
    ("means", "age ~ health", ""),
    ("linear", "age ~ sex", "health != 'very bad'"),  # all but few
    ("linear", "age ~ sex", "health == 'very bad' and work == 'none'"),
    ("logistic", "sex ~ age", "health == 'very bad'"),
    ("poisson", "age ~ work", "health == 'very bad' or (work == 'full' and health == 'fair')"),
]


def everything_read(house, card, kind, formula, where):
    """All that reaches the analyst of a refused run, without names, times, digests and signatures.

    None where it is answered: of two worlds one may be above the threshold.
    """
    recorder = Recorder()
    channel = grpc.intercept_channel(house.channel(), recorder)
    try:
        card.run(formula, kind, where=where or None, progress=False)
        return None
    except RunRefusedError as error:
        name, text = error.fields["answer"], str(error).replace(error.fields["answer"], "ANSWER")
    answers = answers_pb2_grpc.AnswersServiceStub(channel)
    got = answers.GetAnswer(answers_pb2.GetAnswerRequest(name=name))
    listed = operations_pb2.ListOperationsRequest(page_size=1)
    operations = operations_pb2_grpc.OperationsStub(channel).ListOperations(listed)
    with house.analyst() as analyst:
        line = analyst.spends()[0]
    signed = payload_of(got.answer.envelope)["predicate"]
    said = {
        key: signed.get(key)
        for key in ("verdict", "reasons", "numbers", "rules", "answer", "releasedBy")
    }
    entry = json.loads(got.log_entry)
    entry = entry.get("entry", entry)
    logged = re.sub(r"[0-9a-f]{16,}|\d{4}-\d\d-\d\dT[\d:]+Z", "", json.dumps(entry.get("details")))
    operation = re.sub(
        r"seconds: \d+|nanos: \d+|[0-9a-f]{16,}|value: .*", "", repr(operations.operations[0])
    )
    price = (line.kind, str(line.state), str(line.price), got.answer.statistics)
    return json.dumps([said, logged, price, operation, text])


def payload_of(envelope):
    return json.loads(base64.b64decode(json.loads(envelope)["payload"]))


def test_refusals_of_two_worlds_look_alike_in_all_that_is_read(worlds):
    """Answer, price, operation, log and error; where one world answers, there is nothing to compare."""
    texts = []
    for house in worlds:
        with house.analyst() as analyst:
            card = proposed(analyst)
            texts += [everything_read(house, card, *question) for question in REFUSED]
    refused = list(filter(None, texts))
    assert len(refused) > len(REFUSED)
    assert len({*refused}) == 1
    assert OUTPUT_RULES in refused[0]


def test_a_refusal_takes_whole_duration_classes(worlds):
    """The refusal ends 1, 2, 4, ... seconds after it began, whichever rule refused it."""
    house = worlds[0]
    with house.analyst() as analyst:
        card = proposed(analyst)
        begin = time.monotonic()
        with pytest.raises(RunRefusedError):
            card.run("age ~ work", "means", where="health == 'very bad'", progress=False)
        assert time.monotonic() - begin >= 1.0


def test_what_the_schema_decides_is_said_before_and_costs_nothing(worlds):
    house = worlds[0]
    with house.analyst() as analyst:
        card, spent = proposed(analyst), analyst.budget("survey").spent
        for kind, formula, where, problem in (
            ("linear", "work ~ sex", None, "needs a number"),
            ("logistic", "age ~ sex", None, "neither two levels"),
            ("means", "age ~ sex", "sex == 'male' and sex == 'female'", "no level of the schema"),
            ("crosstab", "age ~ health + work + region", None, "numbers, and the card grants 100"),
        ):
            with pytest.raises(NoAnswerError, match=problem) as caught:
                card.run(formula, kind, where=where, progress=False)
            assert "Nothing was charged" in str(caught.value)
        assert analyst.budget("survey").spent == spent
        assert not list(card.answers())
        assert {one.state for one in analyst.spends()[:4]} == {SpendState.VOIDED}


def shell(house, monkeypatch, *words):
    monkeypatch.setenv("GENCARD_CONTROLLER", str(house.settings_file))
    monkeypatch.setenv("COLUMNS", "200")
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


FEW = "health == 'very bad' and {} == '{}'"
FEW_PEOPLE = [
    *(("sex", level) for level in ("female", "male")),
    *(("region", level) for level in ("north", "south")),
]


def refuse(card, *pairs):
    for name, level in pairs:
        with pytest.raises(RunRefusedError):
            card.run("age ~ 1", "means", where=FEW.format(name, level), progress=False)


def test_refusals_are_counted_until_a_steward_reviews_them(house, monkeypatch):
    with house.analyst() as ana, house.analyst(enrolled(house, "ben")) as ben:
        card, other = proposed(ana), proposed(ben)
        refuse(card, *FEW_PEOPLE[:MOST])
        assert "No answers" in shell(house, monkeypatch, "emergency", "answers", "list")
        with pytest.raises(TooManyRefusalsError):
            card.run("age ~ sex", "means", progress=False)
        refuse(other, FEW_PEOPLE[0])
        waiting = json.loads(shell(house, monkeypatch, "emergency", "refusals", "--json"))
        mine = [one for one in waiting if one["analyst"].endswith("/ana")]
        assert len(mine) == MOST
        assert all("threshold" in one["reason"] for one in mine), "stewards see the rule"
        shell(
            house,
            monkeypatch,
            "emergency",
            "refusals",
            "dismiss",
            mine[0]["operation"],
            "--steward",
            "sam",
        )
        assert card.run("age ~ sex", "means", progress=False).nobs > 800
    with house.controller.controller_state.database.reading() as tx:
        log = house.controller.controller_state.log
        entries = [json.loads(entry.body) for entry in log.entries(tx)]
    (look,) = [entry for entry in entries if entry["action"] == "look"]
    assert look["details"] == {"operation": mine[0]["operation"], "reason": OUTPUT_RULES}
    assert "threshold" not in json.dumps(entries)


def test_analysts_of_a_project_are_counted_together(house):
    """Three analysts who share what they learn have three times the refusals of one, and no more."""
    names = ["ben", "cem", "eva", "dan"]
    cards = []
    for name in names:
        enrolled(house, name)
        with house.analyst(name) as analyst:
            cards.append(proposed(analyst).name)
    for number, name in enumerate(names[:3]):
        with house.analyst(name) as analyst:
            refuse(analyst.card(cards[number]), *FEW_PEOPLE[:MOST])
    with house.analyst("dan") as dan, pytest.raises(TooManyRefusalsError, match="your project"):
        dan.card(cards[3]).run("age ~ sex", "means", progress=False)
    house.stop()
    house.start()
    with house.analyst("dan") as dan, pytest.raises(TooManyRefusalsError, match="your project"):
        dan.card(cards[3]).run("age ~ sex", "means", progress=False)


def waiting(card, formula="balance ~ sex"):
    """The name of an answer that waits because of the records: some balances are negative."""
    with pytest.raises(AnswerWaitingError) as caught:
        card.run(formula, "means", progress=False)
    return caught.value.fields["answer"]


def state_of_run(house, name):
    with house.controller.controller_state.database.reading() as tx:
        return results.get_run(tx, name)


def test_an_answer_that_waits_because_of_records_counts_until_a_steward_decides(house):
    with house.analyst() as ana:
        card = proposed(ana)
        names = [waiting(card, f"balance ~ {name}") for name in ("sex", "work", "region")]
        assert [one.state for one in ana.spends()[:3]] == [SpendState.RESERVED] * 3
        with pytest.raises(TooManyRefusalsError):
            card.run("age ~ sex", "means", progress=False)
        sam = Steward(house.controller.controller_state)
        assert [row.name for row in sam.waiting()] == names
        sam.release(names[0])
        assert card.run("balance ~ sex", "means", progress=False).nobs > 800
        assert card.run("age ~ sex", "means", progress=False).nobs > 800


@pytest.mark.parametrize("way", ["terminate", "revoke", "expire", "expire while stopped"])
def test_an_answer_that_waits_ends_as_refused_with_its_card(house, monkeypatch, way):
    with house.analyst() as ana:
        card = proposed(ana)
        name = waiting(card)
        steward = Steward(house.controller.controller_state)
        if way == "terminate":
            card.terminate()
        elif way == "revoke":
            steward.revoke(card.name, "")
        else:
            clock = Clock()
            clock.ahead = timedelta(days=91)
            later = lambda _, card: as_of(card, clock())  # noqa: E731 - it is one
            monkeypatch.setattr(type(house.controller.controller_state.cards), "as_of_now", later)
            if way == "expire while stopped":
                house.stop()
                house.start()
            else:
                assert [one.state for one in card.answers()] == ["refused"]
    row = state_of_run(house, name)
    assert str(row.state) == "refused"
    assert (row.statistics, row.counts) == (1, True), "it goes on counting"
    steward = Steward(house.controller.controller_state)
    assert not steward.waiting()
    with pytest.raises((InvalidInputError, CardStateError)):
        steward.release(name)
    with house.analyst() as ana:
        assert ana.spends()[0].state is SpendState.SETTLED
        if way != "revoke":
            (listed,) = ana.card(card.name).answers()
            assert (listed.state, listed.statistics) == ("refused", 1)


def test_a_population_that_differs_by_few_from_a_refused_one_is_refused(worlds):
    """The second would be answered, were the first forgotten: the other service answers it."""
    part = "health == 'bad' and work != 'none'"
    few = f"({part}) or (health == 'very bad' and work == 'none')"
    for house, asks in zip(worlds, ((few,), (f"({part}) or health == 'very bad'", few)), strict=True):
        with house.analyst(enrolled(house, "fay")) as analyst:
            card = proposed(analyst)
            if len(asks) == 1:
                assert card.run("age ~ 1", "means", where=few, progress=False).nobs > 50
                continue
            for formula, where in zip(("age ~ health", "age ~ 1"), asks, strict=True):
                with pytest.raises(RunRefusedError):
                    card.run(formula, "means", where=where, progress=False)
