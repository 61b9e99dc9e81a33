"""Insiders over a real service: they race, collude, end work early, and compare two worlds."""

import json
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from threading import Event, Thread

import grpc
import numpy as np
import pytest
from google.longrunning import operations_pb2, operations_pb2_grpc

from gencard.client.answers.answering import dry_run, run_program
from gencard.controller.answers.answers import AT_RECORDS
from gencard.controller.notify import Notifier
from gencard.controller.operations import Ticks
from gencard.controller.sandbox.limits import Isolation
from gencard.controller.state import results
from gencard.controller.state.database import Database
from gencard.controller.wiring.serving import serve
from gencard.core.card.budget import SpendState
from gencard.core.errors import GencardError, ProposalRefusedError, TooManyRefusalsError
from gencard.v1 import answers_pb2 as pb
from gencard.v1.synthesis_pb2 import OperationProgress
from gencard.wire.canonical import sha256
from tests.controller.state import postgres
from tests.system.consistency import assert_balanced, lines_of
from tests.system.house import Clock, build, request_id, survey
from tests.system.raw_calls import call, configure, enrolled, eventually, is_idle
from tests.system.receivers import https_receiver
from tests.system.stewards import Steward
from tests.system.test_word import tell

pytestmark = pytest.mark.timeout(180)

KINDS = ["crosstab", "linear", "means"]
POLICY = f"{{ kinds = {KINDS}, checked_runs = 80, numbers = 200, stored = true }}".replace("'", '"')
FEW = "health == 'very bad' and work == 'none'"
EITHER = "health in ['bad', 'very bad']"
RUN = "/gencard.v1.AnswersService/RunAnalysis"
CANCEL = "/google.longrunning.Operations/CancelOperation"


def nine_very_bad():
    frame = survey(900)
    frame.loc[np.flatnonzero(frame.health == "very bad")[9:], "health"] = "bad"
    return frame


def made(folder, frame=None, refusals=1_000):
    """A house with exact counts and checked runs, and bob of another project; not started."""
    folder.mkdir(exist_ok=True, parents=True)
    house = build(folder, nine_very_bad() if frame is None else frame)
    house.raise_caps()
    configure(house, "datasets.policy", analyses=POLICY, largest_order=3)
    configure(house, "limits", refusals=refusals)
    enrolled(house, "bob", project="other")
    return house


@contextmanager
def served(house, clock=None, settings=None):
    house.controller = serve(settings or house.settings(), clock or Clock())
    try:
        yield house
    finally:
        house.stop()


def agreed(analyst, pairs=(("sex", "work"),), **analyses):
    granted = {"kinds": KINDS, "checked_runs": 40, "numbers": 100} | analyses
    card = analyst.propose("survey", list(pairs), purpose="a test", rows=900, analyses=granted)
    return card.accept()


def end_of(card, formula, where=None, kind="means", response=None):
    """The end of a run: "released", or the reason of its error."""
    options = {} if response is None else {"response": response}
    try:
        card.run(formula, kind, where=where, progress=False, **options)
    except GencardError as error:
        return error.reason
    return "released"


# Races ----------------------------------------------------------------------------------------

PROJECTS = {"ana": None, "ben": "survey", "cem": "other", "dan": "other"}
QUESTIONS = [("age ~ sex",), ("age ~ region",), ("age ~ 1",)]


@pytest.fixture(params=["sqlite", "postgresql"])
def racing(request, tmp_path):
    """Four analysts of two projects, and a database of the state's."""
    house = made(tmp_path, survey(900))
    for name, project in PROJECTS.items():
        enrolled(house, name, project=project or "")
    if request.param == "sqlite":
        yield house
        return
    with postgres.server() as socket:
        url = postgres.new_database(socket)
        database = Database(url)
        database.migrate()
        database.close()
        text = house.settings_file.read_text()
        house.settings_file.write_text(text.replace("[state]\n", f'[state]\nurl = "{url}"\n', 1))
        yield house


def raced(house, cards, questions):
    """Ends of all runs by analyst; every analyst asks all questions at once."""
    ends = Counter()

    def ask(name, question):
        with house.analyst(name) as analyst:
            ends[name, end_of(analyst.card(cards[name]), *question)] += 1

    with ThreadPoolExecutor(24) as pool:
        for done in [pool.submit(ask, name, one) for one in questions for name in cards]:
            done.result()
    return ends


