"""The console entry: every command in its place."""

from importlib.metadata import version
from typing import Annotated

import typer

from gencard.client.shell import catalogue, checking, enrolling, negotiation, reports, synthesis
from gencard.client.shell.terminal import Commands

app = typer.Typer(
    name="gencard",
    cls=Commands,
    help="Negotiate cards, generate synthetic data, verify and audit it.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
)
app.command()(enrolling.enrol)
app.command()(catalogue.datasets)
app.command()(catalogue.generators)
app.command()(negotiation.plan)
app.command()(negotiation.propose)
app.command()(negotiation.price)
app.command()(negotiation.cards)
app.command()(negotiation.accept)
app.command()(negotiation.counter)
app.command()(negotiation.terminate)
app.command()(synthesis.generate)
app.command()(synthesis.psi)
app.command()(reports.fidelity)
app.command()(reports.utility)
app.command()(reports.report)
app.command()(checking.replay)
app.command()(checking.verify)
app.command()(synthesis.audit)
app.command()(synthesis.canaries)
app.command()(catalogue.budget)
app.command()(catalogue.log)


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
    """Run ``gencard``; exit codes: 0 done, 1 refused or failed, 2 wrong usage."""
    app()
