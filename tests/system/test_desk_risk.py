"""The risk of psi at the desk: looked at once at a time, kept for stewards, dropped with the card."""

import json
import re
from uuid import uuid4

import numpy as np
import pytest
from google.longrunning import operations_pb2, operations_pb2_grpc
from google.protobuf import empty_pb2
from sqlalchemy import text
from typer.testing import CliRunner

from gencard.client import Steward as Visitor
from gencard.controller.shell.main import app
from gencard.controller.state.log import event_of
from gencard.core.errors import (
    CardStateError,
    InvalidInputError,
    NotFoundError,
    OperationCancelledError,
    PermissionDeniedError,
    ServiceUnavailableError,
)
from gencard.v1 import steward_pb2
from gencard.v1.steward_pb2_grpc import StewardServiceStub
from gencard.wire.keys import Identity
from gencard.wire.steward import RiskState
from tests.system.house import SPENDING, build, spending
from tests.system.raw_calls import configure, eventually
from tests.system.stewards import Steward
from tests.system.test_s25_checks import COUNTS, housed

pytestmark = pytest.mark.timeout(180)

SAM, EVA, ANA, AUD = (
    Identity.of(f"spiffe://gencard.local/{place}")
    for place in ("service/steward/sam", "service/steward/eva", "pilot/analyst/ana", "pilot/auditor/aud")
)


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    built = build(tmp_path_factory.mktemp("risk"))
    built.edit({"automatic": "false"})
    try:
        yield built.start()
    finally:
        built.stop()


@pytest.fixture(scope="module")
def tailed(tmp_path_factory):
    built = build(tmp_path_factory.mktemp("tails"), spending(), SPENDING)
    built.edit({"automatic": "false"})
    try:
        yield built.start()
    finally:
        built.stop()


@pytest.fixture
def desk(house):
    return house.controller.controller_state.desk(operations=house.controller.operations)


@pytest.fixture
def card(house):
    with house.analyst() as ana:
        yield ana.propose("survey", [("sex", "health"), ("health", "work")], purpose="risk", rows=100)


def look(desk, name, who=SAM):
    """Start a look and wait for its end."""
    operation = desk.risks.start(who, name, str(uuid4()))
    assert eventually(lambda: desk.risks.view(who, name).state is not RiskState.RUNNING)
    return operation


def lookers(house, name):
    """Return who looked at the risk of a card; assert that the log holds nothing else of it."""
    opened = house.controller.controller_state
    with opened.database.reading() as tx:
        events = [event_of(entry.body) for entry in opened.log.entries(tx)]
    looks = [event for event in events if (event.action, event.resource) == ("look-at-risk", name)]
    assert not any(event.details for event in looks)
    return sorted(event.actor for event in looks)


def test_a_look_gives_a_report_and_the_log_says_who_saw_it(house, desk, card):
    assert desk.risks.view(SAM, card.name).state is RiskState.NONE
    look(desk, card.name)
    view = desk.risks.view(SAM, card.name)
    assert (view.state, view.problem) == (RiskState.READY, "")
    report = view.report
    assert report.wrong == 0
    assert report.attributes == ("sex", "health", "work")
    assert report.records == 3_000
    assert len(report.certain) == len(report.small_pairs) == 3
    assert report.small_pairs[0][2] == 0, "not released together"
    for one, key in zip(report.worst, view.worst, strict=True):
        assert " = " in key.known
        assert key.certain.startswith(f"{one.target} = ")
    desk.risks.view(EVA, card.name)
    desk.risks.view(EVA, card.name)
    assert lookers(house, card.name) == [EVA.uri, SAM.uri, SAM.uri], "begun by Sam, seen by both"


def test_a_steward_looks_over_the_wire(house, card):
    channel = house.channel("sam")
    stub, operations = StewardServiceStub(channel), operations_pb2_grpc.OperationsStub(channel)
    request = steward_pb2.GetRiskRequest(name=card.name)
    before = stub.GetRisk(request).review
    assert (before.state, before.report) == ("none", b"")
    begun = stub.RunRisk(steward_pb2.RunRiskRequest(name=card.name, request_id=str(uuid4())))
    assert eventually(lambda: stub.GetRisk(request).review.state == "ready")
    ended = operations.GetOperation(operations_pb2.GetOperationRequest(name=begun.name))
    assert ended.done
    assert ended.response.Is(empty_pb2.Empty.DESCRIPTOR)
    risk = stub.GetRisk(request).review
    report = json.loads(risk.report)
    assert report["attributes"] == ["sex", "health", "work"]
    assert [one.records for one in risk.worst] == [one["records"] for one in report["worst"]]


def test_one_look_at_a_time_and_equal_requests_are_one(desk, card):
    identifier = str(uuid4())
    first = desk.risks.start(SAM, card.name, identifier)
    assert desk.risks.start(EVA, card.name, str(uuid4())).name == first.name
    assert desk.risks.start(SAM, card.name, identifier).name == first.name
    assert eventually(lambda: desk.risks.view(SAM, card.name).state is RiskState.READY)


