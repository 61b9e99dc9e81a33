"""The console entry: every command in its place."""

import resource
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from gencard.controller.shell import backup, cards, ledger, log, people, reviews, setup
from gencard.controller.shell.terminal import run_shell

app = typer.Typer(
    name="gencard-controller",
    help="Serve datasets, decide on cards, release synthetic data. Records never leave this machine.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
)
app.command()(setup.init)
app.command()(setup.check)
app.command()(people.enrol)
app.command()(people.renew)
app.command()(setup.serve)
app.command()(backup.backup)
app.command()(backup.restore)
app.command(name="cards")(cards.show)
app.command()(cards.approve)
app.command()(cards.counter)
app.command()(cards.reject)
app.command()(cards.revoke)
app.add_typer(reviews.audits_app, name="audits")
app.add_typer(reviews.boxes_app, name="boxes")
app.add_typer(people.keys_app, name="keys")
app.add_typer(ledger.app, name="ledger")
app.add_typer(log.app, name="log")
app.add_typer(reviews.refusals_app, name="refusals")


def _say_version(requested: bool) -> None:
    if requested:
        typer.echo(f"gencard {version('gencard')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options of the program itself."""


def main() -> None:
    """Run ``gencard-controller``; exit codes: 0 done, 1 refused or failed, 2 wrong usage."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold records and keys
    sys.exit(run_shell(app))
