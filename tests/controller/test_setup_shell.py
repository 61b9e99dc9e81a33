"""init and check, as a newcomer meets them."""

import re
import socket
from importlib.metadata import version

import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.client import Analyst
from gencard.controller.people.keys import write_new
from gencard.controller.settings import Settings
from gencard.controller.shell import run_shell
from gencard.controller.shell.main import app
from gencard.controller.wiring.serving import serve
from gencard.core.errors import InvalidInputError


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*words):
    with pytest.raises(InvalidInputError) as caught:
        app([str(word) for word in words], standalone_mode=False)
    return str(caught.value)


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "a survey.csv"
    pd.DataFrame({"sex": ["f", "m"] * 20, "name": [f"Ann {n}" for n in range(40)]}).to_csv(path)
    return path


def test_the_next_commands_can_be_copied(tmp_path, records, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    said = run("init", tmp_path / "the house", "--data", records)
    settings = tmp_path / "the house" / "controller.toml"
    assert f"gencard-controller check --config '{settings}'\n" in said
    assert f"gencard-controller serve --config '{settings}'\n" in said
    assert "left out" in said


def test_the_address_stands_wherever_it_is_used(tmp_path, records):
    """127.0.0.2 is this machine, too, and no certificate names it unasked."""
    with socket.create_server(("127.0.0.2", 0)) as free:
        address = f"127.0.0.2:{free.getsockname()[1]}"
    house = tmp_path / "house"
    run("init", house, "--data", records, "--analyst", "ana", "--steward", "sam", "--address", address)
    assert Settings.load(house / "controller.toml").server.address == address
    for name in ("ana", "sam"):
        assert f'address = "{address}"' in (house / "people" / name / "connection.toml").read_text()
    schema = house / "schema.toml"
    schema.write_text(schema.read_text().replace("reviewed = false", "reviewed = true"))
    controller = serve(Settings.load(house / "controller.toml"))
    try:
        with Analyst.connect(folder=house / "people" / "ana") as analyst:
            assert [entry.id for entry in analyst.datasets()] == ["a-survey"]
    finally:
        controller.stop(1)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("localhost", "is not of the form host:port. Write a host and a port up to 65535"),
        ("localhost:70000", "is not of the form host:port"),
        ("d\u00e4ten.example:7443", "ASCII"),
        ("two words:7443", "ASCII"),
        ("0.0.0.0:7443", "names no host to connect to"),
    ],
)
def test_an_address_that_nobody_could_use_makes_nothing(tmp_path, records, address, problem):
    words = ("init", tmp_path / "house", "--data", records, "--analyst", "ana", "--address", address)
    assert problem in refused(*words)
    assert not (tmp_path / "house").exists()


def test_a_service_may_listen_everywhere_where_nobody_is_enrolled_yet(tmp_path, records):
    run("init", tmp_path / "house", "--data", records, "--address", "0.0.0.0:7000")
    assert Settings.load(tmp_path / "house" / "controller.toml").server.address == "0.0.0.0:7000"


def test_records_that_are_not_there_are_named(tmp_path, records):
    assert "there is no file" in refused("init", tmp_path / "new", "--data", tmp_path / "typo.csv")
    assert not (tmp_path / "new").exists()
    run("init", tmp_path / "house", "--data", records)
    records.unlink()
    said = refused("check", "--config", tmp_path / "house" / "controller.toml")
    assert said.startswith("datasets/a-survey: data: there is no file")


def test_a_policy_is_checked_before_it_is_served(tmp_path, records):
    run("init", tmp_path / "house", "--data", records)
    settings = tmp_path / "house" / "controller.toml"
    said = run("check", "--config", settings)
    assert "not reviewed" in said
    assert "limits.records" not in said
    settings.write_text(re.sub(r"(?m)^\[limits\].*$", r"\g<0>\nrecords = 39", settings.read_text()))
    said = run("check", "--config", settings)
    assert "a-survey: more records than limits.records, 39." in " ".join(said.split())
    forbidden = settings.read_text().replace("forbidden = []", 'forbidden = [["sex", "agee"]]')
    settings.write_text(forbidden)
    assert "policy.forbidden" in refused("check", "--config", settings)


def test_what_serve_would_stop_at_is_said_by_check(tmp_path, records):
    house = tmp_path / "house"
    run("init", house, "--data", records)
    for name, field in (("certificate", "certificate"), ("key", "key")):
        file = house / "server" / f"{name}.pem"
        kept = file.read_bytes()
        file.unlink()
        assert refused("check", "-c", house / "controller.toml").startswith(f"server.{field}: ")
        write_new(file, kept, private=name == "key")
    authority = house / "authority" / "certificate.pem"
    authority.write_text("no certificate")
    assert refused("check", "-c", house / "controller.toml") == (
        "server.authority: is not a certificate in PEM. Correct the named value, then try again."
    )


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('kind = "built_in"\nbox = "nope"', "black_boxes/mine: black_box: must be one of aim, "),
        (
            'kind = "built_in"\nbox = "mst"\nparameters = { epsilon = "x" }',
            "black_boxes/mine: epsilon must",
        ),
        ('kind = "program"\nfolder = "nope"\ncommand = ["./x"]', "black_boxes/mine: "),
    ],
)
def test_a_black_box_that_cannot_run_is_named(tmp_path, records, table, said):
    run("init", tmp_path / "house", "--data", records)
    settings = tmp_path / "house" / "controller.toml"
    settings.write_text(settings.read_text() + f'\n[[black_boxes]]\nname = "mine"\n{table}\n')
    assert refused("check", "-c", settings).startswith(said)


