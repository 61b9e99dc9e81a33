"""Settings read again by a running service: what takes effect, what waits, and what is refused whole."""

import re
import shutil
import signal
import subprocess
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.client import Analyst, all_marginals
from gencard.controller.shell.main import app
from gencard.controller.state.log import event_of
from gencard.controller.wiring.opening import SettingsWatch
from gencard.core.errors import (
    BudgetExceededError,
    GencardError,
    InvalidInputError,
    NotFoundError,
    UnauthenticatedError,
)
from tests.system.house import build, survey


@pytest.fixture
def house(tmp_path):
    built = build(tmp_path, survey(300))
    built.edit({"analyst": "{ statistics = 1 }"})
    yield built.start()
    built.stop()


def run(house, *words):
    result = CliRunner().invoke(app, [*map(str, words), "--config", str(house.settings_file)])
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.output


def reload(house):
    return house.controller.reload(house.settings())


def generate(analyst):
    cliques = all_marginals(2, ["sex", "health"])
    card = analyst.propose("survey", cliques, purpose="A test", rows=10).accept()
    return card.generate(rows=10, seed=1)


def logged(house):
    state = house.controller.controller_state
    with state.database.reading() as tx:
        return [event_of(entry.body) for entry in state.log.entries(tx)]


class TestCaps:
    def test_a_raised_cap_is_in_force_at_once(self, house):
        with house.analyst() as ana:
            with pytest.raises(BudgetExceededError):
                generate(ana)
            run(house, "caps", "set", "survey", "--analyst", "ana", "--statistics", 500)
            assert reload(house).changed == ("datasets/survey",)
            assert len(generate(ana)) == 10
        assert reload(house).changed == ()

    def test_it_is_of_one_analyst_alone(self, house):
        house.enrol("bob", project="pilot")
        run(house, "caps", "set", "survey", "--analyst", "ana", "--statistics", 500)
        reload(house)
        with house.analyst("bob") as bob, pytest.raises(BudgetExceededError):
            generate(bob)

    def test_a_cap_below_what_is_spent_is_refused(self, house):
        run(house, "caps", "set", "survey", "--each-analyst", "--statistics", 500)
        reload(house)
        with house.analyst() as ana:
            generate(ana)
        before = house.settings_file.read_text()
        words = ["caps", "set", "survey", "--statistics", "2", "--config", str(house.settings_file)]
        result = CliRunner().invoke(app, words)
        assert isinstance(result.exception, InvalidInputError)
        assert "are spent already" in str(result.exception)
        assert house.settings_file.read_text() == before

    def test_the_log_names_the_steward_who_changed_it(self, house):
        run(house, "caps", "set", "survey", "--statistics", 9_999, "--steward", "otto")
        reload(house)
        (event,) = [one for one in logged(house) if one.details.get("after") == "9999"]
        assert event.actor.endswith("/steward/otto")
        assert event.details["field"] == "caps.dataset.statistics"


class TestDatasets:
    @pytest.fixture
    def added(self, house):
        file = house.folder.parent / "second.csv"
        pd.DataFrame({"a": ["x", "y"] * 20, "b": [1, 2, 3, 4] * 10}).to_csv(file, index=False)
        run(house, "dataset", "add", "second", file)
        return house

    def test_one_that_nobody_reviewed_is_refused_then_served(self, added):
        with added.analyst() as ana:
            (refused,) = reload(added).refused
            assert refused.place == "datasets/second"
            assert "second: reviewed" in str(refused.error)
            with pytest.raises(NotFoundError):
                ana.dataset("second")
            run(added, "schema", "review", "--dataset", "second", "--yes")
            assert reload(added).changed == ("datasets/second",)
            card = ana.propose("second", [("a", "b")], purpose="A test", rows=10).accept()
            assert len(card.generate(rows=10, seed=1)) == 10

    def test_one_taken_away_is_served_until_a_restart(self, house):
        settings = house.settings_file
        text = settings.read_text()
        table = re.compile(r"(?ms)^\[\[datasets\]\].*?(?=^\[\[black)")
        settings.write_text(table.sub("", text))
        assert reload(house).waiting == ("datasets/survey: removed",)
        with house.analyst() as ana:
            assert ana.dataset("survey")

    def test_a_changed_schema_waits_for_a_restart(self, house):
        run(house, "schema", "set", "sex", "--add-label", "other")
        run(house, "schema", "review", "--yes")
        assert reload(house).waiting == ("datasets/survey: schema",)
        with house.analyst() as ana:
            assert ana.dataset("survey").coding.attribute("sex").coding.labels == ("female", "male")


