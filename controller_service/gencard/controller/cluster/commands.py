"""worker: certificates for a cluster, its scheduler, and workers on other machines."""

import logging
import os
import socket
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
from rich.markup import escape

from gencard.controller.people.certificates import (
    KeyPair,
    issue_member,
    new_authority,
    read_authority,
    trust_domain_of,
    write_new,
)
from gencard.controller.sandbox.boxes import check_isolation
from gencard.controller.sandbox.limits import Isolation
from gencard.controller.service.server import bound
from gencard.controller.settings.settings import Settings
from gencard.controller.shell.terminal import HERE, ConfigFile, console
from gencard.core.errors import InvalidInputError
from gencard.shell import new_typer
from gencard.wire.signatures.identity import Identity

app = new_typer(help="Set up machines that run audits, with Dask.", no_args_is_help=True)

CONTROLLER = "controller"
"""The member that is the controller itself."""

Files = Annotated[
    Path, typer.Option(help="Folder made by `worker certificate`, with authority, certificate and key.")
]


@app.command()
def certificate(
    name: Annotated[
        str, typer.Argument(help="Name of the worker or scheduler: a-z, 0-9, dot, - and _.")
    ],
    to: Annotated[
        Path | None,
        typer.Option(help="New folder to create. Default: worker-NAME, in the current folder."),
    ] = None,
    config: ConfigFile = HERE,
) -> None:
    """Make a certificate and key for a worker or scheduler. Move the new folder to its machine.

    The cluster has its own authority, which the first call makes; certificates of people are not
    accepted. Anyone with a certificate of the cluster can run programs on all of its machines.
    """
    settings = Settings.load(config)
    folder = settings.cluster.folder.parent if settings.cluster else config.absolute().parent / "cluster"
    own = settings.cluster.folder if settings.cluster else folder / CONTROLLER
    target = to or Path(f"worker-{name}")
    authority = _authority(folder / "authority", settings)
    project = Identity.of(settings.identity.uri).project
    if not (own / "key.pem").exists():
        _write(own, authority, project, CONTROLLER)
    if target.absolute() != own.absolute():
        _write(target, authority, project, name)
    console.print(f"Made [bold]{escape(str(target))}[/]; move it to its machine, then run there:")
    console.print(
        f"  gencard-controller worker start --scheduler tls://HOST:8786 --files {escape(str(target))}",
        soft_wrap=True,
    )


def _authority(folder: Path, settings: Settings) -> KeyPair:
    if (folder / "key.pem").exists():
        return read_authority(folder)
    authority = new_authority(f"cluster.{settings.identity.trust_domain}", datetime.now(UTC))
    authority.write(folder)
    return authority


def _write(folder: Path, authority: KeyPair, project: str, name: str) -> None:
    uri = f"spiffe://{trust_domain_of(authority)}/{project}/controller/{name}"
    issued = issue_member(authority, uri, datetime.now(UTC))
    write_new(folder / "authority.pem", authority.certificate_pem, private=False)
    issued.write(folder)


@app.command()
def scheduler(
    files: Files,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free port.")] = 8786,
) -> None:
    """Serve the scheduler of a cluster until interrupted.

    The scheduler passes runs and their inputs to workers: keep it inside the perimeter.
    """
    workers = _dask(files)
    # Dask binds all addresses of a name but says of none that another process holds it
    for probe in bound(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", "--host"):
        probe.close()
    workers.schedule(host, port, files.absolute(), say=_say)


@app.command()
def start(
    scheduler_address: Annotated[
        str, typer.Option("--scheduler", help="tls://HOST:PORT of the cluster's scheduler.")
    ],
    files: Files,
    runs: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Number of simultaneous runs. Default: one per core."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name shown to operators. Default: host and process.")
    ] = None,
) -> None:
    """Run audits on this machine, in sandboxes. Ends when the scheduler ends.

    Refuses to start if sandboxes cannot be isolated. Records are held in memory only, until the process
    of their job ends. Needs the controller's version of Gencard, Python, numpy and scipy.
    """
    if not scheduler_address.startswith("tls://"):
        raise InvalidInputError(field="--scheduler", problem="must begin with tls://")
    workers = _dask(files)
    with tempfile.TemporaryDirectory(prefix="gencard-worker-") as folder:
        check_isolation(Isolation.NAMESPACES, Path(folder))
        cores = len(os.sched_getaffinity(0))
        called = name or f"{socket.gethostname()}-{os.getpid()}"
        workers.work(scheduler_address, files.absolute(), called, runs or cores, Path(folder), say=_say)


def _say(line: str) -> None:
    console.print(escape(line), soft_wrap=True)


def _dask(files: Path) -> ModuleType:
    """What runs members; raises InvalidInputError where files or libraries are missing."""
    for file in ("authority.pem", "certificate.pem", "key.pem"):
        if not os.access(files / file, os.R_OK):
            problem = f"there is no file {files / file} that this account can read"
            raise InvalidInputError(field="--files", problem=problem)
    try:
        from gencard.controller.cluster import workers  # noqa: PLC0415 - of an extra
    except ModuleNotFoundError:
        problem = "needs more libraries: pip install 'gencard[cluster]'"
        raise InvalidInputError(field="worker", problem=problem) from None
    logging.getLogger("distributed").setLevel(logging.ERROR)
    return workers
