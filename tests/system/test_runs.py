"""Checked runs over a real service: asked for, judged, paid, signed, verified; and attacks on them."""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import grpc
import numpy as np
import pytest
from typer.testing import CliRunner

from gencard.client.shell.main import app
from gencard.controller.answers.answers import AnswerRun
from gencard.controller.state.ledger import Ledger
from gencard.core.card.budget import Price, SpendState
from gencard.core.card.terms import Analyses
from gencard.core.errors import (
    AnswerWaitingError,
    CardStateError,
    DatasetChangedError,
    GencardError,
    InvalidFormulaError,
    InvalidInputError,
    OperationCancelledError,
    RecordsProtectedError,
    RunRefusedError,
    TooLargeError,
    UnknownAttributeError,
)
from gencard.v1 import answers_pb2 as pb
from tests.system.house import build, request_id, survey
from tests.system.noisy import noisy, propose
from tests.system.raw_calls import call, configure, enrolled, state_unchanged
from tests.system.stewards import Steward

PAIRS = [("sex", "health"), ("sex", "work"), ("age",)]
GRANTED = {"kinds": ["linear", "crosstab"], "checked_runs": 12}
POLICY = '{ kinds = ["crosstab", "linear", "means"], checked_runs = 80, numbers = 200, stored = true }'
FORMULA = "age ~ sex + health"
RUN = "/gencard.v1.AnswersService/RunAnalysis"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    made = build(tmp_path_factory.mktemp("runs"), survey(900))
    made.raise_caps()
    configure(
        made, "datasets.policy", analyses=POLICY, forbidden='[["region", "work"]]', largest_order=4
    )
    yield made.start()
    made.stop()


@pytest.fixture
def ana(house):
    with house.analyst() as analyst:
        yield analyst


def proposed(analyst, **analyses):
    granted = GRANTED | analyses
    return analyst.propose("survey", PAIRS, purpose="a test", rows=900, analyses=granted).accept()


@pytest.fixture
def card(ana):
    return proposed(ana)


class TestStory:
    def test_an_answer_is_signed_paid_by_the_number_and_free_the_second_time(self, ana, card):
        answer = card.run(FORMULA, "linear", progress=False)
        assert answer.nobs == pytest.approx(900, abs=20)
        assert {"Intercept", "sex[T.male]"} <= set(answer.params.index) | {"C(sex)[T.male]"}
        line = ana.spends()[0]
        assert (line.kind, line.state) == ("run", SpendState.SETTLED)
        assert 5 < line.price.statistics <= 100
        spent = len(ana.spends())
        again = card.run(FORMULA, "linear", progress=False)
        assert again.envelope == answer.envelope
        assert len(ana.spends()) == spent
        (listed,) = card.answers()
        assert (listed.kind, listed.state) == ("linear", "released")
        assert listed.statistics == line.price.statistics

    def test_another_subpopulation_is_another_question(self, card):
        women = card.run(
            FORMULA.replace("sex + ", ""), "linear", where="sex == 'female'", progress=False
        )
        assert women.nobs < 600
        assert ("Where", "sex == 'female'") in women.about

    def test_a_refusal_is_signed_and_costs_one_statistic(self, ana, card):
        few = "age >= 65 and health == 'very bad' and work == 'full' and sex == 'male'"
        with pytest.raises(RunRefusedError):
            card.run("health ~ sex", "crosstab", where=few, progress=False)
        line = ana.spends()[0]
        assert line.state is SpendState.SETTLED
        assert line.price.statistics == 1
        assert [one.state for one in card.answers()] == ["refused"]

    def test_means_of_stored_numbers(self, house, ana):
        card = proposed(ana, kinds=["means"])
        answer = card.run("age ~ sex", "means", response="stored", progress=False)
        exact, rows = survey(900).groupby("sex").age, answer.estimates.table("means")
        errors = exact.sem()[list(rows.row_names)]
        means = [row[1] for row in rows.values]
        assert np.all(np.abs(means - exact.mean()[list(rows.row_names)]) <= errors / 19)
        again = card.run("age ~ sex", "means", progress=False)
        assert again.estimates.table("means") != rows

    def test_the_shell_runs_and_lists(self, house, card):
        folder = house.person("ana")
        (folder / "connection.toml").write_text(f'address = "{house.address}"\n')
        where = ["--connection", str(folder)]
        run = ["run", card.name, FORMULA, "--kind", "linear", *where]
        ran = CliRunner().invoke(app, run)
        assert ran.exit_code == 0, ran.output
        assert "Released by" in ran.output
        listed = CliRunner().invoke(app, ["answers", card.name, "--json", *where])
        assert '"released"' in listed.output