@contextmanager
def watched(house):
    """Accounts that are over their caps at any moment meanwhile."""
    state, over, ended = house.controller.controller_state, [], Event()

    def watch():
        while not ended.wait(0.02):
            with state.database.reading() as tx:
                over.extend(state.ledger.over_cap(tx))

    thread = Thread(target=watch)
    thread.start()
    try:
        yield over
    finally:
        ended.set()
        thread.join()


def test_racing_analysts_of_two_projects_stay_under_every_cap(racing):
    """A run reserves 20 statistics and its answer costs 15: caps of all three accounts bind."""
    racing.edit({"analyst": "{ statistics = 45 }", "project": "{ statistics = 65 }"})
    racing.edit({"dataset": "{ statistics = 110 }"})
    with served(racing) as house:
        state = house.controller.controller_state
        cards = {}
        for name in PROJECTS:
            with house.analyst(name) as analyst:
                cards[name] = agreed(analyst, numbers=20, checked_runs=2).name
        with watched(house) as over:
            ends = raced(house, cards, QUESTIONS)
        assert not over
        assert_balanced(state)
        counts = Counter(end for _, end in ends.elements())
        assert counts["released"] >= 4, ends
        assert {*counts} <= {"released", "BUDGET_EXCEEDED", "TOO_LARGE"}
        assert counts["BUDGET_EXCEEDED"] > 0
        released = Counter(name for name, end in ends.elements() if end == "released")
        assert max(released.values()) <= 2, "runs of a card"
        lines = lines_of(state)
        assert {line.state for line in lines} <= {SpendState.SETTLED, SpendState.VOIDED}
        assert sum(line.state is SpendState.SETTLED for line in lines) == counts["released"]


def test_racing_refusals_stay_under_their_limit(racing):
    """One for an analyst and three for a project, however many are asked at once."""
    configure(racing, "limits", refusals=1)
    nine_very_bad().to_csv(racing.folder.parent / "survey.csv", index=False)
    for name in ("eva", "fay"):
        enrolled(racing, name, project="other")
    with served(racing) as house:
        cards = {}
        for name in ("cem", "dan", "eva", "fay"):
            with house.analyst(name) as analyst:
                cards[name] = agreed(analyst).name
        few = [("age ~ sex", "health == 'very bad'"), ("age ~ 1", FEW), ("age ~ region", FEW)]
        ends = raced(house, cards, few)
        refused = {name: count for (name, end), count in ends.items() if end == "RUN_REFUSED"}
        assert sum(refused.values()) == 3, ends
        assert max(refused.values()) == 1
        assert {end for _, end in ends} == {"RUN_REFUSED", "TOO_MANY_REFUSALS"}
        with house.analyst("bob") as bob, pytest.raises(TooManyRefusalsError, match="your project"):
            agreed(bob).run("age ~ sex", "means", progress=False)
        assert_balanced(house.controller.controller_state)


# Collusion ------------------------------------------------------------------------------------

WOMEN = "(health == 'bad' and sex == 'female' and work == 'part')"
MEN = "(health == 'very bad' and sex == 'male' and work == 'none')"
GROUP = f"health == 'fair' or {WOMEN} or {MEN}"
"""Men in fair health, whom the pair of sex and health counts, and a few more men."""


def ended(house, names, way, clock):
    """End cards, and start the service again."""
    if way == "revoked":
        for name in names:
            Steward(house.controller.controller_state).revoke(name, "")
    if way == "expired":
        clock.ahead = timedelta(days=91)
    house.stop()
    house.controller = serve(house.settings(), clock)


@pytest.mark.parametrize("way", ["revoked", "expired"])
def test_runs_of_another_project_count_when_its_card_has_ended(tmp_path, way):
    """Nine people are the difference between the two projects' populations."""
    clock = Clock()
    with served(made(tmp_path), clock) as house:
        with house.analyst() as ana:
            card = agreed(ana)
            assert end_of(card, "age ~ 1", EITHER) == "released"
        ended(house, [card.name], way, clock)
        with house.analyst("bob") as bob:
            card = agreed(bob)
            assert end_of(card, "age ~ 1", "health == 'good'") == "released"
            assert end_of(card, "age ~ 1", "health == 'bad'") == "RUN_REFUSED"