def test_only_stewards_look(house, desk, card):
    look(desk, card.name)
    for who in (ANA, AUD):
        with pytest.raises(PermissionDeniedError):
            desk.risks.start(who, card.name, str(uuid4()))
        with pytest.raises(PermissionDeniedError):
            desk.risks.view(who, card.name)
    operation = look(desk, card.name)
    with pytest.raises(NotFoundError):
        house.controller.operations.get(ANA, operation.name)
    row = house.controller.operations.get(SAM, operation.name)
    assert row.response == b"", "the numbers leave by view alone"


def test_a_report_is_outdated_once_another_card_is_granted(house, desk, card):
    look(desk, card.name)
    with house.analyst() as ana:
        other = ana.propose("survey", [("region", "age")], purpose="other", rows=100)
        Steward(house.controller.controller_state).approve(other.name)
        ana.card(other.name).accept()
        assert desk.risks.view(SAM, card.name).state is RiskState.OUTDATED
        look(desk, card.name)
        view = desk.risks.view(SAM, card.name)
        assert (view.state, view.cards) == (RiskState.READY, (other.name,))
        assert view.report.attributes == ("sex", "health", "work", "region", "age")


def test_the_report_is_dropped_with_the_card(house, desk, card):
    look(desk, card.name)
    Steward(house.controller.controller_state).reject(card.name, "no")
    with house.controller.controller_state.database.reading() as tx:
        count = "SELECT count(*) FROM risks WHERE card = :card"
        assert tx.execute(text(count), {"card": card.name}).scalar_one() == 0
    assert desk.risks.view(SAM, card.name).report is None
    with pytest.raises(CardStateError):
        desk.risks.start(SAM, card.name, str(uuid4()))


def test_a_card_that_ends_during_the_look_keeps_none(house, desk, card):
    opened, risks = house.controller.controller_state, desk.risks
    with opened.database.reading() as tx:
        stored = opened.cards.card(tx, card.name)
        seen = risks.tables(tx, stored)
    Steward(opened).reject(card.name, "no")
    with pytest.raises(OperationCancelledError), opened.database.transaction() as tx:
        risks.keep(tx, stored, seen, {})


def test_what_cannot_be_looked_at(house, desk):
    with pytest.raises(NotFoundError):
        desk.risks.start(SAM, "datasets/survey/cards/none", str(uuid4()))
    with pytest.raises(ServiceUnavailableError):
        house.controller.controller_state.desk().risks.start(SAM, "x", str(uuid4()))


def test_noise_alone_has_no_exact_counts(tmp_path):
    built = build(tmp_path)
    caps = '{ statistics = 1000, epsilon = "10" }'
    built.edit(dict.fromkeys(("most_per_card", "dataset", "project", "analyst"), caps))
    noise = '{ mechanism = "laplace", neighbouring = "add-remove", epsilon = "1" }'
    built.edit({"mechanisms": f'["laplace"]\nnoise = {noise}', "automatic": "false"})
    try:
        built.start()
        with built.analyst() as ana:
            noisy = ana.propose(
                "survey",
                [("sex", "work")],
                purpose="x",
                rows=10,
                epsilon="0.5",
                neighbouring="add-remove",
            )
        desk = built.controller.controller_state.desk(operations=built.controller.operations)
        with pytest.raises(InvalidInputError, match="exact counts"):
            desk.risks.start(SAM, noisy.name, str(uuid4()))
        assert desk.risks.view(SAM, noisy.name).state is RiskState.NONE
    finally:
        built.stop()


def test_a_waiting_proposal_is_looked_at_as_approving_would_grant_it(house, desk):
    """The policy allows pairs: of the table of three that is asked for, nobody would get the cells."""
    with house.analyst() as ana:
        name = ana.propose("survey", [("sex", "health", "work")], purpose="wide", rows=100).name
    offer = desk.card(SAM, name).offer
    with desk.database.reading() as tx:
        seen = desk.risks.tables(tx, desk.effects.cards.cards.card(tx, name))
    assert offer is not None
    assert {*map(frozenset, offer.marginals)} <= {*map(frozenset, seen.cliques)}
    assert all(len(clique) == 2 for clique in seen.cliques)


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    cells = COUNTS | {("male", "bad"): 2}
    built = housed(tmp_path_factory.mktemp("checked"), "{ threshold = 10, rounding = 5 }", cells)
    built.edit({"automatic": "false"})
    try:
        yield built.start()
    finally:
        built.stop()


