"""schema, dataset, caps, person: commands that change files, keep comments, write nothing invalid."""

import json
import tomllib

import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.client import install_answer, new_request
from gencard.controller.people.enrolment import read_identities
from gencard.controller.settings import Settings
from gencard.controller.shell.main import app
from gencard.controller.state import database
from gencard.core.errors import GencardError, InvalidInputError
from gencard.wire.keys import Role
from tests.system.house import build, survey


@pytest.fixture(scope="module")
def drafted(tmp_path_factory):
    return build(tmp_path_factory.mktemp("edits"), survey(60))


@pytest.fixture
def house(drafted):
    """Settings and schema as drafted, whatever the test before did."""
    files = {path: path.read_bytes() for path in drafted.folder.glob("*.toml")}
    yield drafted
    for path in drafted.folder.glob("*.toml"):
        path.unlink()
    for path, content in files.items():
        path.write_bytes(content)


def run(house, *words):
    result = CliRunner().invoke(app, [*map(str, words), "--config", str(house.settings_file)])
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.output


def refused(house, *words):
    """The error of a command, which has left every file as it was."""
    before = {path: path.read_bytes() for path in house.folder.rglob("*.toml")}
    result = CliRunner().invoke(app, [*map(str, words), "--config", str(house.settings_file)])
    assert isinstance(result.exception, GencardError), result.output
    assert {path: path.read_bytes() for path in house.folder.rglob("*.toml")} == before
    return str(result.exception)


def attribute(house, name):
    table = tomllib.loads((house.folder / "schema.toml").read_text())
    assert table["reviewed"] is False
    return next((one for one in table["attributes"] if one["name"] == name), None)


AGE = {"edges": [16, 30, 45, 65, 95]}


