"""The shell, command by command, against the small controller."""

import ast
import csv
import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from typer.testing import CliRunner

from gencard import core, wire
from gencard.analysis import formulas
from gencard.boxes.reference import Honest
from gencard.client import answers, checking
from gencard.client.common import formats as limits
from gencard.client.shell import negotiation, terminal
from gencard.client.shell.main import app
from gencard.core import errors
from gencard.core.generators.family import ipf
from gencard.shell import as_typed

PAIRS = ["--marginal", "sex,health", "--marginal", "age, health"]


@pytest.fixture
def run(people, connection_toml, monkeypatch):
    monkeypatch.setenv("GENCARD_CONNECTION", str(people / "ana"))
    monkeypatch.setenv("COLUMNS", "200")
    runner = CliRunner()

    def call(*words, code=0, typed=None):
        result = runner.invoke(app, [str(word) for word in words], input=typed)
        assert result.exit_code == code, result.output + result.stderr
        return result

    return call


@pytest.fixture
def name(run):
    proposed = run("propose", "survey", *PAIRS, "--purpose", "To see", "--accept", "--json")
    return json.loads(proposed.stdout)["name"]


class TestCatalogue:
    def test_datasets(self, run):
        assert "d0" in run("datasets").stdout
        assert [entry["name"] for entry in json.loads(run("datasets", "--json").stdout)] == [
            "d0",
            "d1",
            "d2",
        ]

    def test_one_dataset(self, run):
        shown = run("datasets", "survey").stdout
        for words in (
            "<b>A survey</b>",
            "children",
            "0, 1, 2, missing",
            "[18, 65)",
            "at most 1,000 exact",
            "2,000, as declared",
            "empty, -9",
            "well: good, fair",
        ):
            assert words in shown
        document = json.loads(run("datasets", "survey", "--json").stdout)
        assert document["policy"]["largestOrder"] == 2
        assert len(document["schema"]["attributes"]) == 4
        assert document["records"] == 2_000
        assert document["readings"] == {
            "children": {"absent": ["-9"]},
            "health": {"groups": {"well": ["good", "fair"]}},
        }

    def test_generators(self, run):
        shown = run("generators").stdout
        for words in (
            "by-construction",
            "any marginals",
            "all cells: 1,048,576 of 64 bytes",
            "leaky",
            "tolerance 0.1",
        ):
            assert words in shown
        ipf, box = json.loads(run("generators", "--json").stdout)
        assert (ipf["name"], ipf["tier"], ipf["cell_bytes"]) == ("ipf", "by-construction", 64)
        assert (box["needs"], box["most_cells"]) == ("", 0)


class TestNegotiation:
    def test_propose_shows_what_changed_and_what_is_next(self, run):
        both = ("--marginals-of-order", 3, "--marginal", "sex")
        shown = run("propose", "survey", *both, "--purpose", "x", code=1)
        assert "--marginals-of-order" in shown.stderr
        shown = run(
            "propose", "survey", *PAIRS, "--marginal", "sex,age,health", "--purpose", "[bold]x[/]"
        ).stdout
        for words in (
            "ORDER_TOO_HIGH",
            "sex, age, health",
            "12 exact statistics",
            "→ gencard accept datasets/survey/cards/",
            "[bold]x[/]",
        ):
            assert words in shown

    def test_price_leaves_nothing(self, run, world):
        shown = run(
            "price", "survey", "--marginals-of-order", 2, "--attributes", "sex,age,health"
        ).stdout
        assert "priced only" in shown
        assert world.cards == {}
        priced = json.loads(run("price", "survey", *PAIRS, "--json").stdout)
        assert priced["price"]["statistics"] == "12"
        assert "effects" not in priced
        about = ("--formula", "health ~ children", "--json")
        document = json.loads(run("price", "survey", *PAIRS, *about).stdout)
        assert document.pop("effects")["lacking"] == "children × health"
        assert document == priced

    def test_cards_counter_accept_terminate(self, run, world):
        document = json.loads(run("propose", "survey", *PAIRS, "--purpose", "x", "--json").stdout)
        name = document["name"]
        assert name in run("cards").stdout
        assert json.loads(run("cards", "--json").stdout)[0]["state"] == "offered"
        assert json.loads(run("counter", name, "--rows", 77, "--json").stdout)["terms"]["rows"] == "77"
        countered = run("counter", name, "--marginal", "sex", "--json").stdout
        assert json.loads(countered)["terms"]["marginals"] == [["sex"]]
        assert "agreed" in run("accept", name).stdout
        assert "agreed" in run("cards", name).stdout
        assert "terminated" in run("terminate", name).stdout

    @pytest.mark.parametrize(
        ("answer", "words", "state"),
        [("n", (), "offered"), ("y", (), "agreed"), ("n", ("--yes",), "agreed")],
    )
    def test_a_changed_offer_is_shown_before_it_is_signed(
        self, run, world, monkeypatch, answer, words, state
    ):
        monkeypatch.setattr(negotiation, "is_interactive", lambda: True)
        wide = ("--marginal", "sex", "--marginal", "sex,health,age")
        document = json.loads(run("propose", "survey", *wide, "--purpose", "x", "--json").stdout)
        signed = state == "agreed"
        result = run("accept", document["name"], *words, code=int(not signed), typed=f"{answer}\n")
        assert result.stdout.index("sex, age, health") < result.stdout.find("Sign this offer?") or words
        assert world.cards[document["name"]].state == state