@pytest.mark.parametrize("way", ["revoked", "expired"])
def test_exact_counts_of_another_project_count_when_its_card_has_ended(tmp_path, way):
    clock = Clock()
    with served(made(tmp_path), clock) as house:
        with house.analyst("bob") as bob:  # before the release both questions would be answered
            assert end_of(agreed(bob), "age ~ 1", GROUP) == "released"
        with house.analyst() as ana:
            card = agreed(ana, [("sex", "health")])
            card.release(rows=10, seed=1, progress=False)
        ended(house, [card.name], way, clock)
        with house.analyst("bob") as bob:
            assert end_of(agreed(bob), "age ~ sex", GROUP) == "RUN_REFUSED"


@pytest.mark.parametrize("way", ["terminated", "expired"])
def test_a_card_that_had_runs_counts_for_later_versions(tmp_path, way):
    """Answers of two projects on all records and on all but one would show the one by subtraction."""
    clock = Clock()
    with served(made(tmp_path, survey(900)), clock) as house:
        with house.analyst() as ana:
            card = agreed(ana)
            assert end_of(card, "age ~ sex") == "released"
            if way == "terminated":
                card.terminate()
        house.stop()
        survey(900).drop(index=17).to_csv(house.folder.parent / "survey.csv", index=False)
        ended(house, (), way, clock)
        with house.analyst("bob") as bob, pytest.raises(ProposalRefusedError, match="DIFFERENCING"):
            agreed(bob)


def test_the_risk_that_stewards_see_counts_cards_of_all_projects_and_one_version(tmp_path):
    """A revoked card counts; not one that ended before it was measured, whether it had runs or not."""
    clock = Clock()
    house = made(tmp_path, survey(900))
    house.edit({"automatic": "false"})
    with served(house, clock):
        steward = Steward(house.controller.controller_state)

        def granted(analyst, *pair, **more):
            card = analyst.propose("survey", [pair], purpose="a test", rows=9, **more)
            steward.approve(card.name)
            return analyst.card(card.name).accept()

        with house.analyst() as ana:
            first, second = granted(ana, "sex", "health"), granted(ana, "health", "work")
            granted(ana, "sex", "region").terminate()
            runs = granted(ana, "work", "region", analyses={"kinds": KINDS, "checked_runs": 1})
            assert end_of(runs, "age ~ sex") == "released"
            runs.terminate()
            for card in (first, second):
                card.generate(rows=9, progress=False)
        steward.revoke(first.name, "")
        with house.analyst("bob") as bob:
            name = bob.propose("survey", [("sex", "work")], purpose="a test", rows=9).name
        desk = house.controller.controller_state.desk(operations=house.controller.operations)
        desk.risks.start(steward.who, name, request_id())
        assert eventually(lambda: desk.risks.view(steward.who, name).report is not None)
        view = desk.risks.view(steward.who, name)
        assert {*view.cards} == {first.name, second.name}
        assert {*view.report.attributes} == {"sex", "health", "work"}
        house.stop()
        survey(900).drop(index=17).to_csv(house.folder.parent / "survey.csv", index=False)
        house.controller = serve(house.settings(), clock)
        state = house.controller.controller_state
        with state.database.reading() as tx:
            risks = state.desk(operations=house.controller.operations).risks
            assert risks.tables(tx, state.cards.card(tx, name)).cards == ()


# Work that is ended early ---------------------------------------------------------------------


def operation(house, name):
    """An operation as ana reads it, and how far it is."""
    stub = operations_pb2_grpc.OperationsStub(house.channel())
    got, progress = stub.GetOperation(operations_pb2.GetOperationRequest(name=name)), OperationProgress()
    got.metadata.Unpack(progress)
    return got, progress


def begun(house, path, request):
    ending = call(house.channel(), path, request)
    assert ending.code is grpc.StatusCode.OK, ending
    return operations_pb2.Operation.FromString(ending.answers[0]).name


