"""The steward's shell, command by command, beside a controller that serves."""

import json
import re
import subprocess
import sys
from datetime import date
from decimal import Decimal
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from gencard.controller.drafting.schema_draft import draft_schema
from gencard.controller.records.schema_file import PLACEHOLDER, read_schema
from gencard.controller.shell import run_shell
from gencard.controller.shell.main import app
from gencard.core.card.budget import Price
from gencard.core.errors import CardStateError, InvalidInputError, StaleEtagError, UndeclaredLevelError
from tests.system.house import SPENDING, build, spending
from tests.system.raw_calls import configure
from tests.system.test_s25_checks import COUNTS, RUNS, housed


@pytest.fixture(scope="module")
def watched_house(tmp_path_factory):
    """A steward looks at each proposal first."""
    house = build(tmp_path_factory.mktemp("watched"))
    caps = dict.fromkeys(("dataset", "project", "analyst"), '{ statistics = 100, epsilon = "1" }')
    house.edit({"automatic": "false"} | caps)
    yield house.start()
    house.stop()


@pytest.fixture
def run(watched_house, monkeypatch):
    monkeypatch.setenv("GENCARD_CONTROLLER", str(watched_house.settings_file))
    monkeypatch.setenv("COLUMNS", "200")
    runner = CliRunner()

    def call(*words):
        result = runner.invoke(app, [str(word) for word in words], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    return call


@pytest.fixture
def emergency(run):
    return partial(run, "emergency")


@pytest.fixture
def asked(watched_house):
    """A proposal that waits."""
    with watched_house.analyst() as analyst:
        marginals = [("sex", "health"), ("sex", "work")]
        yield analyst.propose("survey", marginals, purpose="To see", rows=100)


def test_check_reads_every_record(run):
    assert "all declared" in run("check")


def test_check_names_tables_and_levels_with_small_cells(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    house = housed(tmp_path, "{ threshold = 13, rounding = 5 }", COUNTS | {("male", "bad"): 2})
    house.edit({"mechanisms": '["exact", "gaussian"]', "most_per_card": "{ statistics = 9, rho = 1 }"})
    noise = '{ mechanism = "gaussian", neighbouring = "add-remove", rho = "0.1" }'
    configure(house, "datasets.policy", noise=noise, analyses=RUNS)
    result = CliRunner().invoke(app, ["check", "--config", str(house.settings_file)])
    lines = [line for line in result.output.splitlines() if "sex × health" in line]
    assert [line.split("│")[2].strip() for line in lines] == ["2"], result.output
    assert "male, bad: 2; female, bad: 12" in lines[0]
    assert "is refused at the records" in result.output
    assert "policy.transform and policy.analyses exclude each other" in result.output


def test_check_names_numbers_of_which_one_record_moves_most_means(tmp_path, monkeypatch):
    """One expenditure of 90,000 among 900 of about 100."""
    monkeypatch.setenv("COLUMNS", "200")
    records = spending()
    house = build(tmp_path, records, SPENDING)
    result = CliRunner().invoke(app, ["check", "--config", str(house.settings_file)])
    said = " ".join(result.output.split())
    assert "means of spent by more than analyses.influence permits" in said
    edge, fewer = re.search(
        r'a last edge of (\d+) and above = "highest", of fewer than (\d+)', said
    ).groups()
    clamped = np.minimum(records.spent, int(edge))
    distance = (clamped.max() - clamped.mean()) / clamped.std()
    assert 0.7 * distance**2 < int(fewer) < 1.5 * distance**2 < 135
    configure(house, "datasets.policy", analyses='{ influence = "off" }')
    assert (
        "analyses.influence"
        not in CliRunner().invoke(app, ["check", "--config", str(house.settings_file)]).output
    )


def test_title_and_description_are_shown_set_and_reviewed(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    house = build(tmp_path)
    monkeypatch.setenv("GENCARD_CONTROLLER", str(house.settings_file))

    def call(*words):
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    text = (house.folder / "schema.toml").read_text()
    (house.folder / "schema.toml").write_text(text.replace('"For tests."', f'"{PLACEHOLDER}"'))
    assert "Description: none; set it with" in call("schema", "show")
    assert read_schema(house.folder / "schema.toml").description == "", "never published"
    changed = call("schema", "describe", "--title", "Survey of 2026", "--description", "Made up, CC0.")
    assert "needs a review" in changed
    schema = read_schema(house.folder / "schema.toml")
    assert (schema.title, schema.description, schema.reviewed) == (
        "Survey of 2026",
        "Made up, CC0.",
        False,
    )
    assert "Description: Made up, CC0." in call("schema", "review", "--yes")
    house.start()
    try:
        with house.analyst() as ana:
            assert ana.dataset("survey").description == "Made up, CC0."
    finally:
        house.stop()


def test_a_draft_has_no_placeholder(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("a,b\n" + "x,1\ny,2\n" * 30)
    drafted = draft_schema(file, "a", today=date(2026, 1, 1)).schema
    assert drafted.description == ""


def test_check_says_which_attribute_is_wrong(tmp_path):
    house = build(tmp_path)
    with (tmp_path / "survey.csv").open("a") as file:
        file.write("female,CANARY,none,north,30\n")
    with pytest.raises(UndeclaredLevelError, match="health") as caught:
        app(["check", "--config", str(house.settings_file)], standalone_mode=False)
    assert "CANARY" not in str(caught.value)


def test_an_error_is_one_line_and_advice(tmp_path, capsys):
    absent = tmp_path / "controller.toml"
    words = ["emergency", "cards", "--config", str(absent)]
    assert run_shell(lambda: app(words, standalone_mode=False)) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("INVALID_INPUT")
    assert second.startswith("→")


def test_no_command_leaves_a_core_dump():
    """Some of them read records, and all of them keys."""
    program = (
        "import resource\n"
        "from gencard.controller.shell import main as shell\n"
        "shell.run_shell = lambda _: print(resource.getrlimit(resource.RLIMIT_CORE)) or 0\n"
        "shell.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=240
    )
    assert done.stdout == "(0, 0)\n"


def test_an_error_is_text_and_no_markup(capsys):
    def refused():
        raise InvalidInputError(field="a[/b]c", problem="is wrong")

    assert run_shell(refused) == 1
    assert "a[/b]c: is wrong." in capsys.readouterr().err


def test_what_waits_is_shown_and_approved(emergency, asked):
    cards = json.loads(emergency("cards", "--waiting", "--json"))
    (waiting,) = (card for card in cards if card["name"] == asked.name)
    assert (waiting["state"], waiting["turn"]) == ("requested", "controller")
    assert "offered" in emergency("approve", asked.name, "--steward", "sam")
    card = asked.refresh().accept()
    assert "agreed" in emergency("cards", asked.name)
    card.generate(5, progress=False)
    lines = json.loads(emergency("ledger", "--json"))
    (line,) = (line for line in lines if line["resource"] == card.name)
    assert (line["state"], line["price"]["statistics"]) == ("settled", str(card.price.statistics))
    assert "revoked" in emergency("revoke", card.name, "--remark", "The records were wrong.", "--yes")
    assert card.refresh().state == "revoked"


@pytest.mark.parametrize(
    ("words", "lacking"), [((), "--yes"), (("--reason", "x"), "--yes"), (("--yes",), "--reason")]
)
def test_nothing_is_revoked_for_good_unasked_or_without_a_reason(asked, watched_house, words, lacking):
    words = ["emergency", "revoke", asked.name, *words, "--config", str(watched_house.settings_file)]
    with pytest.raises(InvalidInputError, match=lacking):
        app(words, standalone_mode=False)


def test_a_counter_offer_leaves_out_what_it_says(emergency, asked):
    assert "offered" in emergency("counter", asked.name, "--drop", "sex,work", "--rows", 50)
    terms = asked.refresh().offer.terms
    assert (terms.marginals, terms.rows) == ((("sex", "health"),), 50)


def test_a_counter_offer_leaves_out_all_about_an_attribute(emergency, asked):
    assert "offered" in emergency("counter", asked.name, "--without", "work")
    assert asked.refresh().offer.terms.marginals == (("sex", "health"),)


def test_a_counter_offer_of_a_steward_shows_what_it_changes(emergency, asked):
    printed = emergency("counter", asked.name, "--drop", "sex,work", "--rows", 50)
    assert "changes: field rows; old 100; new 50; reason STEWARD_DECISION" in printed
    changes = asked.refresh().changes
    assert changes == asked.offer.changes
    assert [(one.field, one.old, one.new, one.reason) for one in changes] == [
        ("rows", "100", "50", "STEWARD_DECISION"),
        ("marginals", "sex, work", "", "STEWARD_DECISION"),
    ]
    assert "counter-offer" in [step.action for step in asked.negotiation.history]
    assert asked.accept().changes == changes


def test_a_counter_offer_keeps_the_weights_of_what_it_keeps(emergency, watched_house):
    marginals = [("sex", "health"), ("sex", "work")]
    noise = {"epsilon": "0.5", "neighbouring": "add-remove", "weights": {("sex", "work"): 3}}
    with watched_house.analyst() as analyst:
        card = analyst.propose("survey", marginals, purpose="To see", rows=100, **noise)
        assert "offered" in emergency("counter", card.name, "--drop", "sex,health")
        assert card.refresh().offer.terms.marginals == (("sex", "work"),)


@pytest.mark.parametrize(("option", "name"), [("drop", "sex,wrk"), ("without", "wrk")])
def test_what_was_not_asked_for_cannot_be_left_out(asked, watched_house, option, name):
    """A slip of the pen must not offer what was to be left out."""
    words = ["counter", asked.name, f"--{option}", name, "--config", str(watched_house.settings_file)]
    with pytest.raises(InvalidInputError, match=option):
        app(["emergency", *words], standalone_mode=False)
    assert asked.refresh().state == "requested"


def test_what_is_rejected_is_over(emergency, asked):
    assert "terminated" in emergency("reject", asked.name, "--remark", "Not now.")
    with pytest.raises(StaleEtagError):
        asked.terminate()
    assert ("Ended by", "the controller's steward: Not now.") in asked.refresh().lines()
    with pytest.raises(CardStateError, match=r"Ended by the controller's steward: Not now\."):
        asked.wait(for_="agreed")


def test_the_risk_of_a_card_is_shown_and_the_log_says_who_looked(run, asked, watched_house, emergency):
    shown = emergency("risk", asked.name, "--steward", "kim")
    assert "for the steward only" in shown
    assert re.search(r"worst_tables: .*sex, health", shown)
    report = json.loads(emergency("risk", asked.name, "--json"))
    assert report["attributes"] == ["sex", "health", "work"]
    assert report["small"]["cells"] > 0
    looks = [line for line in run("log").splitlines() if "look-at-risk" in line]
    assert any("kim" in line for line in looks)


def test_a_card_whose_noise_the_policy_takes_off_is_looked_at_as_exact(emergency, watched_house):
    """The policy has no mechanism but exact counts: approving would offer those."""
    noise = {"epsilon": "0.1", "neighbouring": "add-remove"}
    with watched_house.analyst() as analyst:
        card = analyst.propose("survey", [("work", "region")], purpose="To see", rows=100, **noise)
    assert "region" in emergency("risk", card.name)


def test_every_decision_is_in_a_log_that_verifies(run, asked, watched_house, emergency):
    emergency("approve", asked.name, "--steward", "Sam Miller")
    newest = json.loads(run("log", "--json", "--last", 1))[0]
    assert newest["actor"].endswith("/service/steward/sam-miller")
    assert newest["resource"] == asked.name
    assert "Verified" in run("log", "verify")
    output = watched_house.folder / "checkpoint.json"
    run("log", "checkpoint", "--output", output)
    assert json.loads(output.read_bytes())["signatures"]


def test_prices_are_in_every_currency(emergency, watched_house):
    controller_state = watched_house.controller.controller_state
    with controller_state.database.transaction() as tx:
        reserve(controller_state, tx, "noisy", Price(epsilon=Decimal("0.5")))
    assert "epsilon 0.5" in emergency("ledger")
    assert "exact statistics" in emergency("ledger")
    assert "at delta 1e-6" in " ".join(emergency("ledger").split())


@pytest.mark.parametrize(("word", "state"), [("settle", "settled"), ("void", "voided")])
def test_a_line_that_a_crash_left_is_ended_by_hand(emergency, watched_house, word, state):
    controller_state = watched_house.controller.controller_state
    with controller_state.database.transaction() as tx:
        line = reserve(controller_state, tx, word, Price(statistics=1))
    emergency("ledger", word, line)
    (ended,) = (entry for entry in json.loads(emergency("ledger", "--json")) if entry["line"] == line)
    assert ended["state"] == state


def reserve(controller_state, tx, card, price):
    return controller_state.ledger.reserve(
        tx,
        dataset="datasets/survey",
        project="pilot",
        analyst="spiffe://gencard.local/pilot/analyst/ana",
        resource=f"datasets/survey/cards/{card}",
        kind="psi",
        price=price,
        now=controller_state.cards.clock(),
    )


def test_a_cap_below_what_is_spent_does_not_pass_the_check(fresh_house):
    with fresh_house.analyst() as analyst:
        card = analyst.propose("survey", [("sex", "health")], purpose="To see", rows=10).accept()
        card.generate(5, progress=False)
    words = ["check", "--config", str(fresh_house.settings_file)]
    fresh_house.edit({"project": "{ statistics = 8 }"})
    app(words, standalone_mode=False)
    fresh_house.edit({"project": "{ statistics = 7 }"})
    with pytest.raises(InvalidInputError, match=r"allows 7 .* but 8 .* of pilot") as caught:
        app(words, standalone_mode=False)
    assert "at least what is spent" in str(caught.value)


class TestBlackBoxes:
    @pytest.fixture
    def drafted(self, tmp_path):
        return build(tmp_path)

    def invoked(self, house, *words):
        result = CliRunner().invoke(app, [*words, "--config", str(house.settings_file)])
        assert result.exit_code == 0, result.output
        return result.stdout

    def test_they_are_listed_with_digest_and_review(self, drafted):
        listed = {one["name"]: one for one in json.loads(self.invoked(drafted, "boxes", "--json"))}
        assert listed["leaky"]["reviewedBy"] is None
        assert listed["leaky"]["tier"] == "audited"
        assert listed["leaky"]["sha256"] in self.invoked(drafted, "boxes")
        assert "not reviewed" in self.invoked(drafted, "boxes")

    def test_a_review_is_written_for_the_present_digest(self, drafted):
        said = self.invoked(drafted, "boxes", "review", "leaky", "--by", "Jane Doe")
        assert "no audit finds what an author hides on purpose" in " ".join(said.split())
        listed = {one["name"]: one for one in json.loads(self.invoked(drafted, "boxes", "--json"))}
        assert (listed["leaky"]["reviewedBy"], listed["copier"]["reviewedBy"]) == ("Jane Doe", None)
        boxes = {box.name: box for box in drafted.settings().black_boxes}
        review = boxes["leaky"].reviewed_by
        assert (review.name, review.digest) == ("Jane Doe", listed["leaky"]["sha256"])

    def test_the_line_can_be_printed_instead(self, drafted):
        before = drafted.settings_file.read_text()
        line = self.invoked(drafted, "boxes", "review", "leaky", "--by", "Jane Doe", "--print")
        assert line.startswith('reviewed_by = { name = "Jane Doe", digest = "')
        assert drafted.settings_file.read_text() == before

    @pytest.mark.parametrize(("name", "by"), [("nobody", "Jane"), ("leaky", "two\nlines")])
    def test_what_cannot_be_reviewed_is_refused(self, drafted, name, by):
        words = ["boxes", "review", name, "--by", by, "--config", str(drafted.settings_file)]
        with pytest.raises(InvalidInputError):
            app(words, standalone_mode=False)
