"""Programs start fast: what is not needed is not imported. Modules are counted, never seconds."""

import json
import subprocess
import sys

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from docs import help as help_pages
from gencard.client.shell.main import app as client_shell
from gencard.client.shell.negotiation import GrantOptions
from gencard.controller.shell.main import app as steward_shell

HEAVY = frozenset(
    (
        *("alembic", "cryptography", "duckdb", "formulaic", "google", "grpc", "matplotlib", "numpy"),
        *("opendp", "pandas", "pyarrow", "pydantic", "rich", "scipy", "sklearn", "sqlalchemy", "torch"),
    )
)
SHELLS = {"gencard.client.shell.main": client_shell, "gencard.controller.shell.main": steward_shell}
COMMANDS = [(shell, name) for shell, app in SHELLS.items() for name in get_command(app).commands]


def imported_by(program, *arguments, whole=False):
    """Names of the top-level packages, or of all modules, that a program has imported when it ends."""
    report = "import atexit, sys; atexit.register(lambda: print('\\n', *sys.modules, file=sys.stderr))\n"
    done = subprocess.run(
        [sys.executable, "-c", report + program, *arguments], capture_output=True, text=True, check=True
    )
    names = set(done.stderr.splitlines()[-1].split())
    return names if whole else {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
@pytest.mark.parametrize("shell", SHELLS)
def test_help_imports_no_heavy_library(shell, arguments):
    assert not imported_by(f"from {shell} import main; main()", *arguments) & HEAVY


@pytest.mark.parametrize(
    ("shell", "words"),
    [*zip(SHELLS, ("cards", "emergency cards"), strict=True), *((shell, "log") for shell in SHELLS)],
)
def test_help_of_a_command_imports_no_heavy_library(shell, words):
    imported = imported_by(f"from {shell} import main; main()", *words.split(), "--help")
    assert not imported & (HEAVY - {"pydantic"})  # by Typer itself


@pytest.mark.parametrize("package", help_pages.SHELLS)
def test_the_recorded_help_is_that_of_the_commands(package):
    text = help_pages.file_of(package).read_text(encoding="utf-8")
    assert text == help_pages.text_of(package), "python -m docs.help writes it"


def paths(records, *above):
    for name, record in records.items():
        yield (*above, name)
        yield from paths(record.get("commands", {}), *above, name)


@pytest.mark.parametrize("columns", ["50", "80", "140"])
@pytest.mark.parametrize("package", help_pages.SHELLS)
def test_the_recorded_help_is_shown_as_the_command_shows_it(package, columns):
    records = json.loads(help_pages.file_of(package).read_text(encoding="utf-8"))
    every = [*paths(records)]
    assert len(every) > 30
    for path in every:
        shown, own = (
            CliRunner().invoke(help_pages.SHELLS[package], [*path, *words], env={"COLUMNS": columns})
            for words in (["--help"], ["--help", "--help"])  # the latter is no record's
        )
        assert (shown.exit_code, shown.output) == (own.exit_code, own.output), path


def test_the_client_imports_no_heavy_library():
    assert not imported_by("import gencard.client") & HEAVY


def test_no_module_of_the_client_imports_pydantic():
    """The dataclasses of the core check themselves; pydantic reads them on the controller alone."""
    program = """
from importlib import import_module
from pkgutil import walk_packages
import gencard.client as client, gencard.core as core, gencard.wire as wire
for package in (client, core, wire):
    for one in walk_packages(package.__path__, f"{package.__name__}."):
        import_module(one.name)
"""
    names = imported_by(program, whole=True)
    assert {"gencard.client.shell.connecting", "gencard.core.policy"} <= names
    assert not {name.partition(".")[0] for name in names} & {"pydantic", "pydantic_core"}


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("gencard.client.analyst", {"pandas", "pyarrow", "matplotlib", "jinja2", "scipy"}),
        (
            "gencard.controller.jobs.worker",
            {"pandas", "pyarrow", "sqlalchemy", "grpc", "duckdb", "rich"},
        ),
        (
            "gencard.controller.wiring.serving",
            {
                *("alembic", "pandas", "pyarrow", "matplotlib", "sklearn", "torch"),
                *("jinja2", "prometheus_client", "starlette", "uvicorn", "webauthn"),
            },
        ),
    ],
)
def test_what_starts_often_imports_what_it_needs(module, absent):
    names = imported_by(f"import {module}", whole=True)
    assert not {name.partition(".")[0] for name in names} & absent
    slow = {"scipy.optimize", "scipy.special", "scipy.sparse", "scipy.stats", "scipy.linalg"}
    assert not names & slow, "`import scipy` imports its parts where they are used"


