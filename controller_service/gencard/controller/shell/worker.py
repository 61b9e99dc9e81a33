"""worker: certificates for a cluster, workers on other machines, and those that were refused."""

import os
import re
import signal
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gencard.controller.audits import RefusedWorkers
from gencard.controller.base.listening import CLUSTER_CONTROLLER, MEMBER_FILES
from gencard.controller.people.keys import (
    KeyPair,
    issue_member,
    new_authority,
    read_authority,
    trust_domain_of,
    write_new,
)
from gencard.controller.sandbox.boxes import check_isolation
from gencard.controller.sandbox.limits import Isolation
from gencard.controller.settings import WORKER_NAME, Settings
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    StewardName,
    console,
    controller_state,
    say,
    say_json,
    steward_uri,
)
from gencard.core.errors import InvalidInputError
from gencard.shell import new_typer
from gencard.wire.keys import Identity

app = new_typer(help="Set up machines that run audits.", no_args_is_help=True)

_PORT = 8786

Files = Annotated[
    Path, typer.Option(help="Folder made by `worker certificate`, with authority, certificate and key.")
]


@app.command()
def certificate(
    name: Annotated[str, typer.Argument(help="Name of the worker: up to 63 of a-z, 0-9 and -.")],
    to: Annotated[
        Path | None,
        typer.Option(help="New folder to create. Default: worker-NAME, in the current folder."),
    ] = None,
    config: ConfigFile = HERE,
) -> None:
    """Make a certificate and key for a worker. Move the new folder to its machine.

    The cluster has its own authority, which the first call makes, with the controller's certificate;
    certificates of people are not accepted. The key of a worker lets its holder answer as this worker.
    """
    if not re.fullmatch(WORKER_NAME, name) or name == CLUSTER_CONTROLLER:
        problem = f"must be of a-z, 0-9 and -, and not {CLUSTER_CONTROLLER}"
        raise InvalidInputError(field="NAME", problem=problem)
    settings = Settings.load(config)
    folder = settings.cluster.folder.parent if settings.cluster else config.absolute().parent / "cluster"
    own = settings.cluster.folder if settings.cluster else folder / CLUSTER_CONTROLLER
    target = to or Path(f"worker-{name}")
    if (folder / "authority" / "key.pem").exists():
        authority = read_authority(folder / "authority")
    else:
        authority = new_authority(f"cluster.{settings.identity.trust_domain}", datetime.now(UTC))
        authority.write(folder / "authority")
    project = Identity.of(settings.identity.uri).project
    if not (own / "key.pem").exists():
        _write(own, authority, project, CLUSTER_CONTROLLER)
    _write(target, authority, project, name)
    console.print(f"Made [bold]{escape(str(target))}[/]; move it to its machine, then run there:")
    console.print(
        f"  gencard-controller worker start --host ADDRESS --files {escape(str(target))}", soft_wrap=True
    )
    say(f'Here, add to [cluster] in the settings: workers = {{ {name} = "ADDRESS:{_PORT}" }}')


def _write(folder: Path, authority: KeyPair, project: str, name: str) -> None:
    uri = f"spiffe://{trust_domain_of(authority)}/{project}/controller/{name}"
    issued = issue_member(authority, uri, datetime.now(UTC))
    write_new(folder / "authority.pem", authority.certificate_pem, private=False)
    issued.write(folder)


@app.command(hidden=True, context_settings={"ignore_unknown_options": True})
def scheduler(_arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
    """Refuse: earlier versions had a scheduler between controller and workers."""
    raise InvalidInputError(field="scheduler", problem=_NO_SCHEDULER)


_NO_SCHEDULER = (
    "does not exist any more: the controller connects to the workers; start them with "
    "`worker start --host`, and name them in cluster.workers"
)


@app.command()
def start(
    files: Files,
    host: Annotated[str, typer.Option(help="Address of this machine to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free port.")] = _PORT,
    runs: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Number of simultaneous runs. Default: one per core."),
    ] = None,
    scheduler_address: Annotated[str | None, typer.Option("--scheduler", hidden=True)] = None,
) -> None:
    """Run audits on this machine, in sandboxes, for its controller alone, until interrupted.

    Refuses to start if sandboxes cannot be isolated. Records are held in memory only, until the process
    of their job ends. Needs the controller's version of Gencard, Python, numpy and scipy.
    """
    if scheduler_address is not None:
        raise InvalidInputError(field="--scheduler", problem=_NO_SCHEDULER)
    for file in MEMBER_FILES:
        if not os.access(files / file, os.R_OK):
            problem = f"there is no file {files / file} that this account can read"
            raise InvalidInputError(field="--files", problem=problem)
    from gencard.controller.jobs.cluster.workers import working  # noqa: PLC0415 - slow to import

    is_over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: is_over.set())
    with tempfile.TemporaryDirectory(prefix="gencard-worker-") as folder:
        check_isolation(Isolation.NAMESPACES, Path(folder))
        most = runs or min(len(os.sched_getaffinity(0)), 64)
        with working(f"{host}:{port}", files.absolute(), most, Path(folder)) as bound:
            say(f"Ready: {most} runs at a time at {host}:{bound}.")
            is_over.wait()


@app.command()
def refused(config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """List workers that gave a wrong answer. No audit uses them."""
    with controller_state(config) as state:
        names = sorted(RefusedWorkers(state.files).names())
    if as_json:
        say_json(names)
        return
    for name in names or ["No worker is refused."]:
        say(name)


@app.command()
def admit(
    name: Annotated[str, typer.Argument(help="Name of the refused worker.")],
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Let audits use a refused worker again; recorded in the log. Examine its machine first."""
    with controller_state(config) as state:
        RefusedWorkers(state.files).admit(name)
        actor = steward_uri(state.settings, steward)
        with state.database.transaction() as tx:
            state.cards.note(tx, "admit-worker", f"workers/{name}", {}, actor)
    say(f"Audits use {name} again.")
