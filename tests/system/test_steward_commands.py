"""`gencard steward` at a real service: two stewards decide; one alone, others and hostile text fail."""

import json
import re
import shlex
import socket
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gencard.client import Steward
from gencard.client.shell import stewarding
from gencard.client.shell.main import app
from gencard.client.shell.stewarding import StewardCommands
from gencard.controller.shell.main import app as controller_app
from gencard.core import errors
from gencard.wire.keys import Role
from tests.system.house import House, build, survey

PAGE = Path(__file__).resolve().parents[2] / "docs" / "stewards.md"
PAIR = [("sex", "health"), ("sex", "work")]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    built = build(tmp_path_factory.mktemp("stewards"))
    built.edit({"automatic": "false\nstewards = 2"})
    built.raise_caps()
    for name in ("eve", "zoe"):
        built.enrol(name, Role.STEWARD, "service")
    yield built.start()
    built.stop()


@pytest.fixture
def run(house, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def call(who, *words, code=0, typed=None):
        folder = house.person(who)
        (folder / "connection.toml").write_text(f'address = "{house.address}"\n')
        words = ["steward", *map(str, words), "-c", str(folder)]
        result = CliRunner().invoke(app, words, input=typed, catch_exceptions=code == 0)
        assert result.exit_code == code, result.output + result.stderr
        return result.stdout + result.stderr

    return call


@pytest.fixture
def card(house):
    with house.analyst() as analyst:
        yield analyst.propose("survey", PAIR, purpose="To see", rows=100)


def shown(run, name, who="sam"):
    return json.loads(run(who, "show", name, "--json"))["shown"]


def decided(run, who, verb, name, *words, digest=None, **others):
    words = (*words, "--shown", digest or shown(run, name), "--reason", "seen", "--yes")
    return run(who, verb, name, *words, **others)


class TestTwoStewards:
    def test_the_second_decision_offers_the_card(self, run, card):
        first = decided(run, "sam", "approve", card.name)
        assert "waiting for another steward; no effect yet" in first
        (command,) = re.findall(r"gencard steward (approve .*)", first)
        assert card.refresh().state == "requested"
        again = json.loads(run("eve", "show", card.name, "--json"))
        assert again["firsts"][0]["reason"] == "seen"
        second = run("eve", *shlex.split(command), "--reason", "as sam", "--yes")
        assert "done" in second
        assert card.refresh().accept().state == "agreed"
        entries = json.loads(run("eve", "log", card.name, "--json"))
        assert {"decide", "decide-first"} <= {entry["action"] for entry in entries}
        entry = json.loads(run("eve", "log", "--entry", entries[0]["index"], "--json"))
        assert entry["entry"]["resource"] == card.name

    def test_the_second_steward_is_shown_the_command_of_the_first_decision(self, run, card):
        decided(run, "sam", "counter", card.name, "--drop", "sex,health")
        text = run("eve", "show", card.name)
        (command,) = re.findall(r"→ gencard steward (.*)", text)
        assert command.startswith(f"counter {card.name} --drop sex,health --shown ")
        assert "steward approve" not in text
        assert "done" in run("eve", *shlex.split(command), "--reason", "as sam", "--yes")

    def test_one_steward_is_not_two(self, run, card):
        decided(run, "sam", "approve", card.name)
        assert "SECOND_STEWARD" in decided(run, "sam", "approve", card.name, code=1)
        assert card.refresh().state == "requested"

    def test_two_different_decisions_are_not_one(self, run, card):
        decided(run, "sam", "counter", card.name, "--drop", "sex,work")
        assert "waiting for another steward" in decided(
            run, "eve", "counter", card.name, "--drop", "sex,health"
        )
        assert card.refresh().state == "requested"

    def test_a_counter_offer_of_two(self, run, card):
        for who in ("sam", "eve"):
            said = decided(run, who, "counter", card.name, "--drop", "sex,work", "--rows", 50)
        assert "done" in said
        assert card.refresh().terms.marginals == (("sex", "health"),)

    def test_what_waits_is_listed_with_whom_it_waits_for(self, run, card):
        decided(run, "sam", "approve", card.name)
        waiting = {one["resource"]: one for one in json.loads(run("eve", "queue", "--json"))}
        assert waiting[card.name]["waitsFor"] == "another steward"
        assert card.name in run("eve", "queue")

    def test_a_steward_who_is_disabled_meanwhile_no_longer_counts(self, run, card):
        decided(run, "zoe", "approve", card.name)
        words = ("--shown", person(run, "zoe"), "--reason", "left", "--yes")
        assert "waiting for another steward" in run("eve", "disable", "zoe", *words)
        assert "done" in run("sam", "disable", "zoe", *words)
        assert "UNAUTHENTICATED" in run("zoe", "queue", code=1)
        assert "waiting for another steward" in decided(run, "eve", "approve", card.name)
        words = ("--shown", person(run, "zoe"), "--reason", "back", "--yes")
        assert "waiting for another steward" in run("eve", "enable", "zoe", *words)  # two make a steward
        assert "done" in run("sam", "enable", "zoe", *words)


def person(run, name):
    """The digest of a person, as `people` gives it."""
    (listed,) = (
        one for one in json.loads(run("eve", "people", "--json")) if one["uri"].endswith(f"/{name}")
    )
    return listed["shown"]


class TestWhatWasShown:
    def test_a_card_that_changed_after_it_was_shown_is_not_decided_on(self, run, house, card):
        digest = shown(run, card.name)
        with house.analyst() as analyst:
            analyst.card(card.name).terminate()
        assert "STALE_ETAG" in decided(run, "sam", "approve", card.name, digest=digest, code=1)

    def test_a_digest_of_another_card_is_refused(self, run, house, card):
        with house.analyst() as analyst:
            other = analyst.propose("survey", PAIR[:1], purpose="Other", rows=100)
        digest = shown(run, other.name)
        assert "STALE_ETAG" in decided(run, "sam", "approve", card.name, digest=digest, code=1)

    @pytest.mark.parametrize(
        ("words", "missing"),
        [
            ((), "--shown"),
            (("--yes", "--reason", "x"), "--shown"),
            (("--shown", "ab" * 32), "--yes"),
            (("--shown", "ab" * 32, "--yes"), "--reason"),
        ],
    )
    def test_scripts_name_what_they_saw(self, run, card, words, missing):
        assert missing in run("sam", "approve", card.name, *words, code=1)

    def test_a_terminal_shows_the_card_and_asks(self, run, card, monkeypatch):
        monkeypatch.setattr(stewarding, "is_interactive", lambda: True)
        said = run("sam", "approve", card.name, typed="Fine\ny\n")
        assert "To see" in said
        assert shown(run, card.name) in said
        assert "waiting for another steward" in said
        run("eve", "reject", card.name, typed="Not fine\nn\n", code=1)
        assert card.refresh().state == "requested"

    def test_the_library_wants_the_review(self, house, card):
        with Steward.connect(house.address, folder=house.person("sam")) as steward:
            with pytest.raises(errors.InvalidInputError, match="shown"):
                steward.approve(card.name, reason="blind")
            review = steward.review(card.name)
            assert not steward.approve(review, reason="seen").done
            with pytest.raises(errors.InvalidInputError):
                steward.approve(review, reason="two\nlines")


CALLS = {
    "queue": (),
    "show": ("CARD",),
    "risk": ("CARD",),
    "answers": (),
    "ledger": (),
    "people": (),
    "refusals": (),
    "log": (),
    "approve": ("CARD", "DECISION"),
    "counter": ("CARD", "--rows", "5", "DECISION"),
    "reject": ("CARD", "DECISION"),
    "revoke": ("CARD", "DECISION"),
    "release": ("CARD/answers/1", "DECISION"),
    "refuse": ("CARD/answers/1", "DECISION"),
    "settle": ("1", "DECISION"),
    "void": ("1", "DECISION"),
    "disable": ("sam", "DECISION"),
    "enable": ("sam", "DECISION"),
    "dismiss": ("operations/1", "DECISION"),
}


class TestOthers:
    @pytest.mark.parametrize("who", ["ana", "aud"])
    @pytest.mark.parametrize("command", CALLS)
    def test_no_other_role_gets_anywhere(self, run, card, who, command):
        decision = ("--shown", "ab" * 32, "--reason", "mine", "--yes")
        words = [word.replace("CARD", card.name) for word in CALLS[command] if word != "DECISION"]
        words += decision if "DECISION" in CALLS[command] else ()
        assert "PERMISSION_DENIED" in run(who, command, *words, code=1)

    def test_every_command_is_tried(self):
        assert CALLS.keys() == StewardCommands.homes.keys() - {"approve-restore", "enrol"}

    @pytest.mark.parametrize("purpose", ["To see \x1b]0;owned\x07", "To see \x9b2J", "To \u202egpj.exe"])
    def test_hostile_words_of_an_analyst_are_not_obeyed(self, run, house, purpose):
        with house.analyst() as analyst:
            try:
                name = analyst.propose("survey", PAIR, purpose=purpose, rows=100).name
            except errors.InvalidInputError:
                return
        said = [run("sam", "show", name, *words) for words in ((), ("--json",))]
        said += [run("sam", "queue"), run("sam", "queue", "--json"), run("sam", "log", "--json")]
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set("".join(said))


class TestRisk:
    def test_a_look_is_kept_and_shown(self, run, card):
        said = run("sam", "risk", card.name)
        for words in (
            "3,000 records",
            "Small counts",
            "Certain: some attributes of a person",
            "for stewards only",
        ):
            assert words in said
        first, second = (json.loads(run(who, "risk", card.name, "--json")) for who in ("sam", "eve"))
        assert first["time"] == second["time"]
        assert first["records"] == 3_000

    def test_it_is_for_stewards_alone(self, house, card):
        ana = Steward.connect(house.address, folder=house.person("ana"))
        with ana, pytest.raises(errors.PermissionDeniedError):
            ana.risk(card.name, again=True)


class TestPeople:
    def test_two_stewards_enrol_nobody_under_a_wrong_fingerprint(self, run, tmp_path):
        CliRunner().invoke(app, ["enrol", "bob", "-c", str(tmp_path / "bob")])
        (request,) = (tmp_path / "bob").rglob("*-request.json")
        words = ("--role", "analyst", "--project", "p", "--address", "localhost:1")
        wrong = (*words, "--fingerprint", "ab" * 32, "--shown", "ab" * 32, "--reason", "x", "--yes")
        assert "does not match" in run("sam", "enrol", request, *wrong, code=1)

    def test_people_and_their_request(self, run, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(stewarding, "is_interactive", lambda: True)
        CliRunner().invoke(app, ["enrol", "bob", "-c", "bob"])
        (request,) = Path("bob").rglob("*-request.json")
        words = ("--role", "analyst", "--project", "p", "--address", "localhost:1")
        first = run("sam", "enrol", request, *words, typed="y\nNew analyst\ny\n")
        assert "waiting for another steward" in first
        assert not Path("bob-answer.json").exists()
        said = run("eve", "enrol", request, *words, typed="y\nNew analyst\ny\n")
        assert "bob-answer.json" in said
        assert Path("bob-answer.json").is_file()
        assert "bob" in run("sam", "people")


class TestLedger:
    def test_budgets_and_lines(self, run):
        ledger = json.loads(run("sam", "ledger", "--json"))
        assert ledger["budgets"][0]["dataset"] == "datasets/survey"
        assert "survey" in run("sam", "ledger", "--dataset", "survey")


def commands_of(page):
    """The section's commands in their order, without the prompt."""
    section = page.partition("## Two stewards decide")[2].partition("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


def test_the_guide_works_from_a_fresh_clone(tmp_path, monkeypatch):
    """Each of its commands, in this process; what sets up the clone is taken as done."""
    page = PAGE.read_text(encoding="utf-8")
    lines = commands_of(page)
    assert f"makes {len(lines)} commands" in page
    monkeypatch.chdir(tmp_path)
    survey()[["sex", "age", "health"]].to_csv("survey.csv", index=False)
    house, card, digest = House(tmp_path / "house"), "", ""
    try:
        for line in lines[2:]:
            words = re.sub(r"\bCARD\b", card, line).replace("DIGEST", digest)
            output = typed(words, house, monkeypatch)
            card = card or "".join(re.findall(r"datasets/survey/cards/[0-9a-f]+", output)[:1])
            digest = "".join(re.findall(r"Shown: ([0-9a-f]{64})", output)) or digest
    finally:
        house.stop()
    assert "agreed" in output


def typed(line, house, monkeypatch):
    """Run a line of the guide, and return its output."""
    program, *words = shlex.split(line)
    if program == "export":
        monkeypatch.setenv(*words[0].split("="))
        return ""
    if program == "sed":
        subprocess.run([program, *words], check=True)
        return ""
    if words[0] == "serve":
        house.start()
        return ""
    monkeypatch.setattr(stewarding, "is_interactive", lambda: True)
    shell = app if program == "gencard" else controller_app
    result = CliRunner().invoke(shell, words, input="y\ny\n", catch_exceptions=False)
    assert result.exit_code == 0, (line, result.output)
    if words[0] == "init":
        house.edit({"address": f'"localhost:{free_port()}"'})
    return result.output


def free_port():
    with socket.socket() as held:
        held.bind(("localhost", 0))
        return held.getsockname()[1]


@pytest.mark.parametrize("name", StewardCommands.homes)
def test_a_summary_begins_the_help_of_its_command(name):
    home = StewardCommands.homes[name]
    assert " ".join(home.load(name).help.split()).startswith(home.summary.rstrip("."))