def test_a_summary_begins_the_help_of_its_command():
    for shell, name in COMMANDS:
        group = get_command(SHELLS[shell])
        listed, (_, command, _) = group.commands[name], group.resolve_command(None, [name])
        text = " ".join(command.help.split())
        assert command.name == name
        assert f"{text} ".startswith(f"{listed.short_help} "), name
        assert listed.short_help.endswith("."), name


@pytest.mark.parametrize("shell", SHELLS)
def test_help_lists_every_command(shell):
    answer = CliRunner().invoke(SHELLS[shell], ["--help"])
    listed = {line.split()[0] for line in answer.stdout.splitlines() if line.startswith("  ")}
    assert listed >= get_command(SHELLS[shell]).commands.keys()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_that_is_none_is_refused_with_the_nearest(shell):
    answer = CliRunner().invoke(SHELLS[shell], ["enrl"])
    assert answer.exit_code == 2
    assert "Did you mean 'enrol'?" in answer.stderr


def test_a_group_below_a_shell_has_its_commands():
    _, keys, rest = get_command(steward_shell).resolve_command(None, ["keys", "rotate"])
    assert isinstance(keys, TyperGroup)
    assert "rotate" in keys.commands
    assert rest == ["rotate"]


def test_completion_offers_names_and_imports_no_command():
    program = "from gencard.client.shell.main import main; main()"
    setting = {"_GENCARD_COMPLETE": "complete_bash", "COMP_WORDS": "gencard ge", "COMP_CWORD": "1"}
    before = f"import os, sys; os.environ.update({setting}); sys.argv[0] = 'gencard'\n"
    assert not imported_by(f"{before}{program}") & (HEAVY - {"pydantic"})  # by Typer itself


def once(shell, *words):
    """Exit code and output of a command whose options are only read."""
    result = CliRunner().invoke(shell, [*words])
    return result.exit_code, result.output + result.stderr


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        (client_shell, ["propose", "s", "--purpose", "x", "--rows", "1", "--rows", "2"]),
        (client_shell, ["propose", "s", "--purpose", "x", "--generator", "ipf", "--generator", "ipf"]),
        (client_shell, ["answer", "CARD", "a ~ b", "--where", "a", "--where", "b"]),
        (client_shell, ["steward", "counter", "CARD", "--rows", "1", "--rows", "2"]),
        (steward_shell, ["caps", "set", "s", "--rho", "1", "--rho", "2"]),
        (steward_shell, ["schema", "set", "age", "--edges", "1,2", "--edges", "1,3"]),
    ],
)
def test_an_option_that_holds_one_value_is_refused_twice(shell, words):
    """The usual parser would keep the last, without a word."""
    code, text = once(shell, *words)
    assert code == 2
    assert "it is given more than once" in text


def test_kinds_of_runs_are_given_together_or_one_by_one():
    forms = (["linear", "logistic"], ["linear,logistic"], ["logistic, linear", "linear"])
    both, *others = (GrantOptions(analyses=kinds, checked_runs=3).runs() for kinds in forms)
    assert others == [both, both]
    assert both == {"kinds": ["linear", "logistic"], "checked_runs": 3}
    assert GrantOptions().runs() is None