class TestRefused:
    def test_a_broken_file_changes_nothing(self, house):
        text = house.settings_file.read_text()
        house.settings_file.write_text(text.replace("statistics = 1 }", "statistics = 500 }") + "[x")
        with pytest.raises(InvalidInputError, match="not valid TOML"):
            reload(house)
        policy = text.replace("statistics = 1 }", "statistics = 500 }")
        house.settings_file.write_text(policy.replace("forbidden = []", 'forbidden = [["agee"]]'))
        (refused,) = reload(house).refused
        assert "policy.forbidden" in str(refused.error)
        with house.analyst() as ana, pytest.raises(BudgetExceededError):
            generate(ana)

    def test_a_mistake_in_the_policy_stops_no_lowered_cap(self, house):
        """Lowered amounts are taken over, raised ones wait: the policy may have been tightened too."""
        house.edit({"forbidden": '[["agee"]]', "dataset": "{ statistics = 3 }"})
        house.edit({"analyst": "{ statistics = 500 }"})
        (refused,) = reload(house).refused
        assert "policy.forbidden" in str(refused.error)
        caps = house.controller.reloading.enforced()["datasets/survey"]
        assert caps["all"] == "3 exact statistics"
        assert caps["each analyst"] == "1 exact statistics"

    def test_a_broken_schema_stops_no_lowered_cap(self, house):
        (house.folder / "schema.toml").write_text("not [ TOML")
        house.edit({"dataset": "{ statistics = 3 }"})
        (refused,) = reload(house).refused
        assert "schema.toml" in str(refused.error)
        assert house.controller.reloading.enforced()["datasets/survey"]["all"] == "3 exact statistics"

    def test_a_mistake_in_a_format_stops_no_lowered_cap(self, house):
        house.edit({"dataset": "{ statistics = 3 }"})
        text = house.settings_file.read_text()
        house.settings_file.write_text(text.replace("format = {", 'format = { encoding = "x",', 1))
        assert "datasets/survey: format" in reload(house).waiting
        assert house.controller.reloading.enforced()["datasets/survey"]["all"] == "3 exact statistics"

    def test_the_log_states_what_is_in_force(self, house):
        """A command logs the rules of the files; where they are refused, the service logs its own."""
        house.edit({"forbidden": '[["agee"]]', "analyst": "{ statistics = 500 }"})
        run(house, "caps", "set", "survey", "--each-project", "--statistics", 400, "--steward", "otto")
        reload(house)
        last = {one.details["field"]: one for one in logged(house) if "field" in one.details}
        assert last["caps.analyst.statistics"].details["after"] == "1"
        assert last["caps.project.statistics"].details["after"] == "400"

    def test_what_cannot_change_is_named(self, house):
        house.edit({"cpu_seconds": "1_799"})
        assert reload(house).waiting == ("limits",)


class TestPeople:
    def test_a_disabled_person_is_refused_at_the_next_call(self, house):
        with house.analyst() as ana:
            assert ana.datasets()
            run(house, "person", "disable", "ana")
            with pytest.raises(UnauthenticatedError, match=r"is disabled\. Ask the controller"):
                ana.datasets()
            run(house, "person", "enable", "ana")
            assert ana.datasets()
        fields = [(one.action, one.details.get("field")) for one in logged(house)]
        assert fields.count(("change", "disabled")) == 2

    def test_a_disabled_name_stays_taken(self, house):
        run(house, "person", "disable", "ana")
        shutil.rmtree(house.person("ana"))
        with pytest.raises(GencardError, match="is disabled"):
            house.enrol("ana", project="pilot")
        assert "disabled" in run(house, "person", "list")