def cancelled(house, name):
    request = operations_pb2.CancelOperationRequest(name=name)
    assert call(house.channel(), CANCEL, request).code is grpc.StatusCode.OK


@pytest.mark.parametrize("way", ["cancelled", "terminated"])
def test_a_refusal_that_is_ended_while_it_rests_costs_and_counts_as_one(tmp_path, way, monkeypatch):
    """An answer comes at once and a refusal after a second: between the two its analyst knows of it."""
    rests = Ticks.rest
    monkeypatch.setattr(Ticks, "rest", lambda _: 30.0)  # so that a slow machine is in time
    with served(made(tmp_path, refusals=2)) as house, house.analyst() as ana:
        state, card = house.controller.controller_state, agreed(ana)
        request = pb.RunAnalysisRequest(
            card=card.name, kind="means", formula="age ~ 1", where=FEW, request_id=request_id()
        )
        name = begun(house, RUN, request)
        assert eventually(lambda: operation(house, name)[1].stage in AT_RECORDS)
        time.sleep(0.3)
        assert not operation(house, name)[0].done
        if way == "cancelled":
            cancelled(house, name)
        else:
            card.terminate()
        assert eventually(lambda: operation(house, name)[0].done)
        monkeypatch.setattr(Ticks, "rest", rests)
        line = ana.spends()[0]
        assert (line.kind, line.state, line.price.statistics) == ("run", SpendState.SETTLED, 1)
        with state.database.reading() as tx:
            (counted,) = results.find_runs(tx, counts=1)
        assert (str(counted.state), counted.statistics) == ("failed", 1)
        other = agreed(ana)
        assert end_of(other, "age ~ 1", FEW + " and sex == 'male'") == "RUN_REFUSED"
        assert end_of(other, "age ~ sex") == "TOO_MANY_REFUSALS"
        assert_balanced(state)


def test_a_run_that_is_cancelled_before_its_job_reads_costs_nothing(tmp_path):
    with served(made(tmp_path)) as house, house.analyst() as ana:
        executor, card = house.controller.operations._executor, agreed(ana)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(executor, "submit", lambda *_, **__: Future())
            request = pb.RunAnalysisRequest(
                card=card.name, kind="means", formula="age ~ 1", where=FEW, request_id=request_id()
            )
            name = begun(house, RUN, request)
            assert eventually(lambda: operation(house, name)[1].stage == "start")
            cancelled(house, name)
        assert ana.spends()[0].state is SpendState.VOIDED
        assert not list(card.answers())


# Two worlds -----------------------------------------------------------------------------------

SIZES = {(sex, health): 40 for sex in ("female", "male") for health in ("good", "fair", "very bad")}
SIZES |= {("male", "bad"): 40, ("female", "bad"): 10}


def world(last=None):
    """Ten women in bad health, all of one age; the last of them is left out, or is old."""
    frame = survey(sum(SIZES.values()))
    frame["sex"] = np.repeat([sex for sex, _ in SIZES], [*SIZES.values()])
    frame["health"] = np.repeat([health for _, health in SIZES], [*SIZES.values()])
    frame["age"] = np.where(frame.age > 45, 30.5, 30.0)
    if last == "old":
        frame.loc[len(frame) - 1, "age"] = 95.0
    return frame[:-1] if last == "left out" else frame


def seen_in(folder, frame, *question):
    """The end of a run, what its analyst reads besides, and what leaves for receivers of notices."""
    folder.mkdir()
    house = made(folder / "house", frame)
    with https_receiver(folder / "receiver") as receiver:
        tell(house, receiver)
        with served(house), house.analyst() as ana:
            card = agreed(ana)
            end = end_of(card, *question)
            assert eventually(lambda: is_idle(house))
            stub = operations_pb2_grpc.OperationsStub(house.channel())
            (listed,) = stub.ListOperations(operations_pb2.ListOperationsRequest(page_size=9)).operations
            got, progress = operation(house, listed.name)
            read = (
                (got.done, got.WhichOneof("result"), progress.stage, progress.permille, progress.state),
                [(one.kind, one.formula) for one in card.answers()],
                [line.kind for line in ana.spends()],
            )
            time.sleep(1.2)  # notices are collected twice a second
    return end, read, [json.loads(body)["data"]["waiting"] for _, body in receiver.came]