class TestSchema:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["sex", "--labels", 'male,female,"x, or y"'], {"labels": ["male", "female", "x, or y"]}),
            (
                ["sex", "--add-label", "x", "--ordered"],
                {"labels": ["female", "male", "x"], "ordered": True},
            ),
            (["sex", "--other", "rest"], {"labels": ["female", "male", "rest"], "other": "rest"}),
            (
                ["sex", "--absent", "NA", "--absent", "?"],
                {"labels": ["female", "male"], "missing": ["NA", "?"]},
            ),
            (["health", "--not-ordered"], {"labels": ["good", "fair", "bad", "very bad"]}),
            (["age", "--edges", "0, 17.5, 99", "--missing"], {"edges": [0, 17.5, 99], "missing": True}),
            (
                ["age", "--edges", "2019-01-01,2020-12-31"],
                {"dates": ["2019-01-01", "2020-12-31"], "step": 1},
            ),
            (
                ["age", "--step", "0.5", "--points", "40, 50.5", "--fine", "5", "--above"],
                AGE | {"step": "0.5", "points": [40, 50.5], "fine": 5, "above": "highest"},
            ),
            (
                ["age", "--step", "1", "--fine", "16,20,95", "--fine-points", "18", "--below"],
                AGE | {"step": "1", "fine": [16, 20, 95], "fine_points": [18], "below": "lowest"},
            ),
            (["age", "--labels", "16,17", "--integer"], {"labels": ["16", "17"], "integer": True}),
            (["wage", "--new", "--edges", "0,10", "--decimals", "2"], {"edges": [0, 10], "decimals": 2}),
            (["work", "--leave-out"], None),
            (
                ["left", "--new", "--edges", "2013-01-01,2013-12-31", "--zone", "America/New_York"],
                {"dates": ["2013-01-01", "2013-12-31"], "step": 1, "zone": "America/New_York"},
            ),
        ],
    )
    def test_set(self, house, words, expected):
        run(house, "schema", "set", *words)
        table = attribute(house, words[0])
        assert table == (None if expected is None else {"name": words[0]} | expected)

    def test_new_edges_end_what_was_chosen_for_others(self, house):
        schema = house.folder / "schema.toml"
        more = 'step = 1\npoints = [50]\nfine = 5\ndrafted = "records"\n'
        schema.write_text(schema.read_text() + more)
        run(house, "schema", "set", "age", "--edges", "10,50,95")
        expected = {"name": "age", "edges": [10, 50, 95], "step": 1, "fine": 5}
        assert attribute(house, "age") == expected
        run(house, "schema", "set", "age", "--fine", "", "--points", "20")
        assert attribute(house, "age") == {
            "name": "age",
            "edges": [10, 50, 95],
            "step": 1,
            "points": [20],
        }
        run(house, "schema", "set", "age", "--labels", "a,b")
        assert attribute(house, "age") == {"name": "age", "labels": ["a", "b"]}

    def test_a_zone_and_a_time_of_day(self, house):
        """New edges of the same kind keep them, and others end them."""
        left = {"name": "left", "dates": ["2013-01-01", "2013-12-31"], "step": 1}
        run(house, "schema", "set", "left", "--new", "--edges", "2013-01-01,2013-12-31")
        run(house, "schema", "set", "left", "--zone", "Asia/Tokyo")
        assert attribute(house, "left") == left | {"zone": "Asia/Tokyo"}
        run(house, "schema", "set", "left", "--edges", "2013-01-01,2014-12-31")
        left["dates"] = ["2013-01-01", "2014-12-31"]
        assert attribute(house, "left") == left | {"zone": "Asia/Tokyo"}
        hour = {"name": "hour", "edges": ["00:00", "12:00", "24:00"], "time_of": "left"}
        words = ["--time-of", "left", "--edges", "00:00,12:00,24:00"]
        run(house, "schema", "set", "hour", "--new", *words)
        assert attribute(house, "hour") == hour
        run(
            house,
            "schema",
            "set",
            "hour",
            "--edges",
            "06:00, 24:00",
            "--points",
            "12:30",
            "--fine",
            "60",
        )
        hour |= {"edges": ["06:00", "24:00"], "points": ["12:30"], "fine": 60}
        assert attribute(house, "hour") == hour
        assert "time_of names 'left', which has no zone" in refused(
            house, "schema", "set", "left", "--zone", ""
        )
        run(house, "schema", "set", "hour", "--leave-out")
        run(house, "schema", "set", "left", "--zone", "")
        assert attribute(house, "left") == left
        run(house, "schema", "set", "left", "--zone", "UTC")
        run(house, "schema", "set", "left", "--labels", "a,b")
        assert attribute(house, "left") == {"name": "left", "labels": ["a", "b"]}

    def test_a_step_is_proposed_where_there_is_none(self, house):
        assert "schema set age --step 1" in run(house, "schema", "set", "age", "--missing")
        assert "--step" not in run(house, "schema", "set", "age", "--step", "1").split("review")[0]

    def test_comments_order_and_the_rest_stay(self, house):
        schema = house.folder / "schema.toml"
        text = schema.read_text().replace('name = "sex"', 'name = "sex"  # as asked')
        schema.write_text(f"# ours\n{text}")
        output = run(house, "schema", "set", "sex", "--add-label", "x")
        expected = f"# ours\n{text}".replace('["female", "male"]', '["female", "male", "x"]')
        assert schema.read_text() == expected.replace("reviewed = true", "reviewed = false")
        assert '+ labels = ["female", "male", "x"]' in output
        assert "gencard-controller schema review --dataset survey" in output

    @pytest.mark.parametrize(
        ("words", "problem"),
        [
            (["sexx", "--ordered"], "did you mean 'sex'"),
            (["sex"], "nothing to change"),
            (["sex", "--labels", "a,a"], "repeat"),
            (["sex", "--decimals", "1"], "allowed only with edges"),
            (["age", "--edges", "9,1"], "edges must increase"),
            (["age", "--step", "1", "--points", "100"], "one of points lies outside the edges: 100"),
            (["age", "--step", "a cent"], "is not a number"),
            (["age", "--points", "20"], "points needs a step"),
            (["sex", "--above"], "above is allowed only with edges or dates"),
            (["age", "--edges", "1,x"], "'x' is neither a number nor a date"),
            (["age", "--edges", "1,2", "--labels", "x"], "cannot be given together"),
            (["sex", "--new", "--labels", "x"], "is already in the schema"),
            (["sex", "--ordered", "--dataset", "nope"], "there are survey"),
            (["sex", "--zone", "UTC"], "zone is allowed only with dates"),
            (
                ["age", "--edges", "2013-01-01,2013-12-31", "--zone", "Tokyo"],
                "zone is not a name of the IANA database",
            ),
            (["age", "--edges", "00:00,12:00"], "times of day, which need time_of"),
            (["age", "--edges", "00:00,12:00", "--time-of", "sex"], "names 'sex', which has no zone"),
            (
                ["age", "--edges", "00:00,12:00", "--time-of", "nothing"],
                "time_of names an attribute that the schema does not have",
            ),
        ],
    )
    def test_what_would_not_be_valid_is_not_written(self, house, words, problem):
        assert problem in refused(house, "schema", "set", *words)

    def test_a_review_shows_the_schema_and_asks(self, house):
        run(house, "schema", "set", "sex", "--description", "As stated")
        words = ["schema", "review", "--config", str(house.settings_file)]
        assert CliRunner().invoke(app, words, input="n\n").exit_code == 1
        assert attribute(house, "sex")["description"] == "As stated"
        reviewed = run(house, "schema", "review", "--yes", "--declared-by", "An office")
        assert "As stated" in reviewed
        assert "Declared by: An office" in reviewed
        table = tomllib.loads((house.folder / "schema.toml").read_text())
        assert (table["reviewed"], table["declared_by"]) == (True, "An office")