class TestJudgedBeforeAnyWork:
    @pytest.mark.parametrize(
        ("formula", "kind", "where", "error"),
        [
            (FORMULA, "means", "", InvalidInputError),
            ("work ~ region", "crosstab", "", RecordsProtectedError),
            ("work ~ sex", "crosstab", "region == 'north'", RecordsProtectedError),
            ("income ~ sex", "linear", "", UnknownAttributeError),
            ("age ~ (", "linear", "", InvalidFormulaError),
            (FORMULA, "linear", "__import__('os')", InvalidInputError),
            (FORMULA, "linear", "sex", InvalidInputError),
        ],
    )
    def test_s52_nothing_is_spent_or_stored(self, house, card, formula, kind, where, error):
        with state_unchanged(house), pytest.raises(error):
            card.run(formula, kind, where=where or None, progress=False)

    @pytest.mark.parametrize(
        "options",
        ["{", "[]", '{ "a": 1}', '{"values":{"age":"x"}}', '{"values":{"age":[1]}}', '{"test":{"a":1}}'],
    )
    def test_options_that_are_none(self, house, card, options):
        request = pb.RunAnalysisRequest(
            card=card.name, kind="linear", formula=FORMULA, options=options, request_id=request_id()
        )
        with state_unchanged(house):
            ending = call(house.channel(house.person("ana")), RUN, request)
            assert ending.code is grpc.StatusCode.INVALID_ARGUMENT

    def test_a_card_without_runs_grants_none(self, house, ana):
        card = ana.propose("survey", PAIRS, purpose="a test", rows=900).accept()
        with state_unchanged(house), pytest.raises(InvalidInputError):
            card.run(FORMULA, "linear", progress=False)

    def test_the_nearest_acceptable_terms_have_reasons(self, ana):
        wanted = {"kinds": ["cox", "linear"], "checked_runs": 500, "numbers": 300}
        card = ana.propose("survey", PAIRS, purpose="a test", rows=900, analyses=wanted)
        assert card.terms.analyses == Analyses(("linear",), checked_runs=80, numbers=200)
        reasons = {change.field: change.reason for change in card.changes}
        assert reasons == {
            "analyses.kinds": "KIND_NOT_OFFERED",
            "analyses.checked_runs": "TOO_MANY_RUNS",
            "analyses.numbers": "TOO_MANY_NUMBERS",
        }
        assert card.analyses_price.statistics == 80 * 200


class TestCaps:
    def test_s52_64_racing_runs_never_exceed_the_runs_of_the_card(self, house, ana):
        card = proposed(ana, checked_runs=5)
        formulas = [f"age ~ {a} + {b}" for a in ("sex", "health") for b in ("region", "sex", "health")]

        def one(number):
            try:
                where = None if number % 2 else "sex == 'male'"
                card.run(formulas[number % 6], "linear", where=where, progress=False)
                return "ran"
            except GencardError as error:
                return error.reason

        with ThreadPoolExecutor(6) as pool:
            ends = list(pool.map(one, range(64)))
        runs = list(card.answers())
        assert len(runs) == 5, ends
        # on a busy machine the service may turn a call away
        assert {"ran", "TOO_LARGE"} == set(ends) - {"SERVICE_UNAVAILABLE"}

    def test_s52_racing_runs_never_exceed_the_ledger(self, house, ana, monkeypatch):
        card = proposed(ana, numbers=50)
        spent = ana.budget("survey").spent.statistics
        held = []
        original = Ledger.cap

        def cap(self, account):
            whole = original(self, account)
            return type(whole)(statistics=spent + 120)

        monkeypatch.setattr(Ledger, "cap", cap)

        def one(formula):
            try:
                card.run(formula, "linear", progress=False)
            except GencardError as error:
                held.append(error.reason)

        names = ("sex", "health", "region", "sex + health", "sex + region", "health + region")
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(one, (f"age ~ {name}" for name in names)))
        assert "BUDGET_EXCEEDED" in held
        assert ana.budget("survey").spent.statistics <= spent + 120


