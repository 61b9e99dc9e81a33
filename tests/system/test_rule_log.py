"""S45: changes of the rules leave a trace in the log: settings, datasets, boxes, people, starts."""

import shutil

import pytest
from typer.testing import CliRunner

from gencard.controller.shell.main import app
from gencard.controller.state.log import Event, event_of
from gencard.core.errors import GencardError, StorageError
from tests.system.house import House, build, survey
from tests.system.raw_calls import enrolled

SURVEY = "datasets/survey"
SECRET = "postgres-password-1"


@pytest.fixture(scope="module")
def drafted(tmp_path_factory) -> House:
    return build(tmp_path_factory.mktemp("rules"), survey(100))


@pytest.fixture
def house(drafted, tmp_path):
    """A copy that nobody has served yet."""
    folder = tmp_path / "controller"
    shutil.copytree(drafted.folder, folder)
    shutil.copy(drafted.folder.parent / "survey.csv", tmp_path / "survey.csv")
    copied = House(folder)
    yield copied
    copied.stop()


def events_of(house: House) -> list[Event]:
    controller_state = house.controller.controller_state
    with controller_state.database.reading() as tx:
        return [event_of(entry.body) for entry in controller_state.log.entries(tx)]


def restarted(house: House) -> list[Event]:
    """Restart the house, and return what the restart adds to the log."""
    before = len(events_of(house))
    house.stop()
    house.start()
    return events_of(house)[before:]


class TestStarts:
    def test_s45_the_first_start_says_what_there_is(self, house):
        house.start()
        events = events_of(house)
        assert [event.action for event in events[:-1]] == ["add"] * (len(events) - 1)
        assert events[-1].action == "start"
        resources = {event.resource for event in events}
        assert {"datasets/survey", "black_boxes/copier", "settings/limits"} <= resources
        assert sum(resource.startswith("people/") for resource in resources) == 3

    def test_s45_an_identical_restart_is_one_entry(self, house):
        house.start()
        (event,) = restarted(house)
        assert (event.action, event.resource) == ("restart", "service")
        assert event.details["settings"] == events_of(house)[-2].details["settings"]
        assert event.actor == house.settings().identity.uri

    @pytest.mark.parametrize(
        ("changes", "resource", "field", "before", "after"),
        [
            (
                {"dataset": "{ statistics = 77 }"},
                "datasets/survey",
                "caps.dataset.statistics",
                None,
                "77",
            ),
            ({"most_rows": "77"}, SURVEY, "policy.most_rows", None, "77"),
            ({"share": "0.25"}, "black_boxes/copier", "share", "0.5", "0.25"),
            ({"calls_per_second": "55"}, "settings/server", "calls_per_second", "100000", "55"),
        ],
    )
    def test_s45_a_changed_rule_is_an_entry_with_both_values(
        self, house, changes, resource, field, before, after
    ):
        """At a4e800e the caps could be raised and lowered between two starts, and nothing showed it."""
        house.start()
        settings = events_of(house)[-1].details["settings"]
        house.edit(changes)
        *entries, restart = restarted(house)
        (entry,) = [event for event in entries if event.details.get("field") == field]
        assert (entry.action, entry.resource, entry.details["after"]) == ("change", resource, after)
        assert before in (None, entry.details["before"])
        assert entry.details["settings_before"] == settings
        assert entry.details["settings"] == restart.details["settings"] != settings

    def test_s45_a_dataset_s_schema_and_a_new_box_are_entries(self, house):
        house.start()
        schema = house.folder / "schema.toml"
        schema.write_text(
            schema.read_text().replace(
                'labels = ["north", "south"]', 'labels = ["north", "south", "east"]'
            )
        )
        with house.settings_file.open("a") as settings:
            settings.write('\n[[black_boxes]]\nname = "fresh"\nkind = "honest"\n')
        entries = {
            (event.action, event.resource, event.details.get("field")) for event in restarted(house)
        }
        assert ("change", "datasets/survey", "schema_digest") in entries
        assert ("add", "black_boxes/fresh", None) in entries

    def test_s45_the_changes_are_there_before_anything_is_served(self, house):
        """An entry that cannot be written ends the start."""
        house.start()
        house.stop()
        house.edit({"most_rows": "77"})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gencard.controller.wiring.opening.keep_rules", _fails)
            with pytest.raises(StorageError):
                house.start()
        house.start()
        assert "policy.most_rows" in {event.details.get("field") for event in events_of(house)}