def test_a_file_is_read_once_it_is_left_alone(tmp_path):
    house = build(tmp_path, survey(50))
    watch = SettingsWatch(house.settings_file, house.settings())
    assert not watch.changed()
    house.settings_file.write_text(house.settings_file.read_text() + "\n")
    assert [watch.changed() for _ in range(3)] == [False, True, False]
    (house.folder / "schema.toml").write_text("changed")
    assert [watch.changed() for _ in range(3)] == [False, True, False]


class TestProgram:
    @pytest.fixture
    def served(self, tmp_path):
        """The service in a process of its own: the house, and its lines until one says something."""
        house = build(tmp_path, survey(300))
        house.edit({"analyst": "{ statistics = 1 }"})
        program = "from gencard.controller.shell.main import main; main()"
        command = [sys.executable, "-c", program, "serve", "--config", str(house.settings_file)]
        log = (tmp_path / "log").open("w")
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
        )

        def until(words):
            for line in process.stdout:
                if words in line:
                    return line
            raise AssertionError(words)

        yield house, until, process
        process.send_signal(signal.SIGINT)
        process.wait(60)
        log.close()

    def test_it_reads_changes_by_itself_and_survives_mistakes(self, served):
        house, until, process = served
        port = re.search(r":(\d+)", until("Serving on"))[1]
        with Analyst.connect(f"localhost:{port}", folder=house.person("ana")) as ana:
            text = house.settings_file.read_text()
            house.settings_file.write_text("not [ TOML")
            assert "refused" in until("Settings refused")
            with pytest.raises(BudgetExceededError):
                generate(ana)
            house.settings_file.write_text(text)
            run(house, "caps", "set", "survey", "--each-analyst", "--statistics", 500)
            assert until("Settings reloaded").strip().endswith("datasets/survey")
            assert len(generate(ana)) == 10
        process.send_signal(signal.SIGHUP)
        assert until("nothing has changed")
        house.edit({"cpu_seconds": "1_799"})
        assert until("Needs a restart").strip().endswith("limits")
        assert '"event": "settings refused"' in (house.folder.parent / "log").read_text()

    @pytest.fixture
    def drafted(self, served):
        """The service, with a second dataset that is an unreviewed draft."""
        house, until, _ = served
        until("Serving on")
        file = house.folder.parent / "second.csv"
        pd.DataFrame({"a": ["x", "y"] * 20, "b": [1, 2, 3, 4] * 10}).to_csv(file, index=False)
        text = run(house, "dataset", "add", "second", file)
        assert "Not in force: datasets/second: " in text
        assert "reviewed" in text
        return house, until

    def test_a_lowered_cap_is_in_force_beside_an_unreviewed_draft(self, drafted):
        house, until = drafted
        text = run(house, "caps", "set", "survey", "--statistics", 7)
        assert "The running service enforces for datasets/survey: all: 7 exact statistics" in text
        assert "Not in force: datasets/second: " in text
        assert until("Settings reloaded").strip().endswith("datasets/survey")
        shown = run(house, "caps")
        assert "in force" in shown
        assert shown.count("7 exact statistics") == 2
        run(house, "schema", "review", "--dataset", "second", "--yes")
        assert "Not in force" not in run(house, "caps")

    def test_the_commands_name_what_needs_a_restart(self, served):
        house, until, _ = served
        until("Serving on")
        others = house.folder.parent / "others.csv"
        survey(60, seed=9).to_csv(others, index=False)
        text = house.settings_file.read_text()
        place = f'schema = "schema.toml"\nholdout = "{others}"\n'
        house.settings_file.write_text(text.replace('schema = "schema.toml"\n', place))
        assert until("Needs a restart").strip().endswith("datasets/survey: holdout")
        for words in (["caps"], ["check"], ["caps", "set", "survey", "--statistics", 9]):
            assert "Needs a restart: datasets/survey: holdout" in run(house, *words)
        assert "enforces for datasets/survey: all: 9 exact statistics" in run(
            house, "caps", "set", "survey", "--statistics", 9
        )

    def test_without_a_service_the_change_waits_for_its_start(self, tmp_path):
        house = build(tmp_path, survey(50))
        text = run(house, "caps", "set", "survey", "--statistics", 7)
        assert "No service is running on this machine" in text