class TestMeasures:
    """A measure that the policy offers can be taken of some release, or nothing is served."""

    DECLARED = 'holdout = "{holdout}"\nmeasures = {{ keys = ["sex"], target = "work" }}\n'

    @pytest.fixture
    def house(self, tmp_path):
        """Settings of a survey; beside their folder, people whom it did not ask."""
        people = pd.DataFrame({"sex": ["f", "m"] * 20, "work": ["yes", "no", "no", "yes"] * 10})
        people.to_csv(tmp_path / "survey.csv", index=False)
        people[:30].to_csv(tmp_path / "others.csv", index=False)
        run("init", tmp_path / "house", "--data", tmp_path / "survey.csv")
        return tmp_path / "house" / "controller.toml"

    def edit(self, settings, policy, declared):
        holdout = settings.parent.parent / "others.csv"
        schema = 'schema = "schema.toml"\n'
        text = re.sub("(?m)^forbidden = .*", "", settings.read_text())
        text = re.sub("(?m)^mechanisms = .*", 'mechanisms = ["exact", "gaussian"]', text)
        text = text.replace(schema, schema + declared.format(holdout=holdout))
        settings.write_text(text.replace("largest_order =", f"{policy}\nlargest_order =", 1))

    @pytest.mark.parametrize(
        ("policy", "declared", "said"),
        [
            ('measures = ["tables", "dcr"]', "", "'dcr', which needs a holdout."),
            ('measures = ["inference"]', "", "'inference', which needs a holdout and measures.target, "),
            ('measures = ["disclosure"]', 'measures = {{ target = "work" }}\n', "needs measures.keys, "),
            ('measures = ["gap"]', DECLARED, "needs measures.gap, "),
            ('measures = ["inference"]\nforbidden = [["work"]]', DECLARED, "needs measures.target, "),
            (
                'measures = ["tables"]\ntransform = { rounding = 5 }',
                "",
                "exact counts, without rounding",
            ),
        ],
    )
    def test_what_one_needs_is_named(self, house, policy, declared, said):
        self.edit(house, policy, declared)
        error = refused("check", "--config", house)
        assert error.startswith("datasets/survey: policy.measures: names '")
        assert said in error
        with pytest.raises(InvalidInputError, match=r"policy\.measures"):
            serve(Settings.load(house))

    def test_where_all_is_there_it_is_served(self, house):
        offered = ("dcr", "tables", "disclosure", "inference", "predictions")
        self.edit(house, f"measures = {list(offered)}", self.DECLARED)
        run("check", "--config", house)


def test_a_certificate_that_is_not_there_is_named(tmp_path, records):
    run("init", tmp_path / "house", "--data", records)
    said = refused("renew", tmp_path / "typo.pem", "-c", tmp_path / "house" / "controller.toml")
    assert said.startswith(f"typo.pem: there is no file {tmp_path / 'typo.pem'}. ")


def test_which_file_does_not_keep_to_the_schema(tmp_path, records, capsys):
    others = tmp_path / "others.csv"
    pd.read_csv(records).assign(sex="unheard of").to_csv(others)
    run("init", tmp_path / "house", "--data", records)
    settings = tmp_path / "house" / "controller.toml"
    words = 'schema = "schema.toml"'
    settings.write_text(settings.read_text().replace(words, f'{words}\nholdout = "{others}"'))
    assert run_shell(lambda: app(["check", "-c", str(settings)], standalone_mode=False)) == 1
    assert "does not declare. In datasets/a-survey: " in capsys.readouterr().err


def test_a_steward_is_sent_to_his_own_command(tmp_path, records, capsys):
    run("init", tmp_path / "house", "--data", records)
    words = ["emergency", "revoke", "nope", "-c", str(tmp_path / "house" / "controller.toml")]
    assert run_shell(lambda: app(words, standalone_mode=False)) == 1
    assert "→ List cards with `gencard-controller emergency cards`" in capsys.readouterr().err
    assert run("--version") == f"gencard {version('gencard')}\n"


def test_empty_rows_of_a_sheet_are_stated(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["sex", "age"], *([["f", 20], ["m", 30]] * 20), [], [], ["f", 40]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    note = "Each of 2 empty rows is a record; the first is row 42."
    assert note in run("init", tmp_path / "house", "--data", tmp_path / "a.xlsx")
    assert f"a: {note}" in run("check", "--config", tmp_path / "house" / "controller.toml")


def test_empty_lines_of_a_text_are_stated(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sex,age\n" + "f,20\nm,30\n" * 9 + "\nf,20\n\n\nm,30\n\n")
    note = "Each of 3 empty lines is no record; the first is line 20."
    assert note in run("init", tmp_path / "house", "--data", path)