class TestDatasets:
    @pytest.fixture
    def file(self, tmp_path):
        path = tmp_path / "second.csv"
        pd.DataFrame({"a": ["x", "y"] * 20, "b": [1.5, 2] * 20}).to_csv(
            path, sep=";", decimal=",", index=False
        )
        return path

    def test_add_list_remove(self, house, file):
        before = house.settings_file.read_text()
        assert "delimiter ';'" in run(house, "dataset", "add", "second", file)
        text = house.settings_file.read_text()
        assert all(line in text for line in before.splitlines())
        assert "# Counts are released only with noise." in text
        first, second = json.loads(run(house, "dataset", "list", "--json"))
        assert (first["name"], first["reviewed"]) == ("survey", True)
        assert (second["records"], second["reviewed"]) == (str(file), False)
        assert "rho 0.1" in second["caps"]
        assert Settings.load(house.settings_file).datasets[1].format.value.decimal == ","
        output = run(house, "dataset", "remove", "second")
        assert str(file) in output
        assert tomllib.loads(house.settings_file.read_text()) == tomllib.loads(before)
        assert file.exists()
        assert (house.folder / "second-schema.toml").exists()

    @pytest.mark.parametrize(
        ("name", "problem"),
        [("survey", "is taken"), ("../x", "must be a letter"), ("Second", "must be a letter")],
    )
    def test_a_name_that_cannot_be_is_refused(self, house, file, name, problem):
        assert problem in refused(house, "dataset", "add", name, file)
        assert "there is no file" in refused(house, "dataset", "add", "third", "typo.csv")

    def test_a_file_without_records_leaves_nothing(self, house, tmp_path):
        (tmp_path / "empty.csv").write_text("a,b\n")
        refused(house, "dataset", "add", "empty", tmp_path / "empty.csv")
        assert not (house.folder / "empty-schema.toml").exists()

    def test_one_with_open_cards_stays_unless_forced(self, tmp_path, monkeypatch):
        house = build(tmp_path, survey(60)).start()
        try:
            with house.analyst() as ana:
                card = ana.propose("survey", [("sex", "age")], purpose="A test", rows=10)
            problem = refused(house, "dataset", "remove", "survey")
            assert "has 1 cards that have not ended" in problem
            assert card.name in problem
            with house.analyst() as ana:
                ana.propose("survey", [("sex", "age")], purpose="Another", rows=10).terminate()
            monkeypatch.setattr(database, "LARGEST_PAGE", 1)  # which leaves the open card out
            assert "has 1 cards that have not ended" in refused(house, "dataset", "remove", "survey")
            assert len(json.loads(run(house, "emergency", "cards", "--json"))) == 2
            run(house, "dataset", "remove", "survey", "--force")
            assert Settings.load(house.settings_file).datasets == ()
        finally:
            house.stop()