class TestInsiders:
    def test_s52_anothers_card_and_answer_read_as_what_never_was(self, house, card):
        card.run(FORMULA, "linear", progress=False)
        name = next(iter(card.answers())).name
        channel = house.channel(enrolled(house, "bob"))
        asked = pb.RunAnalysisRequest(
            card=card.name, kind="linear", formula=FORMULA, request_id=request_id()
        )
        for path, request in (
            (RUN, asked),
            ("/gencard.v1.AnswersService/GetAnswer", pb.GetAnswerRequest(name=name)),
            ("/gencard.v1.AnswersService/ListAnswers", pb.ListAnswersRequest(parent=card.name)),
        ):
            assert call(channel, path, request).code is grpc.StatusCode.NOT_FOUND

    def test_a_replayed_request_is_the_same_run_and_another_question_is_refused(self, house, ana, card):
        channel = house.channel(house.person("ana"))
        request = pb.RunAnalysisRequest(
            card=card.name, kind="linear", formula=FORMULA, request_id=request_id()
        )
        first = call(channel, RUN, request)
        assert call(channel, RUN, request) == first
        request.formula = "age ~ sex"
        assert call(channel, RUN, request).reason == "REQUEST_ID_REUSED"
        assert len(list(card.answers())) == 1

    def test_auditors_read_what_was_released_and_run_nothing(self, house, card):
        mine = card.run(FORMULA, "linear", progress=False)
        with house.analyst("aud") as auditor:
            name = next(iter(auditor.card(card.name).answers())).name
            channel = house.channel(house.person("aud"))
            request = pb.RunAnalysisRequest(
                card=card.name, kind="linear", formula=FORMULA, request_id=request_id()
            )
            assert call(channel, RUN, request).code is grpc.StatusCode.PERMISSION_DENIED
            from gencard.client.answers.answering import fetch

            assert fetch(auditor.card(card.name).agreement, name).envelope == mine.envelope


class TestEnds:
    def test_s52_a_failure_says_nothing_and_keeps_its_price(self, house, ana, card, monkeypatch):
        def fails(self, run):
            raise ZeroDivisionError("CANARY of 17 records")

        monkeypatch.setattr(AnswerRun, "__call__", fails)
        with pytest.raises(GencardError) as failure:
            card.run(FORMULA, "linear", progress=False)
        assert "CANARY" not in str(failure.value)
        assert ana.spends()[0].state is SpendState.RESERVED
        assert [one.state for one in card.answers()] == ["not finished"]

    def test_a_revoked_card_gives_nothing_more(self, house, card):
        card.run(FORMULA, "linear", progress=False)
        Steward(house.controller.controller_state).revoke(card.name, "")
        with pytest.raises(CardStateError):
            card.run("age ~ sex", "linear", progress=False)

    def test_too_many_runs_name_the_limit(self, ana):
        card = proposed(ana, checked_runs=1)
        card.run(FORMULA, "linear", progress=False)
        with pytest.raises(TooLargeError):
            card.run("age ~ sex", "linear", progress=False)
        card.run(FORMULA, "linear", progress=False)  # asked before: free


def test_a_run_under_noise_spends_its_own_budget(tmp_path):
    with noisy(tmp_path, analyses=POLICY) as house, house.analyst() as ana:
        asked = GRANTED | {"kinds": ["crosstab", "linear", "means"], "epsilon": "0.25"}
        card = propose(ana, epsilon="0.5", neighbouring="replace-one", analyses=asked).accept()
        assert card.analyses_price.epsilon == 12 * Decimal("0.25")
        with state_unchanged(house), pytest.raises(InvalidInputError, match="not the numbers"):
            card.run("age ~ sex", "means", response="stored", progress=False)
        answer = card.run("work ~ sex", "crosstab", progress=False)
        line = ana.spends()[0]
        assert (line.kind, line.state) == ("run", SpendState.SETTLED)
        assert (line.price.statistics, line.price.epsilon) == (0, Decimal("0.25"))
        assert ("Paid", "epsilon 0.25") in answer.about
        assert {one.paid for one in card.answers()} == {Price(epsilon=Decimal("0.25"))}
        assert "noise" in answer.estimates.noise
        tiny = {"analyses": asked | {"epsilon": "0.001"}, "neighbouring": "replace-one"}
        card = propose(ana, epsilon="0.4", **tiny).accept()
        with pytest.raises(RunRefusedError, match="noise-drowns") as refused:
            card.run("age ~ health", "linear", progress=False)
        assert "larger budget" in str(refused.value)


def test_rules_that_the_policy_makes_stricter(tmp_path):
    made = build(tmp_path, survey(900))
    made.raise_caps()
    configure(
        made,
        "datasets.policy",
        analyses=POLICY.replace("stored = true }", "threshold = 600, rounding = 50 }"),
    )
    made.start()
    try:
        with made.analyst() as ana:
            card = proposed(ana, kinds=["means"])
            with state_unchanged(made), pytest.raises(RecordsProtectedError, match="stored"):
                card.run("age ~ 1", "means", response="stored", progress=False)
            assert card.run("age ~ 1", "means", progress=False).nobs % 50 == 0
            with pytest.raises(RunRefusedError, match="output-rules"):
                card.run("age ~ sex", "means", progress=False)
    finally:
        made.stop()


