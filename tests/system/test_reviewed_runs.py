"""Reviewed runs through the real service: dry run, run at the records, decision, signed answer."""

import base64
import json
from datetime import timedelta
from functools import partial

import grpc
import pytest
from google.longrunning import operations_pb2, operations_pb2_grpc
from typer.testing import CliRunner

from gencard.client.answers.answering import dry_run, fetch, run_program
from gencard.client.shell.main import app as client_app
from gencard.client.shell.negotiation import GrantOptions
from gencard.controller.shell.main import app
from gencard.controller.state.cards import as_of
from gencard.core.errors import (
    AnswerWaitingError,
    CardExpiredError,
    GencardError,
    InvalidInputError,
    ProgramNotRunError,
    RunRefusedError,
)
from gencard.v1 import answers_pb2, answers_pb2_grpc
from gencard.wire.canonical import json_bytes, sha256
from tests.system.house import Clock, House, build, survey
from tests.system.programs import has_r
from tests.system.raw_calls import state_unchanged
from tests.system.recorder import Recorder
from tests.system.sandboxes import needs_sandbox

pytestmark = [needs_sandbox, pytest.mark.timeout(300)]

GOOD = """
from gencard.run import output, records
frame = records()
output.table("sex by health", frame.groupby(["sex", "health"], observed=True).size().unstack())
output.scalar("mean age", frame["age"].mean())
output.scalar("few", len(frame) % 7, count=True)
output.scalar("canary", 8642.5 if len(frame) == 3_000 else 0.0)
"""
FAILS_HERE = "raise ValueError"
FAILS_THERE = """
from gencard.run import output, records
assert len(records()) != 3_000, "CANARY"
output.scalar("n", 1.0)
"""
CANARY = "8642"
"""Digits that only a number of the records has."""

COUNTS = """
from gencard.run import output, records
frame = records()
output.table("health", frame.groupby(["sex", "health"], observed=False).size())
output.scalar("few", len(frame) % 290, count=True)
"""
LINE = "from gencard.run import output\noutput.scalar('a', 1.0)"
STORED = """
from gencard.run import output, records
age = records()["age"]
output.scalar("mean age", age.mean())
"""
LATE = "from gencard.run import output\noutput.scalar('late', 1.0)"
TOO_LATE = "from gencard.run import output\noutput.scalar('too late', 1.0)"
SAVED = "from gencard.run import output, records\noutput.scalar('rows', len(records()) / 2)"
IN_R = """#!/usr/bin/env Rscript
frame <- records()
output$table("sex by health", table(frame$sex, frame$health))
output$scalar("mean age", mean(frame$age))
"""
LIBRARIES = ["R"] if has_r() else []
OTHER = "from gencard.run import output\noutput.scalar('x', 1.0)"
PROGRAMS = (GOOD, FAILS_HERE, FAILS_THERE, IN_R, COUNTS, LINE, SAVED, LATE, TOO_LATE)
MOST = len(PROGRAMS) + 1


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    built: House = build(tmp_path_factory.mktemp("reviewed"))
    text = built.settings_file.read_text()
    libraries = json.dumps(LIBRARIES)
    granted = (
        f"analyses = {{ reviewed_runs = {MOST}, program_numbers = 60, libraries = {libraries}, "
        "threshold = 300, rounding = 20, columns = ['age'] }\n"
    )
    built.settings_file.write_text(text.replace("automatic = true\n", f"automatic = true\n{granted}", 1))
    built.raise_caps()
    try:
        yield built.start()
    finally:
        built.stop()


@pytest.fixture(scope="module")
def card(house):
    """A card that names the programs."""
    with house.analyst() as analyst:
        programs = sorted(sha256(text.encode()) for text in PROGRAMS)
        granted = {"programs": programs, "reviewed_runs": MOST, "program_numbers": 60}
        granted["libraries"] = LIBRARIES
        marginals = [("sex", "health"), ("sex", "age")]
        agreed = analyst.propose("survey", marginals, purpose="To see", analyses=granted).accept()
        yield agreed