class TestSynthesis:
    @pytest.mark.parametrize("file", ["rows.csv", "rows.parquet", "rows.dta", "rows.sav", "rows.xlsx"])
    def test_rows_alone(self, run, name, tmp_path, file):
        output = tmp_path / "new" / file
        shown = run("generate", name, "--rows", 40, "--seed", 3, "-o", output).stdout
        assert "SHA-256" in shown
        assert [path.name for path in output.parent.iterdir()] == [file]

    @pytest.mark.parametrize("file", ["rows.dta", "rows.sav", "rows.xlsx"])
    def test_files_that_verify_by_values(self, run, name, tmp_path, file):
        kept = tmp_path / "kept"
        run("generate", name, "--rows", 40, "-o", kept)
        run("generate", name, "--rows", 40, "-o", kept / file)
        (kept / "rows.parquet").unlink()
        checks = json.loads(run("verify", kept, "--json").stdout)
        (detail,) = (check["detail"] for check in checks if check["what"] == f"Rows {file}")
        assert detail.endswith(", compared by values")
        assert f"{file} was compared by values" in run("replay", kept).stdout
        run("generate", name, "--rows", 40, "--values", "levels", "--replace", "-o", kept / file)
        assert "Everything agrees" in run("verify", kept).stdout
        run("generate", name, "--rows", 40, "--seed", 1, "--replace", "-o", kept / file)
        assert f"Rows {file}" in run("verify", kept, code=1).stdout

    @pytest.mark.parametrize("file", ["rows.xsl", "rows.json", "rows.csv.gz"])
    def test_another_ending_is_refused_before_anything_is_generated(
        self, run, name, world, tmp_path, file
    ):
        made = len(world.releases)
        shown = run("generate", name, "--rows", 40, "-o", tmp_path / "new" / file, code=1).stderr
        assert ".csv, .parquet, .dta, .sav or .xlsx" in " ".join(shown.split())
        assert list(tmp_path.iterdir()) == []
        assert len(world.releases) == made

    def test_what_a_format_cannot_hold_is_refused_before_anything_is_generated(
        self, run, name, world, tmp_path, monkeypatch
    ):
        made = len(world.releases)
        monkeypatch.setattr(limits, "_STATA_WORDS", frozenset(["sex"]))
        shown = run("generate", name, "--rows", 40, "-o", tmp_path / "rows.dta", code=1).stderr
        assert "attribute 'sex': the name is a word of Stata" in " ".join(shown.split())
        assert "Write .csv, .parquet, .sav or .xlsx instead" in " ".join(shown.split())
        assert list(tmp_path.iterdir()) == []
        assert len(world.releases) == made

    @pytest.mark.parametrize(("words", "ages"), [((), "0123456789"), (("--values", "levels"), "[")])
    def test_ages_are_numbers_or_intervals(self, run, name, tmp_path, words, ages):
        output = tmp_path / "rows.csv"
        run("generate", name, "--rows", 40, "-o", output, *words)
        lines = list(csv.DictReader(output.open(newline="")))
        assert len(lines) == 40
        assert all(line["age"][0] in ages for line in lines)

    @pytest.mark.parametrize("values", ["numbers", "levels", "midpoints"])
    def test_the_first_rows_are_shown(self, run, name, tmp_path, values, monkeypatch):
        monkeypatch.setattr(terminal.console, "width", 200)
        output = tmp_path / "rows.csv"
        shown = run("generate", name, "--rows", 40, "-o", output, "--values", values).stdout
        assert "The first 5 of 40 rows:" in shown
        heads, *lines = csv.reader(output.open(newline=""))
        for cells in (heads, *lines[:5]):
            assert any(all(cell in line for cell in cells) for line in shown.splitlines()), cells

    def test_a_folder_that_verifies_and_replays(self, run, name, tmp_path):
        kept = tmp_path / "kept"
        document = json.loads(run("generate", name, "--rows", 40, "-o", kept, "--json").stdout)
        assert document["Output"] == str(kept)
        assert "Everything agrees" in run("verify", kept).stdout
        assert "Every byte agrees" in run("replay", kept).stdout
        parts = ("--card", kept / "card.json", "--psi", kept / "psi.json")
        parts += ("--receipt", kept / "receipt.json", "--data", kept / "rows.parquet")
        assert "Every byte agrees" in run("replay", *parts).stdout

    def test_a_release_is_not_written_over(self, run, name, tmp_path, world):
        run("generate", name, "--rows", 40, "-o", tmp_path / "kept")
        before, made = (tmp_path / "kept/rows.parquet").read_bytes(), len(world.releases)
        for output in (tmp_path / "kept", tmp_path / "kept/rows.parquet"):
            shown = run("generate", name, "--rows", 40, "--seed", 1, "-o", output, code=1).stderr
            assert "already exists" in shown
            assert "--replace" in shown
        assert (tmp_path / "kept/rows.parquet").read_bytes() == before
        assert len(world.releases) == made
        run("generate", name, "--rows", 40, "--seed", 1, "-o", tmp_path / "kept", "--replace")
        assert "Everything agrees" in run("verify", tmp_path / "kept").stdout

    def test_an_auditor_lacks_the_analysts_key_and_is_told_so(self, run, name, tmp_path, people):
        run("generate", name, "--rows", 40, "-o", tmp_path / "kept")
        shown = run("verify", tmp_path / "kept", "-c", people / "aud").stdout
        assert "All files present agree. Not checked: Analyst's signature" in shown
        assert "--analyst-key FILE" in shown
        key = people / "aud/signing_key.pub"
        shown = run("verify", tmp_path / "kept", "-c", people / "aud", "--analyst-key", key, code=1)
        assert "Do not use these data" in shown.stdout

    def test_keys_by_name_need_no_connection(self, run, name, tmp_path, people, monkeypatch):
        kept = tmp_path / "kept"
        run("generate", name, "--rows", 40, "-o", kept)
        signing = load_pem_private_key((people / "ana/signing_key.pem").read_bytes(), None)
        own = tmp_path / "ana.pub"
        public = signing.public_key()
        own.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        monkeypatch.delenv("GENCARD_CONNECTION")
        monkeypatch.chdir(tmp_path)
        for command in ("verify", "replay"):
            shown = run(command, kept, code=1).stderr
            assert "name your connection folder with -c" in shown
            assert "--controller-key FILE" in shown
        keys = ["--controller-key", people / "ana/controller_card_key.pub", "--analyst-key", own]
        assert "Every byte agrees" in run("replay", kept, *keys).stdout
        assert "--log-key FILE" in run("verify", kept, *keys, code=1).stdout
        keys += ["--log-key", people / "ana/log_key.pub"]
        assert "Everything agrees" in run("verify", kept, *keys).stdout

    def test_what_nobody_signs_is_said_to_be_so(self, run, tmp_path):
        (tmp_path / "leak.json").write_text('{"verdict": "leakage"}')
        shown = run("verify", tmp_path / "leak.json", code=1).stderr
        assert "contains no signed document" in shown
        assert "name the folder of a release" in shown

    def test_a_damaged_file_is_no_file_of_others(self, run, name, tmp_path):
        kept = tmp_path / "kept"
        run("generate", name, "--rows", 40, "-o", kept)
        (kept / "receipt.json").write_bytes((kept / "receipt.json").read_bytes()[:-9])
        shown = run("verify", kept, code=1).stdout
        assert "damaged" in shown
        assert "damaged" in run("replay", kept, code=1).stderr

    def test_what_does_not_verify(self, run, name, tmp_path):
        run("generate", name, "--rows", 40, "-o", tmp_path / "a")
        run("generate", name, "--rows", 40, "--seed", 1, "-o", tmp_path / "b")
        (tmp_path / "a/rows.parquet").write_bytes((tmp_path / "b/rows.parquet").read_bytes())
        shown = run("verify", tmp_path / "a", code=1).stdout
        assert re.search(r"Do not use these data: *\n?Rows rows.parquet", shown)
        found = json.loads(run("verify", tmp_path / "a", "--json", code=1).stdout)
        assert [check["what"] for check in found if check["outcome"] == "failed"] == [
            "Rows rows.parquet"
        ]
        assert "the rows in rows.parquet" in run("replay", tmp_path / "a", code=1).stderr
        assert "name a folder" in run("replay", code=1).stderr
        shown = run("replay", tmp_path / "b", "--data", tmp_path / "a/card.json", code=1).stderr
        assert "INVALID_INPUT" in shown
        run("generate", name, "--rows", 40, "-o", tmp_path / "c.parquet")
        assert "Every byte agrees" in run("replay", tmp_path / "b").stdout
        parts = [
            tmp_path / "b" / part for part in ("card.json", "psi.json", "receipt.json", "schema.json")
        ]
        shown = run("replay", *parts, "--data", tmp_path / "c.parquet", code=1).stderr
        assert "VERIFICATION" in shown

    def test_nothing_is_left_where_the_rows_were_wrong(self, run, name, tmp_path, world):
        def change(part):
            if part.chunk.HasField("trailer"):
                part.chunk.trailer.digest = "00" * 32
            return part

        world.faults.change["StreamRows"] = change
        assert (
            "VERIFICATION" in run("generate", name, "--rows", 4, "-o", tmp_path / "a.csv", code=1).stderr
        )
        assert list(tmp_path.iterdir()) == []

    def test_psi(self, run, name, tmp_path):
        shown = json.loads(run("psi", name).stdout)
        assert shown["attributes"] == ["sex", "age", "health"]
        run("psi", name, "-o", tmp_path / "psi.json")
        assert json.loads((tmp_path / "psi.json").read_text()) == shown