@pytest.fixture
def own_house(tmp_path):
    made = build(tmp_path, survey(600))
    made.raise_caps()
    steward = POLICY.replace(" }", ', release = "steward" }')
    configure(made, "datasets.policy", analyses=steward)
    yield made.start()
    made.stop()


def desk(house):
    return Steward(house.controller.controller_state)


def test_runs_tell_no_wider_tables_than_the_policy_allows(own_house):
    """Not by a condition either: the tables of women and of men are the wider table."""
    with own_house.analyst() as ana:
        card = proposed(ana)
        for formula, where in (("health ~ sex:work", None), ("health ~ work", "sex == 'female'")):
            with pytest.raises(RecordsProtectedError, match="allows 2"):
                card.run(formula, "crosstab", where=where, progress=False)
        with pytest.raises(AnswerWaitingError):
            card.run("health ~ sex", "crosstab", progress=False)


class TestStewards:
    def test_s52_an_answer_waits_and_is_released(self, own_house):
        with own_house.analyst() as ana:
            card = proposed(ana)
            with pytest.raises(AnswerWaitingError):
                card.run(FORMULA, "linear", progress=False)
            (waiting,) = desk(own_house).waiting()
            assert [one.state for one in card.answers()] == ["waiting for a steward"]
            desk(own_house).release(waiting.name)
            answer = card.run(FORMULA, "linear", progress=False)
            assert dict(answer.about)["Released by"].endswith("/steward/sam")
            with pytest.raises(InvalidInputError):
                desk(own_house).release(waiting.name)

    def test_an_answer_waits_and_is_refused(self, own_house):
        with own_house.analyst() as ana:
            card = proposed(ana)
            with pytest.raises(AnswerWaitingError):
                card.run(FORMULA, "linear", progress=False)
            desk(own_house).refuse(desk(own_house).waiting()[0].name)
            with pytest.raises(RunRefusedError, match="STEWARD_DECISION"):
                card.run(FORMULA, "linear", progress=False)
            assert ana.spends()[0].price.statistics == 1

    def test_a_changed_dataset_ends_the_card_s_runs(self, own_house):
        with own_house.analyst() as ana:
            card = proposed(ana)
            own_house.stop()
            survey(600, seed=8).to_csv(own_house.folder.parent / "survey.csv", index=False)
            own_house.start()
        with own_house.analyst() as ana, pytest.raises(DatasetChangedError):
            ana.card(card.name).run(FORMULA, "linear", progress=False)


def begun(house, card, formula):
    """The name of the operation of a run that nobody waits for."""
    request = pb.RunAnalysisRequest(
        card=card.name, kind="linear", formula=formula, request_id=request_id()
    )
    return call(house.channel(house.person("ana")), RUN, request)


class TestRestart:
    def test_runs_that_a_stop_interrupts_end_once_after_the_start(self, own_house):
        with own_house.analyst() as ana:
            card = proposed(ana)
        formulas = [f"age ~ {name}" for name in ("sex", "health", "region", "sex + health")]
        for formula in formulas:
            assert begun(own_house, card, formula).code is grpc.StatusCode.OK
        own_house.stop()
        own_house.start()
        with own_house.analyst() as ana:
            card = ana.card(card.name)
            for formula in formulas:
                with pytest.raises(AnswerWaitingError):
                    card.run(formula, "linear", progress=False)
            assert [run.state for run in card.answers()] == ["waiting for a steward"] * 4
            lines = [line for line in ana.spends() if line.kind == "run"]
            assert [line.state for line in lines] == [SpendState.RESERVED] * 4

    def test_a_run_that_is_called_off_before_it_looks_costs_nothing(self, own_house, monkeypatch):
        def cancelled(self, run):
            raise OperationCancelledError

        with own_house.analyst() as ana, monkeypatch.context() as patch:
            card = proposed(ana, checked_runs=1)
            patch.setattr(AnswerRun, "__call__", cancelled)
            with pytest.raises(OperationCancelledError):
                card.run(FORMULA, "linear", progress=False)
            assert ana.spends()[0].state is SpendState.VOIDED
            assert not list(card.answers())


@pytest.mark.parametrize(
    ("analyses", "more"),
    [
        ("{ checked_runs = 2 }", {}),
        (POLICY, {"transform": "{ rounding = 5 }"}),
        ("{ reviewed_runs = 1 }", {"transform": "{ rounding = 5 }"}),
    ],
)
def test_runs_that_no_card_could_have_are_refused_at_the_start(tmp_path, analyses, more):
    made = build(tmp_path, survey(300))
    configure(made, "datasets.policy", analyses=analyses, **more)
    with pytest.raises(InvalidInputError, match=r"policy\.analyses"):
        made.start()