def test_the_shell_proposes_a_program_by_its_file(house, tmp_path):
    program, person = tmp_path / "analysis.py", house.person("ana")
    program.write_text(GOOD)
    (person / "connection.toml").write_text(f'address = "{house.address}"\n')
    words = [
        "propose",
        "survey",
        "--marginal",
        "sex,health",
        "--purpose",
        "To see",
        "--program",
        program,
    ]
    words += ["--reviewed-runs", 3, "--accept", "--json", "-c", person]
    result = CliRunner().invoke(client_app, [*map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    with house.analyst() as analyst:
        analyses = analyst.card(json.loads(result.stdout)["name"]).terms.analyses
    assert (analyses.programs, analyses.reviewed_runs) == ((sha256(GOOD.encode()),), 3)
    with pytest.raises(InvalidInputError, match="--program"):
        GrantOptions(library=["lifelines"]).runs()


@pytest.fixture(scope="module")
def release(card):
    return card.release(rows=500, seed=1)


@pytest.fixture
def steward(house, monkeypatch):
    """The steward's shell: what a command prints."""
    monkeypatch.setenv("GENCARD_CONTROLLER", str(house.settings_file))
    monkeypatch.setenv("COLUMNS", "200")

    return partial(shell, "emergency", "answers")


def shell(*words: str) -> str:
    result = CliRunner().invoke(app, [*words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def rehearsed(release, tmp_path):
    """The dry run of a program's text, here."""

    def rehearse(text: str):
        (tmp_path / "analysis.py").write_text(text)
        return dry_run(release, tmp_path / "analysis.py", seed=3)

    return rehearse


def everything_sent(house, card: str, answer: str) -> str:
    """All that the service sends of a run to its analyst: the answer, lists, operations."""
    recorder = Recorder()
    channel = grpc.intercept_channel(house.channel(), recorder)
    answers = answers_pb2_grpc.AnswersServiceStub(channel)
    answers.GetAnswer(answers_pb2.GetAnswerRequest(name=answer))
    answers.ListAnswers(answers_pb2.ListAnswersRequest(parent=card))
    listed = operations_pb2.ListOperationsRequest(page_size=100)
    operations_pb2_grpc.OperationsStub(channel).ListOperations(listed)
    assert any(answer in said for said in recorder.said)
    return "".join(recorder.said)


def run_waiting(card, program) -> str:
    """The name of the answer that waits."""
    with pytest.raises(AnswerWaitingError) as caught:
        card.run(program=program, seed=3, progress=False)
    return caught.value.fields["answer"]


def test_from_a_dry_run_to_a_signed_answer(card, rehearsed, steward, tmp_path, house):
    dry, program = rehearsed(GOOD), tmp_path / "analysis.py"
    name = run_waiting(card, program)
    assert run_waiting(card, program) == name, "asked twice, run once"
    assert [one.state for one in card.answers()] == ["waiting for a steward"]

    assert CANARY not in everything_sent(house, card.name, name)

    assert name in steward("list")
    numbers = json.loads(steward("show", name, "--json"))["numbers"]
    assert len(numbers) == dry.numbers == 11
    assert {one["mark"] for one in numbers} == {"green", "amber", "red"}
    assert steward("show", name, "--program").strip() == GOOD.strip()
    assert "threshold" in steward("show", name)

    said = steward("release", name, "--withhold", "sex by health/male/good", "--digits", "3")
    assert "9 numbers charged" in said
    answer = card.run(program=program, seed=3, progress=False).estimates
    table = answer.table("sex by health")
    assert table.values[table.row_names.index("male")][table.column_names.index("good")] is None
    kept = {(one["row"], one["column"]): one["value"] for one in numbers}
    female = table.values[table.row_names.index("female")]
    assert female == tuple(20 * round(kept["female", each] / 20) for each in table.column_names)
    assert answer.table("canary").values == ((8640.0,),), "rounded to three digits"
    assert answer.table("few").values == ((None,),), "red numbers stay"
    difference = answer.table("mean age: difference to the synthetic rows").values[0][0]
    assert difference == pytest.approx(
        answer.table("mean age").values[0][0] - dry.outputs[1].values[0][0]
    )


def test_s29_a_program_that_fails_at_the_records_waits_like_any_other(card, rehearsed, steward, house):
    """A program could fail if a record has some value; an error at once would be that bit."""
    with pytest.raises(AnswerWaitingError) as caught:
        run_program(card.agreement, rehearsed(FAILS_THERE), progress=False)
    failed = caught.value.fields["answer"]
    listed = next(iter(card.answers()))
    assert (listed.name, listed.state, listed.statistics) == (failed, "waiting for a steward", 0)
    assert "failed on the records" in steward("show", failed)
    with pytest.raises(GencardError):
        app(["emergency", "answers", "release", failed], standalone_mode=False)
    steward("refuse", failed)
    with pytest.raises(RunRefusedError, match="STEWARD_DECISION") as refused:
        run_program(card.agreement, rehearsed(FAILS_THERE), progress=False)
    assert "failed" not in str(refused.value)
    listed = next(iter(card.answers()))
    assert (listed.state, listed.statistics) == ("refused", 1)
    held = [
        one for one in json.loads(shell("emergency", "ledger", "--json")) if one["resource"] == failed
    ]
    assert [(one["state"], one["price"]["statistics"]) for one in held] == [("settled", "1")]


def test_a_program_that_fails_on_rows_costs_nothing(card, rehearsed):
    dry = rehearsed(GOOD)
    broken = type(dry)(FAILS_HERE.encode(), dry.release, dry.seed, dry.outputs)
    with pytest.raises(ProgramNotRunError, match="fails on the synthetic rows"):
        run_program(card.agreement, broken, progress=False)


def test_only_what_the_card_names_is_run(card, rehearsed):
    with pytest.raises(InvalidInputError, match="digest"):
        run_program(card.agreement, rehearsed(OTHER), progress=False)


def test_what_the_card_does_not_grant_is_said_before_any_work(card, tmp_path):
    (tmp_path / "analysis.py").write_text(GOOD)
    with pytest.raises(InvalidInputError, match="needs lifelines") as caught:
        card.run(program=tmp_path / "analysis.py", libraries=["lifelines"])
    assert '"lifelines"' in caught.value.advice
    (tmp_path / "analysis.py").write_text(OTHER)
    with pytest.raises(InvalidInputError, match="digest") as caught:
        card.run(program=tmp_path / "analysis.py")
    assert sha256(OTHER.encode()) in caught.value.advice
    with pytest.raises(InvalidInputError, match="libraries"):
        card.run(program=tmp_path / "analysis.py", libraries="lifelines")


@pytest.mark.skipif(not LIBRARIES, reason="R is not installed")
def test_a_program_in_r_from_a_dry_run_to_a_signed_answer(card, release, steward, tmp_path):
    program = tmp_path / "analysis.R"
    program.write_text(IN_R)
    dry = card.dry_run(program, seed=3)
    name = run_waiting(card, program)
    assert len(json.loads(steward("show", name, "--json"))["numbers"]) == dry.numbers == 9
    steward("release", name, "--red")
    table = card.run(program=program, seed=3, progress=False).estimates.table("sex by health")
    assert sum(value for row in table.values for value in row) == pytest.approx(3_000, abs=8 * 10)


def test_counts_leave_as_in_checked_runs_and_marks_say_so(card, release, steward, tmp_path):
    program = tmp_path / "analysis.py"
    program.write_text(COUNTS)
    card.dry_run(program, seed=3)
    name = run_waiting(card, program)
    numbers = json.loads(steward("show", name, "--json"))["numbers"]
    assert [one["leaves"] % 20 for one in numbers] == [0] * len(numbers)
    assert {one["mark"] for one in numbers} == {"green", "red"}, "the policy's threshold is 300"
    assert "is released as a multiple of 20" in steward("show", name)
    steward("release", name)
    answer = card.run(program=program, seed=3, progress=False).estimates
    values = [answer.table(name).values for name in ("health", "few")]
    left = [number for rows in values for row in rows for number in row]
    assert left == [one["leaves"] if one["mark"] == "green" else None for one in numbers]
    assert "numbers of records are multiples of 20" in answer.notes


def test_stored_numbers_are_on_the_card_and_reach_its_programs_alone(house, steward, tmp_path):
    program = tmp_path / "analysis.py"
    program.write_text(STORED)
    granted = {"programs": [sha256(STORED.encode())], "reviewed_runs": 1, "columns": ["age", "sex"]}
    with house.analyst() as analyst:
        offered = analyst.propose(
            "survey", [("sex", "age")], purpose="To see", analyses={**granted, "program_numbers": 60}
        )
        assert [(one.field, one.old, one.reason) for one in offered.changes] == [
            ("analyses.columns", "sex", "COLUMN_NOT_OFFERED")
        ]
        assert "stored numbers of age" in repr(offered.lines())
        card = offered.accept()
        rows = card.release(rows=400, seed=2)
        dry = card.dry_run(program)
        assert dry.outputs[0].values[0][0] == pytest.approx(rows.frame["age"].mean(), rel=1e-3)
        with pytest.raises(AnswerWaitingError) as caught:
            card.run(program=program, progress=False)
        steward("release", caught.value.fields["answer"])
        answer = card.run(program=program, progress=False).estimates
        assert answer.table("mean age").values[0][0] == pytest.approx(survey().age.mean(), rel=1e-3)


def test_a_line_that_pays_for_a_waiting_answer_is_not_voided(card, release, house, steward, tmp_path):
    """Otherwise no steward could decide on the answer."""
    program = tmp_path / "analysis.py"
    program.write_text(LINE)
    card.dry_run(program, seed=3)
    name = run_waiting(card, program)
    lines = json.loads(shell("emergency", "ledger", "--json"))
    line = next(str(one["line"]) for one in lines if one["resource"] == name)
    for command in ("void", "settle"):
        with pytest.raises(InvalidInputError, match="still undecided") as caught:
            shell("emergency", "ledger", command, line, "--reason", "by mistake")
        assert name in caught.value.advice
    steward("refuse", name)
    with pytest.raises(RunRefusedError):
        card.run(program=program, seed=3, progress=False)


def test_a_released_answer_is_saved_and_verified_offline(card, release, steward, tmp_path, house):
    program = tmp_path / "analysis.py"
    program.write_text(SAVED)
    card.dry_run(program, seed=3)
    steward("release", run_waiting(card, program), "--red")
    answer = card.run(program=program, seed=3, progress=False)
    kept = answer.save(tmp_path / "kept")
    with pytest.raises(InvalidInputError, match="already exists"):
        answer.save(kept)
    folder = card.agreement.connection.credentials.folder
    assert outcomes(kept, folder=folder) >= {("Answer answer.json", "passed")}
    release.save(tmp_path / "release")
    answer.save(tmp_path / "alone.json")
    beside = outcomes(tmp_path / "release", tmp_path / "alone.json", folder=folder)
    assert ("Answer alone.json", "passed") in beside
    assert [one for one, outcome in beside if outcome == "failed"] == [f"Log entry {index_of(answer)}"]


def test_a_changed_answer_is_not_verified(card, release, steward, tmp_path):
    program = tmp_path / "analysis.py"
    program.write_text(SAVED)
    answer = card.run(program=program, seed=3, progress=False)
    kept = answer.save(tmp_path / "kept")
    folder = card.agreement.connection.credentials.folder
    whole = (kept / "answer.json").read_bytes()
    document = json.loads(whole)
    payload = json.loads(base64.b64decode(document["payload"]))
    payload["predicate"]["answer"]["tables"][0]["values"][0][0] = 1.5
    document["payload"] = base64.b64encode(json_bytes(payload)).decode()
    (kept / "answer.json").write_bytes(json_bytes(document))
    assert ("Answer answer.json", "failed") in outcomes(kept, folder=folder)
    (kept / "answer.json").write_bytes(whole[:-2])
    assert "failed" in {outcome for _, outcome in outcomes(kept, folder=folder)}


def test_an_expired_card_runs_nothing_and_what_waits_is_decided(
    card, rehearsed, steward, tmp_path, house, monkeypatch
):
    rehearsed(LATE)
    name, late = run_waiting(card, tmp_path / "analysis.py"), rehearsed(TOO_LATE)
    clock = Clock()
    clock.ahead = timedelta(days=91)
    later = lambda _, card: as_of(card, clock())  # noqa: E731 - it is one
    monkeypatch.setattr(type(house.controller.controller_state.cards), "as_of_now", later)
    for attempt in (
        lambda: run_program(card.agreement, late, progress=False),
        lambda: card.run("age ~ sex", "linear", progress=False),
    ):
        with state_unchanged(house), pytest.raises(CardExpiredError):
            attempt()
    steward("release", name)
    assert fetch(card.agreement, name).estimates.table("late").values == ((1.0,),)


def outcomes(*paths, folder):
    """Checks of `gencard verify`, with their outcomes."""
    words = [*map(str, paths), "--connection", str(folder), "--json"]
    result = CliRunner().invoke(client_app, ["verify", *words])
    return {(one["what"], one["outcome"]) for one in json.loads(result.stdout)}


def index_of(answer) -> str:
    return dict(answer.about)["Signed"].rpartition(" ")[2]


def test_a_program_in_r_says_so_and_needs_r_here(release, tmp_path, monkeypatch):
    program = tmp_path / "analysis.R"
    program.write_text(IN_R.partition("\n")[2])
    with pytest.raises(InvalidInputError, match="does not begin like one"):
        dry_run(release, program)
    program.write_text(IN_R)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidInputError, match="Rscript is not on the PATH"):
        dry_run(release, program)


def test_a_dry_run_on_other_rows_is_none(card, rehearsed):
    dry = rehearsed(GOOD)
    other = type(dry)(FAILS_HERE.encode(), f"{card.name}/releases/other", 0, dry.outputs)
    with pytest.raises(InvalidInputError, match="release of this card"):
        run_program(card.agreement, other, progress=False)


def test_a_dry_run_says_where_the_program_fails(rehearsed, capfd):
    with pytest.raises(InvalidInputError, match="exit code 1"):
        rehearsed("from gencard.run import records\nrecords()['nothing']")
    assert "KeyError: 'nothing'" in capfd.readouterr().err
