"""Measures, audits and releases at their edges: wrong names, ended cards, two at once, restarts."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from google.longrunning import operations_pb2

from gencard.client.card_report import known_measures, run_measures
from gencard.client.connection.connection import cancel, progress_of
from gencard.controller import operations as run_module
from gencard.controller.state.cards import as_of
from gencard.core.card.budget import SpendState
from gencard.core.errors import CardExpiredError, CardStateError
from gencard.v1 import audit_pb2, measures_pb2, synthesis_pb2
from gencard.v1.synthesis_pb2 import OperationProgress
from tests.system.house import Clock, build, declare, request_id, survey
from tests.system.raw_calls import LASTING, call, configure, eventually, is_idle, state_unchanged
from tests.system.raw_calls import state_of as state_of_tables
from tests.system.stewards import Steward

PAIRS = [("sex", "health"), ("sex", "work")]
SERVICE = "/gencard.v1.MeasuresService/"
RUN, GET, LIST = (SERVICE + name for name in ("RunMeasures", "GetMeasures", "ListMeasures"))
GENERATE = "/gencard.v1.SynthesisService/GenerateRelease"
AUDIT = "/gencard.v1.AuditService/RunAudit"
SAM = "spiffe://example/survey/steward/sam"
LARGEST = 2**64 - 1
WORKERS = 2
"""Operations of a drafted controller that run at a time; the others wait."""


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    folder = tmp_path_factory.mktemp("edges")
    built = build(folder, survey(300))
    built.raise_caps()
    survey(200, seed=9).to_csv(folder / "others.csv", index=False)
    declare(built, folder / "others.csv")
    configure(built, "datasets.policy", measures='["marginals", "clones"]')
    yield built.start()
    built.stop()


@pytest.fixture
def aud(house):
    with house.analyst("aud") as auditor:
        yield auditor


def released(analyst):
    """A card of which nothing was measured, with a release."""
    card = agreed(analyst)
    card.release(60, progress=False)
    return card


def agreed(analyst):
    return analyst.propose("survey", PAIRS, purpose="a test", measures=["marginals", "clones"]).accept()


@pytest.fixture(scope="module")
def made(house):
    """A card in force with a release, of ana."""
    with house.analyst() as analyst:
        card = agreed(analyst)
        yield card, card.release(60, progress=False)


@pytest.fixture
def held(monkeypatch):
    """Jobs of the name that is set wait until they are let go; what was asked of them, in order."""

    class Held:
        name, seen, waits, goes_on = "", [], threading.Event(), threading.Event()

    real = run_module.Run.job

    def job(self, task, description):
        if task.name == Held.name:
            Held.seen.append(description)
            Held.waits.set()
            assert Held.goes_on.wait(60)
        return real(self, task, description)

    monkeypatch.setattr(run_module.Run, "job", job)
    yield Held
    Held.goes_on.set()


def begin(analyst, card, *names):
    connection = analyst._connection
    asked = measures_pb2.RunMeasuresRequest(card=card, measures=names, request_id=request_id())
    return connection.call(connection.measures.RunMeasures, asked).name


def state_of(analyst, name):
    connection = analyst._connection
    request = operations_pb2.GetOperationRequest(name=name)
    return progress_of(connection.call(connection.operations.GetOperation, request)).state


class Spent:
    """Spending of an analyst from now on."""

    def __init__(self, analyst):
        self.before = {line.line for line in analyst.spends()}

    def states(self, analyst):
        return [line.state for line in analyst.spends() if line.line not in self.before]


class TestNames:
    @pytest.mark.parametrize("person", ["ana", "aud", "sam"])
    def test_cards_of_any_form_are_not_found(self, house, made, person):
        card, release = made
        wrong = (
            "",
            "datasets/survey",
            f"{card.name}/",
            release.name,
            f"{card.name}/measures/1",
            "a" * 5000,
        )
        with state_unchanged(house):
            for name in wrong:
                asked = measures_pb2.RunMeasuresRequest(card=name, request_id=request_id())
                assert call(house.channel(person), RUN, asked).reason == "NOT_FOUND", name
                listed = measures_pb2.ListMeasuresRequest(parent=name)
                assert call(house.channel(person), LIST, listed).reason == "NOT_FOUND", name
                got = measures_pb2.GetMeasuresRequest(name=name)
                assert call(house.channel(person), GET, got).reason == "NOT_FOUND", name

    @pytest.mark.parametrize("names", [[""], ["marginals "], ["MARGINALS"], ["marginals", "marginals"]])
    def test_measures_of_any_other_form_are_invalid(self, house, made, names):
        asked = measures_pb2.RunMeasuresRequest(
            card=made[0].name, measures=names, request_id=request_id()
        )
        with state_unchanged(house):
            assert call(house.channel(), RUN, asked).reason == "INVALID_INPUT"

    @pytest.mark.parametrize("page", [{"page_size": 501}, {"page_token": "x"}])
    def test_pages_are_bounded(self, house, made, page):
        asked = measures_pb2.ListMeasuresRequest(parent=made[0].name, **page)
        assert call(house.channel("aud"), LIST, asked).reason in ("INVALID_NUMBER", "INVALID_INPUT")

    def test_numbers_at_the_end_of_their_range(self, house, made):
        card = made[0].name
        many = synthesis_pb2.GenerateReleaseRequest(card=card, rows=LARGEST, request_id=request_id())
        with state_unchanged(house):
            assert call(house.channel(), GENERATE, many).reason == "TOO_LARGE"
            none = synthesis_pb2.GenerateReleaseRequest(card=card, seed=LARGEST, request_id=request_id())
            assert call(house.channel(), GENERATE, none).reason == "INVALID_NUMBER"
            unknown = {"black_box": "nobodys", "seed": LARGEST}
            asked = audit_pb2.RunAuditRequest(card=card, request_id=request_id(), **unknown)
            assert call(house.channel(), AUDIT, asked).reason == "NOT_FOUND"


class TestEndedCards:
    def test_an_expired_card_measures_for_no_analyst_and_for_auditors_still(
        self, house, ana, aud, monkeypatch
    ):
        card = released(ana)
        run = run_measures(ana._connection, card.name, ["marginals"], False)
        clock = Clock()
        clock.ahead = timedelta(days=91)
        later = lambda _, card: as_of(card, clock())  # noqa: E731 - it is one
        monkeypatch.setattr(type(house.controller.controller_state.cards), "as_of_now", later)
        with state_unchanged(house), pytest.raises(CardExpiredError):
            run_measures(ana._connection, card.name, ["clones"], False)
        assert known_measures(ana._connection, card.name).findings == run.findings
        found = run_measures(aud._connection, card.name, ["clones"], False)
        assert set(found.findings) == {"marginals", "clones"}

    def test_a_card_that_was_given_back_can_still_be_revoked(self, house, ana):
        """Otherwise its analyst could keep what the controller wants to end."""
        card = released(ana)
        run_measures(ana._connection, card.name, ["marginals"], False)
        card.refresh().terminate()
        with pytest.raises(CardStateError):
            run_measures(ana._connection, card.name, ["clones"], False)
        Steward(house.controller.controller_state, SAM).revoke(card.name, "no longer")
        assert card.refresh().state == "revoked"
        with pytest.raises(CardStateError):
            known_measures(ana._connection, card.name)
        with pytest.raises(CardStateError):
            Steward(house.controller.controller_state, SAM).revoke(card.name, "twice")

    def test_an_audit_that_was_on_its_way_tells_its_analyst_nothing(self, house, ana, held):
        card, held.name = agreed(ana), "audit"
        connection = ana._connection
        asked = audit_pb2.RunAuditRequest(card=card.name, black_box="copier", request_id=request_id())
        name = connection.call(connection.audit.RunAudit, asked).name
        assert held.waits.wait(60)
        Steward(house.controller.controller_state, SAM).revoke(card.name, "no longer")
        held.goes_on.set()
        assert eventually(lambda: state_of(ana, name) == OperationProgress.STATE_FAILED)
        line = next(line for line in ana.spends() if line.kind == "audit")
        assert (line.resource.startswith(card.name), line.state) == (True, SpendState.VOIDED)


class TestTwoAtOnce:
    def test_one_run_of_a_card_at_a_time_and_each_measure_is_paid_once(self, house, ana, aud, held):
        """Two who ask at once would else both pay, or find out what the other one paid for."""
        card, spent, held.name = released(ana), Spent(ana), "compare"
        first = begin(ana, card.name, "marginals")
        assert held.waits.wait(60)
        asked = measures_pb2.RunMeasuresRequest(
            card=card.name, measures=["marginals"], request_id=request_id()
        )
        for person in ("ana", "aud"):
            assert call(house.channel(person), RUN, asked).reason == "SERVICE_BUSY"
        held.goes_on.set()
        assert eventually(lambda: state_of(ana, first) == OperationProgress.STATE_SUCCEEDED)
        found = [run_measures(one._connection, card.name, ["marginals"], False) for one in (ana, aud)]
        assert found[0].findings == found[1].findings
        assert spent.states(ana) == [SpendState.SETTLED]


class TestQueues:
    def test_s11_one_person_has_so_many_unfinished_operations_and_others_have_theirs(
        self, house, ana, aud, held, monkeypatch
    ):
        """Work that costs nothing could else fill the queue of everybody."""
        *cards, other = [released(ana) for _ in range(4)]
        held.name = "compare"
        operations = house.controller.operations
        monkeypatch.setattr(operations, "_bounds", replace(operations._bounds, most_of_one=3))
        names = [begin(aud, card.name, "clones") for card in cards]
        assert held.waits.wait(60)
        more = measures_pb2.RunMeasuresRequest(card=other.name, request_id=request_id())
        before = state_of_tables(house, LASTING)
        assert call(house.channel("aud"), RUN, more).reason == "SERVICE_BUSY"
        assert state_of_tables(house, LASTING) == before
        names_of_ana = [begin(ana, other.name, "clones")]
        for person, found in ((aud, names), (ana, names_of_ana)):
            for name in found:
                cancel(person._connection, name)
        held.goes_on.set()
        assert eventually(lambda: is_idle(house))
        assert set(run_measures(aud._connection, other.name, ["clones"], False).findings) == {"clones"}


class TestStops:
    def test_cancelled_in_the_queue_and_at_work(self, house, ana, held):
        cards = [released(ana) for _ in range(3)]
        spent, held.name = Spent(ana), "compare"
        names = [begin(ana, card.name, "marginals") for card in cards]
        assert held.waits.wait(60)
        for name in reversed(names):
            cancel(ana._connection, name)
        held.goes_on.set()
        assert eventually(lambda: is_idle(house))
        assert {state_of(ana, name) for name in names} == {OperationProgress.STATE_CANCELLED}
        assert spent.states(ana) == [SpendState.VOIDED] * 3

    def test_carried_on_after_a_restart_and_paid_once(self, house, held):
        with house.analyst() as analyst:
            card, held.name = released(analyst), "compare"
            spent = Spent(analyst)
            name = begin(analyst, card.name, "marginals")
            assert held.waits.wait(60)
        stopping = threading.Thread(target=house.stop, args=(0.2,))
        stopping.start()
        assert eventually(house.controller.operations._stopping.is_set)
        held.goes_on.set()
        stopping.join(60)
        house.start()
        with house.analyst() as analyst:
            assert eventually(lambda: state_of(analyst, name) == OperationProgress.STATE_SUCCEEDED)
            assert spent.states(analyst) == [SpendState.SETTLED]
            assert "marginals" in known_measures(analyst._connection, card.name).findings


def test_a_steward_who_gives_the_price_back_keeps_what_was_found(house, ana, held):
    card, held.name = released(ana), "compare"
    name = begin(ana, card.name, "clones")
    assert held.waits.wait(60)
    line = ana.spends()[0]
    Steward(house.controller.controller_state, SAM).settle(line.line, void=True)
    held.goes_on.set()
    assert eventually(lambda: state_of(ana, name) == OperationProgress.STATE_FAILED)
    assert "clones" not in known_measures(ana._connection, card.name).findings
