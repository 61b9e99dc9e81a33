"""A PostgreSQL server of the tests' own: temporary folder, Unix socket, no network."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest

_NEVER_ROOT = ("postgres", "nobody")
_MEMORY = "/dev/shm"
"""Where a database of a thousand small files for each test costs no disk, if the system has it."""

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
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="gencard-pg-", dir=parent or memory))
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
    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [str(binaries / program), "-D", str(folder / "data"), *arguments],
            user=user,
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=240,
        )

    run("initdb", "--username=gencard", "--auth=trust", "--no-sync")
    options = f"-c listen_addresses= -c max_connections=200 -c fsync=off -k {folder}"
    run("pg_ctl", "start", "-w", "-t", "240", "-o", options, "-l", str(folder / "log"))
    try:
        yield
    finally:
        run("pg_ctl", "stop", "-m", "immediate")