def _fails(*_: object) -> None:
    raise StorageError


class TestPeople:
    def test_s45_a_person_added_and_removed_is_noticed_at_the_next_call(self, house):
        house.start()
        before = len(events_of(house))
        with house.analyst(enrolled(house, "carol")) as carol:
            list(carol.datasets())
        file = house.folder / "identities" / "carol.toml"
        kept = file.read_text()
        file.unlink()
        with house.analyst("carol") as carol, pytest.raises(GencardError):
            list(carol.datasets())
        file.write_text(kept)
        entries = [event for event in events_of(house)[before:] if "carol" in event.resource]
        assert [event.action for event in entries if event.resource.startswith("people/")][:2] == [
            "add",
            "remove",
        ]

    def test_s45_another_signing_key_is_an_entry_at_the_next_start(self, house):
        house.start()
        identities = house.folder / "identities"
        ana, aud = (identities / f"{name}.toml" for name in ("ana", "aud"))
        key_of = {file: file.read_text().splitlines()[1] for file in (ana, aud)}
        ana.write_text(ana.read_text().replace(key_of[ana], key_of[aud]))
        *entries, _ = restarted(house)
        (entry,) = [event for event in entries if event.details.get("field") == "signing_key"]
        assert entry.resource.endswith("/ana")
        assert entry.details["before"] != entry.details["after"]


class TestCommands:
    def test_s45_rules_changed_for_one_decision_alone_are_entries_too(self, house, monkeypatch):
        """Edit the policy, decide by a command, edit it back: the service itself never sees it."""
        house.edit({"automatic": "false"})
        house.start()
        with house.analyst() as analyst:
            card = analyst.propose("survey", [("sex", "work")], purpose="To see", rows=100)
        before, kept = len(events_of(house)), house.settings_file.read_text()
        house.edit({"most_rows": "50"})
        monkeypatch.setenv("GENCARD_CONTROLLER", str(house.settings_file))
        CliRunner().invoke(app, ["emergency", "approve", card.name], catch_exceptions=False)
        house.settings_file.write_text(kept)
        entries = [*events_of(house)[before:], *restarted(house)]
        rows = [event for event in entries if event.details.get("field") == "policy.most_rows"]
        assert [(event.action, event.details["after"] == "50") for event in rows] == [
            ("change", True),
            ("change", False),
        ]
        assert "/steward/" in rows[0].actor

    def test_s45_the_log_shows_changes_in_words(self, house, monkeypatch):
        house.start()
        house.edit({"most_rows": "77"})
        restarted(house)
        monkeypatch.setenv("GENCARD_CONTROLLER", str(house.settings_file))
        monkeypatch.setenv("COLUMNS", "200")
        shown = CliRunner().invoke(app, ["log"], catch_exceptions=False).stdout
        assert "policy.most_rows: was " in shown
        assert ", is 77" in shown


class TestSecrets:
    def test_s45_no_secret_and_no_path_is_in_an_entry_or_in_a_digest_that_could_be_guessed(
        self, house, monkeypatch
    ):
        for spelling in ("", "./"):
            file = f"{house.folder}/state/{spelling}{SECRET}.sqlite"
            monkeypatch.setenv("GENCARD_STATE__URL", f"sqlite:///{file}")
            house.stop()
            house.start()
        controller_state = house.controller.controller_state
        with controller_state.database.reading() as tx:
            bodies = b"".join(entry.body for entry in controller_state.log.entries(tx))
        assert SECRET.encode() not in bodies
        assert str(house.folder).encode() not in bodies
        (change,) = [event for event in events_of(house) if event.details.get("field") == "url"]
        assert change.details["after"].startswith("not shown, keyed digest ")
        assert change.details["after"] != change.details["before"]