class TestCaps:
    def test_set_of_all_of_each_and_of_one(self, house):
        text = house.settings_file.read_text().replace("[datasets.caps]", "[datasets.caps]  # ours")
        house.settings_file.write_text(text)
        run(house, "caps", "set", "survey", "--rho", "0.7")
        run(house, "caps", "set", "survey", "--each-project", "--epsilon", "2", "--statistics", 70)
        run(house, "caps", "set", "survey", "--project", "pilot", "--rho", "0.25")
        run(house, "caps", "set", "survey", "--analyst", "ana", "--statistics", 7)
        caps = tomllib.loads(house.settings_file.read_text())["datasets"][0]["caps"]
        assert caps["dataset"]["rho"] == "0.7"
        assert caps["project"] == {"statistics": 70, "epsilon": "2"}
        assert caps["projects"] == {"pilot": {"statistics": 70, "epsilon": "2", "rho": "0.25"}}
        assert caps["analysts"] == {"ana": {"statistics": 7}}
        assert "[datasets.caps]  # ours" in house.settings_file.read_text()
        assert "analyst ana" in run(house, "caps")

    @pytest.mark.parametrize(
        ("words", "problem"),
        [
            (["--rho", "many"], "caps.dataset.rho: is not valid"),
            (["--rho", "-1"], "zero or more"),
            (["--statistics", "-1"], "must be 0 or more"),
            ([], "give --rho, --epsilon or --statistics"),
            (
                ["--rho", "1", "--analyst", "anna"],
                "nobody is enrolled as 'anna'; enrolled: ana, aud, sam",
            ),
            (["--rho", "1", "--analyst", "ana", "--each-project"], "give one"),
        ],
    )
    def test_what_would_not_be_valid_is_not_written(self, house, words, problem):
        assert problem in refused(house, "caps", "set", "survey", *words)


class TestPeople:
    def test_own_names_at_init(self, tmp_path):
        survey(60).to_csv(tmp_path / "survey.csv", index=False)
        words = ["--analyst", "bea", "--analyst", "cem", "--steward", "otto", "--project", "wages"]
        made = tmp_path / "house"
        result = CliRunner().invoke(
            app, ["init", str(made), "--data", str(tmp_path / "survey.csv"), *words]
        )
        assert "could sign in" in result.output
        people = {
            one.identity.name: one.identity for one in read_identities(made / "identities").values()
        }
        assert {name: one.role for name, one in people.items()} == {
            "bea": Role.ANALYST,
            "cem": Role.ANALYST,
            "otto": Role.STEWARD,
        }
        assert {one.project for one in people.values()} == {"wages"}
        assert (made / "people" / "bea" / "signing_key.pem").is_file()

    def test_add_by_a_request(self, house, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        house.edit({"address": '"localhost:7443"'})
        words = ["person", "add", "dora", "--role", "auditor", "--project", "pilot"]
        assert "dora must run `gencard enrol dora`" in refused(house, *words)
        request = new_request(tmp_path / "dora", "dora")
        file = ["--request", request.file, "--fingerprint", request.fingerprint]
        assert "is 'dora' in" in refused(house, "person", "add", "eve", *words[3:], *file)
        run(house, *words, *file)
        install_answer(tmp_path / "dora", (tmp_path / "dora-answer.json").read_bytes())
        people = json.loads(run(house, "person", "list", "--json"))
        (dora,) = [one for one in people if one["name"] == "dora"]
        assert (dora["role"], dora["project"], dora["state"]) == ("auditor", "pilot", "enabled")
        assert dora["certificate until"] > "2026"

    def test_keys_may_be_made_here_for_trials(self, house):
        house.edit({"address": '"localhost:7443"'})
        output = run(house, "person", "add", "finn", "--role", "analyst", "--keys-here")
        assert "for trials only" in output
        assert (house.person("finn") / "signing_key.pem").is_file()

    @pytest.mark.parametrize("name", ["nobody", "../controller", ""])
    def test_nobody_can_be_disabled_by_a_path(self, house, name):
        assert "nobody is enrolled" in refused(house, "person", "disable", name)


def test_settings_that_are_no_toml_are_named(house):
    house.settings_file.write_text("[x")
    assert "controller.toml: is not valid TOML" in refused(house, "caps", "set", "survey", "--rho", "1")


def test_a_link_stays_one_and_the_mode_too(house, tmp_path):
    real = tmp_path / "real.toml"
    real.write_bytes((house.folder / "schema.toml").read_bytes())
    real.chmod(0o640)
    link = house.folder / "schema.toml"
    link.unlink()
    link.symlink_to(real)
    run(house, "schema", "set", "sex", "--ordered")
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert attribute(house, "sex")["ordered"]
    with pytest.raises(InvalidInputError):
        Settings.load(tmp_path / "nope.toml")