class TestAudit:
    def test_from_afar(self, run, name, tmp_path, world):
        honest = Honest(ipf(), [("sex", "health"), ("age", "health")])
        world.box = lambda dataset, rows, seed: honest(dataset, rows, seed=seed)
        page, report = tmp_path / "a.html", tmp_path / "a.json"
        (tmp_path / "kept.csv").touch()
        refused = run("audit", name, "--html", tmp_path / "kept.csv" / "a.html", code=1)
        assert refused.stderr.startswith("INVALID_INPUT")
        assert not refused.stdout
        shown = run("audit", name, "--runs", 6, "--html", page, "--report", report).stdout
        assert "No evidence of leakage" in shown
        assert page.read_text().startswith("<!doctype html>")
        assert json.loads(report.read_text())["verdict"] == "no-evidence"

    def test_an_audit_that_is_interrupted_says_what_became_of_it(self, run, name, world, monkeypatch):
        def interrupted(connection, operation, progress):
            raise KeyboardInterrupt

        world.pending = 3
        monkeypatch.setattr("gencard.client.connection.connection._wait_to_end", interrupted)
        stopped = run("audit", name, "--where", "card", code=130)
        assert "the controller was told to cancel operations/" in stopped.stderr
        assert "--where card --resume operations/" in stopped.stderr

    def test_at_the_card(self, run, name, tmp_path):
        signed = tmp_path / "verdict.json"
        at_card = ("audit", name, "--where", "card")
        found = json.loads(run(*at_card, "--attestation", signed, "--json").stdout)
        assert found["Records"] == "the real records of the card"
        assert "payload" in json.loads(signed.read_text())
        assert "PERMISSION_DENIED" in run(*at_card, "--html", tmp_path / "a.html", code=1).stderr