class TestChecks:
    """Exact counts with a threshold, and a table with a cell of 2 records."""

    @pytest.fixture
    def waiting(self, checked):
        with checked.analyst() as ana:
            yield ana.propose("survey", [("sex", "health"), ("work",)], purpose="risk", rows=100)

    @pytest.fixture
    def sam(self, checked):
        with Visitor.connect(checked.address, folder=checked.person("sam")) as sam:
            yield sam

    def test_a_review_names_the_tables_that_fail(self, sam, waiting):
        review = sam.review(waiting.name)
        assert "not examined" in review.checks
        (table,) = sam.risk(waiting.name, progress=False).report.failing
        assert (table.clique, table.checks, table.cells) == (("sex", "health"), ("threshold",), 1)
        assert (table.levels, table.records) == (("male", "bad"), 2)
        review = sam.review(waiting.name)
        assert "health = bad: 2 records" in review.checks
        assert review.next_step == "counter or reject"

    def test_a_card_that_is_known_to_fail_is_not_offered(self, sam, waiting, checked):
        sam.risk(waiting.name, progress=False)
        with pytest.raises(InvalidInputError, match=r"sex, health.*--drop sex,health") as refused:
            sam.approve(sam.review(waiting.name), reason="not seen")
        assert "2" not in refused.value.fields["problem"], "no count"
        with pytest.raises(InvalidInputError, match="fail the checks"):
            Steward(checked.controller.controller_state).approve(waiting.name)
        sam.counter(sam.review(waiting.name), drop=[["sex", "health"]], reason="leaves it out")
        with checked.analyst() as ana:
            card = ana.card(waiting.name).accept()
            assert len(card.generate(rows=5, progress=False)) == 5

    def test_a_table_that_passes_is_said_to_pass(self, sam, checked):
        with checked.analyst() as ana:
            card = ana.propose("survey", [("work",)], purpose="risk", rows=100)
        sam.risk(card.name, progress=False)
        review = sam.review(card.name)
        assert "all tables of this card pass" in review.checks
        sam.approve(review, reason="passes")

    def test_freedom_and_zeros_are_named_too(self, tmp_path):
        built = housed(tmp_path, "{ freedom = 144, zeros = true }")
        built.edit({"automatic": "false"})
        try:
            built.start()
            desk = built.controller.controller_state.desk(operations=built.controller.operations)
            with built.analyst() as ana:
                card = ana.propose("survey", [("sex", "health")], purpose="risk", rows=100)
            look(desk, card.name)
            (table,) = desk.risks.view(SAM, card.name).report.failing
            assert table.checks == ("freedom", "zeros")
            assert (table.levels, table.records) == (("male", "bad"), 0)
        finally:
            built.stop()


class TestLongTails:
    """One expenditure of 90,000 among 900 of about 100: answers about it wait for a steward."""

    WAIT = re.compile(
        r"One record moves means of spent by more than analyses\.influence permits in groups of fewer "
        r"than about ([\d,]+) records, and they wait for a steward; with a last edge of (\d+) and "
        r'above = "highest", of fewer than (\d+)\.'
    )

    @pytest.fixture
    def sam(self, tailed):
        with Visitor.connect(tailed.address, folder=tailed.person("sam")) as sam:
            yield sam

    def run(self, *arguments):
        result = CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "300"})
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

    def proposed(self, tailed, *marginals):
        with tailed.analyst() as ana:
            return ana.propose("survey", [*marginals], purpose="risk", rows=100).name

    def test_risk_review_and_approval_say_the_sentence_of_check(self, tailed, sam):
        name, config = self.proposed(tailed, ("sex", "spent")), ("-c", tailed.settings_file)
        assert sam.review(name).tails == (), "not examined"
        (line,) = sam.risk(name, progress=False).report.tail_lines
        least, edge, fewer = (int(one.replace(",", "")) for one in self.WAIT.fullmatch(line).groups())
        spent = spending().spent
        for most, size in ((90_000, least), (edge, fewer)):
            clamped = np.minimum(spent, most)
            assert 0.7 < size / ((clamped.max() - clamped.mean()) / clamped.std()) ** 2 < 1.5
        review = sam.review(name)
        assert ("Answers", line) in review.lines()
        assert "all tables" not in str(review.lines()), "the card has no checks"
        assert line in sam.risk(name)._repr_html_().replace("&quot;", '"').replace("&#34;", '"')
        assert line in self.run("check", *config)
        assert line in self.run("emergency", "risk", name, *config)
        assert line in self.run("emergency", "approve", name, *config, "--reason", "seen")

    def test_numbers_that_no_exact_term_names_are_not_judged(self, tailed, sam):
        name = self.proposed(tailed, ("sex", "health"))
        assert sam.risk(name, progress=False).report.tails == ()

    def test_another_limit_outdates_the_look_and_none_judges_nothing(self, tmp_path):
        built = build(tmp_path, spending(), SPENDING)
        built.edit({"automatic": "false"})
        try:
            desk = built.start().controller.controller_state.desk(operations=built.controller.operations)
            name = self.proposed(built, ("sex", "spent"))
            look(desk, name)
            assert desk.risks.view(SAM, name).report.tails
            configure(built, "datasets.policy", analyses='{ influence = "off" }')
            built.controller.reload(built.settings())
            assert desk.risks.view(SAM, name).state is RiskState.OUTDATED
            look(desk, name)
            view = desk.risks.view(SAM, name)
            assert (view.state, view.report.tails) == (RiskState.READY, ())
        finally:
            built.stop()
