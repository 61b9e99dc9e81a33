"""serve: the service, until a signal ends it."""

import signal
import threading
from types import FrameType
from typing import Annotated

import typer

from gencard.controller.settings.settings import Settings
from gencard.controller.shell.terminal import HERE, ConfigFile, console
from gencard.controller.upkeep import logs
from gencard.controller.wiring import serve as serve_settings

GRACE_SECONDS = 10.0


def serve(
    config: ConfigFile = HERE,
    unreviewed: Annotated[
        bool,
        typer.Option("--unreviewed", help="Serve drafted schemas too; for trials only."),
    ] = False,
) -> None:
    """Serve until interrupted; running calls end first, unfinished work goes on at the next start."""
    logs.configure()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: _end(ended, _frame))
    settings = Settings.load(config)
    with console.status("Starting"):
        controller = serve_settings(settings, unreviewed=unreviewed)
    host = settings.server.address.rpartition(":")[0]
    console.print(f"Serving on [bold]{host}:{controller.port}[/]")
    for holding in controller.desk.cards.holdings:
        console.print(f"  {holding.name}  {holding.schema.title}")
    console.print("[dim]Ctrl-C ends it.[/]")
    ended.wait()
    with console.status("Stopping: running calls end first"):
        controller.stop(GRACE_SECONDS)
    console.print("Stopped.")


def _end(ended: threading.Event, _frame: FrameType | None) -> None:
    ended.set()