class TestAccounts:
    def test_budget(self, run):
        assert "12 exact statistics" in run("budget", "survey").stdout
        assert json.loads(run("budget", "survey", "--json").stdout)["cap"]["statistics"] == "100"
        assert "psi" in run("budget").stdout

    def test_log(self, run, world):
        for entry in "abc":
            world.log(entry)
        shown = run("log", "--entry", 1).stdout
        assert "extends the last checkpoint seen" in shown
        assert world.leaves[1].hex() in shown
        assert json.loads(run("log", "--json").stdout)["size"] == 3
        world.leaves.pop()
        assert "VERIFICATION" in run("log", code=1).stderr


class TestErrors:
    def test_one_line_and_advice(self, run, world):
        world.faults.fail["GetDataset"] = [errors.UnknownAttributeError(attribute="[red]x[/]")]
        shown = run("datasets", "survey", code=1)
        assert "UNKNOWN_ATTRIBUTE  Attribute '[red]x[/]' is not declared" in shown.stderr
        assert "→ Use an attribute of the schema" in shown.stderr
        assert "Traceback" not in shown.output

    def test_no_escape_sequence_reaches_the_terminal(self, run, world):
        def change(answer):
            answer.dataset.title = "\x1b[31mred\x1b]0;title\x07"
            answer.dataset.attributes[0].attribute.description = "\x1b[2J"
            return answer

        world.faults.change["GetDataset"] = change
        shown = run("datasets", "survey").stdout
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert "?[31mred" in shown

    def test_which_version(self, run):
        assert run("--version").stdout == f"gencard {version('gencard')}\n"

    def test_wrong_usage(self, run):
        run("propose", code=2)
        run("cards", "--what", code=2)

    def test_an_empty_folder(self, run, tmp_path):
        shown = run("datasets", "--connection", tmp_path, code=1).stderr
        assert "connection.toml" in shown.replace("\n", "") or "cannot read" in shown

    @pytest.mark.parametrize(
        "words",
        [
            ("generate", "CARD", "--rows", "-3", "--output", "x.csv"),
            ("generate", "CARD", "--rows", "9" * 30, "--output", "x.csv"),
            ("generate", "CARD", "--rows", "3", "--seed", "-1", "--output", "x.csv"),
            ("audit", "CARD", "--where", "card", "--seed", "-1"),
            ("audit", "CARD", "--seed", "9" * 30),
            ("log", "--entry", "-1"),
            ("log", "--entry", "9" * 30),
            ("canaries", "CARD", "--neighbouring", "add-remove", "--rows", "-5"),
            ("canaries", "CARD", "--neighbouring", "add-remove", "--number", "9" * 11),
            ("canaries", "CARD", "--neighbouring", "add-remove", "--records", "9" * 12),
        ],
        ids=" ".join,
    )
    def test_a_number_that_no_message_holds(self, run, name, words, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        shown = run(*(name if word == "CARD" else word for word in words), code=1)
        assert "INVALID_NUMBER" in shown.stderr

    def test_no_locals_in_tracebacks(self):
        assert app.pretty_exceptions_show_locals is False


_PYTHON = re.compile(r"\b[a-z_]+=(?=['\"{]|\s|$|;|,)|\b(?:card|release)\.(?!json)[a-z_]+\b")


def _texts():
    """Texts of errors of analyses, which the shell prints, with their place."""
    for package in (core, formulas, wire, answers, checking):
        for path in sorted(Path(package.__path__[0]).rglob("*.py")):
            tree = ast.parse(path.read_text())
            docs = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
            for one in ast.walk(tree):
                if isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in docs:
                    yield f"{path.name}:{one.lineno}", one.value


def test_errors_name_options_and_commands_as_they_are_typed():
    """Texts of the core are written once, with the options of Python."""
    texts = {place: text for place, text in _texts() if " " in text and "<" not in text}
    named = {place: text for place, text in texts.items() if _PYTHON.search(text)}
    assert len(named) > 5
    typed = {place: as_typed(text) for place, text in named.items()}
    assert {place: text for place, text in typed.items() if _PYTHON.search(text)} == {}
    assert as_typed("Write, for example, rows=1000.") == "Write, for example, --rows 1000."
    assert as_typed("have a run answer it (card.run)") == "have a run answer it (`gencard run`)"


IGNORED = [
    (
        ["propose", "survey", "--purpose", "x", "--marginal", "sex", "--kind", "linear"],
        "without --formula",
    ),
    (
        ["propose", "survey", "--purpose", "x", "--marginal", "sex", "--missing", "drop"],
        "without --formula",
    ),
    (["price", "survey", "--marginal", "sex", "--missing", "level"], "without --formula"),
    (["price", "survey", "--marginal", "sex", "--reviewed-runs", "2"], "without --program"),
    (["propose", "survey", "--purpose", "x", "--marginal", "sex", "--checked-runs", "2"], "--analyses"),
    (["price", "survey", "--marginal", "sex", "--attributes", "age"], "without --marginals-of-order"),
    (["counter", "datasets/a/cards/b", "--attributes", "age"], "without --marginals-of-order"),
    (["accept", "datasets/a/cards/b", "--kind", "linear"], "without --formula"),
    (["plan", "survey", "--kind", "linear"], "without a formula"),
    (["plan", "survey", "--missing", "drop"], "without a formula"),
    (["synthesize", "survey", "--rows", "9", "-o", "x.csv", "--kind", "linear"], "without a formula"),
    (["cards", "datasets/a/cards/b", "--timeout", "5"], "without --wait or --for"),
]


@pytest.mark.parametrize(("words", "problem"), IGNORED, ids=str)
def test_an_option_that_would_be_ignored_is_refused(words, problem, tmp_path, monkeypatch):
    """Before anything is connected: no service is running."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert result.stderr.startswith("INVALID_INPUT")
    assert problem in result.stderr