def test_of_two_worlds_only_the_end_and_the_price_differ(tmp_path, monkeypatch):
    """One record more lets a run pass, and another value lets one wait."""
    monkeypatch.setitem(Notifier.__init__.__kwdefaults__, "seconds", 0.5)
    table, means = ("sex ~ health", None, "crosstab"), ("age ~ region", None, "means", "stored")
    passed, refused = (
        seen_in(tmp_path / str(number), world(last), *table)
        for number, last in enumerate((None, "left out"))
    )
    assert (passed[0], refused[0]) == ("released", "RUN_REFUSED")
    assert passed[1:] == refused[1:]
    assert not passed[2], "no notice"
    other, waits = (
        seen_in(tmp_path / f"means-{number}", world(last), *means)
        for number, last in enumerate((None, "old"))
    )
    assert (other[0], waits[0]) == ("released", "ANSWER_WAITING")
    assert other[1] == waits[1]
    assert waits[2] == [["answer"]], "no name, no number"


# Reviewed programs ----------------------------------------------------------------------------

QUICK = "from gencard.run import output\noutput.scalar('n', 1.0)"
SLOW = """
import time
from gencard.run import output, records
if len(records()) == 900:
    time.sleep({seconds})
    raise ValueError
output.scalar('n', 1.0)
"""


def opened(house):
    """Settings without namespaces, which many machines of tests lack; times and ends are the same."""
    settings = house.settings()
    cell = replace(settings.cell, isolation=Isolation.PROCESSES)
    return settings.model_copy(update={"cell": cell})


def test_a_program_that_fails_by_a_record_looks_like_any_other_and_cancelling_costs(tmp_path):
    """The failure counts in the limit of refusals; waiting programs, which all are, do not count."""
    house = made(tmp_path, survey(900), refusals=1)
    texts = [QUICK, SLOW.format(seconds=0), SLOW.format(seconds=60)]
    programs = sorted(sha256(text.encode()) for text in texts)
    runs = POLICY.replace(" }", ", reviewed_runs = 4, program_numbers = 10 }")
    configure(house, "datasets.policy", analyses=runs)
    granted = {"programs": programs, "reviewed_runs": 4, "program_numbers": 10}
    with served(house, settings=opened(house)), house.analyst() as ana:
        card = agreed(ana, **granted)
        release, dry = card.release(rows=100, seed=1, progress=False), []
        for number, text in enumerate(texts):
            (tmp_path / f"{number}.py").write_text(text)
            dry.append(dry_run(release, tmp_path / f"{number}.py", seed=3))
        read = []
        for one in dry[:2]:
            assert end_of_program(card.agreement, one) == "ANSWER_WAITING"
            got, progress = newest(house)
            answer, line = next(iter(card.answers())), ana.spends()[0]
            shown = (answer.state, answer.statistics, line.state, repr(line.price))
            read.append((shown, got.WhichOneof("result"), progress.stage, progress.permille))
        assert read[0] == read[1]
        before = newest(house)[0].name

        def reads():
            going, progress = newest(house)
            return going.name != before and progress.stage in AT_RECORDS

        with ThreadPoolExecutor(1) as pool:
            sleeper = pool.submit(end_of_program, card.agreement, dry[2])
            assert eventually(reads)
            cancelled(house, newest(house)[0].name)
            assert sleeper.result() == "OPERATION_CANCELLED"
        line = ana.spends()[0]
        assert (line.state, line.price.statistics) == (SpendState.SETTLED, 1)
        state = house.controller.controller_state
        with state.database.reading() as tx:
            counted = [str(one.state) for one in results.find_runs(tx, counts=1)]
        assert counted == ["failed"]
        assert end_of(card, "age ~ 1") == "TOO_MANY_REFUSALS"


def newest(house):
    stub = operations_pb2_grpc.OperationsStub(house.channel())
    listed = stub.ListOperations(operations_pb2.ListOperationsRequest(page_size=1)).operations
    return operation(house, listed[0].name)


def end_of_program(agreement, dry):
    try:
        run_program(agreement, dry, progress=False)
    except GencardError as error:
        return error.reason
    return "released"
