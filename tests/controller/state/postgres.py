"""A PostgreSQL server of the tests' own: temporary folder, Unix socket, no network."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import psycopg
import pytest

from tests.memory import MEMORY, own_prefix
from tests.system.raw_calls import eventually

_NEVER_ROOT = ("postgres", "nobody")
_numbers = count()


def _initdb() -> str | None:
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return str(installed[-1]) if installed else shutil.which("initdb")


def has_server() -> bool:
    """Whether ``server`` can run one here."""
    return _initdb() is not None


@contextmanager
def server(parent: Path | None = None) -> Iterator[str]:
    """The socket folder of a running server; skips where no server binary is installed.

    Args:
        parent: Where its folder is made; in memory, if the system has such a folder.
    """
    program = _initdb()
    if program is None:
        pytest.skip("no PostgreSQL server binaries here (Debian: postgresql)")
    user = _user()
    # a database of a thousand small files for each test costs no disk there
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix=f"{own_prefix()}pg-", dir=parent or memory))
    try:
        if user:
            shutil.chown(folder, user)
        with _running(Path(program).parent, folder, user):
            yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_database(socket: str, template: str = "template1") -> str:
    """URL of a fresh copy of a template; the usual one is empty."""
    name = f"state_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(host=socket, user="gencard", dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    return f"postgresql+psycopg://gencard@/{name}?host={socket}"


def _user() -> str | None:
    """PostgreSQL refuses to run as root: another user, where we are root."""
    if os.getuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    for name in _NEVER_ROOT:
        if name in names:
            return name
    pytest.skip("PostgreSQL does not run as root, and there is no other user")


@contextmanager
def _running(binaries: Path, folder: Path, user: str | None) -> Iterator[None]:
    """Run a server that ends with the context, and also if this process is killed."""
    with (folder / "log").open("w") as log:
        run = partial(subprocess.run, user=user, cwd=folder, stdout=log, stderr=log, timeout=240)
        data = ("-D", str(folder / "data"))
        initdb = (binaries / "initdb", *data, "--username=gencard", "--auth=trust", "--no-sync")
        run(initdb, check=True)
        settings = ("listen_addresses=", "max_connections=200", "fsync=off")
        options = [word for setting in settings for word in ("-c", setting)]
        program = (str(binaries / "postgres"), *data, *options, "-k", str(folder))
        command = ("setpriv", "--pdeathsig", "QUIT", *program)
        with subprocess.Popen(command, user=user, cwd=folder, stdout=log, stderr=log) as postgres:

            def is_ready() -> bool:
                assert postgres.poll() is None, (folder / "log").read_text()
                return run((binaries / "pg_isready", "-h", folder)).returncode == 0

            try:
                assert eventually(is_ready, seconds=240)
                yield
            finally:
                postgres.send_signal(signal.SIGQUIT)  # at once, without a word to its clients
