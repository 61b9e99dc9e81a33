"""Lets the n-th step of input or output fail, whatever it is: file, folder, statement, commit, engine.

Python tells of every opening, renaming, making and removing before it happens (audit hooks); reads,
writes and syncs go through wrappers; statements and commits through the database's own events. The
text of each error quotes a canary, so that one that leaks is found.
"""

import errno
import io
import os
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError

from tests.system.canaries import WORD

TEXT = f"failed at the record of {WORD}-fault"
_EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir", "os.chmod"}
_FILE_CALLS = {"read", "readline", "readlines", "write", "writelines", "flush"}
_ENGINE_ANSWERS = {"execute", "sql", "to_arrow_reader"}
_ENGINE_CALLS = _ENGINE_ANSWERS | {"fetchall", "close"}

Error = Callable[[], Exception]


def _os_error() -> Exception:
    return OSError(errno.EIO, TEXT)


def _sql_error() -> Exception:
    return OperationalError(TEXT, {"value": TEXT}, sqlite3.OperationalError(TEXT))


def _engine_error() -> Exception:
    return duckdb.IOException(TEXT)


@dataclass
class Faults:
    """Step that is to fail.

    Args:
        folder: Files below it count; others, such as modules, do not.
    """

    folder: Path
    failed: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    _site: str = ""
    _threads: tuple[str, ...] = ()
    _left: int = 0
    _lasting: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def armed(
        self, nth: int, threads: tuple[str, ...], *, site: str = "", lasting: bool = False
    ) -> Iterator[None]:
        """The n-th step in threads of these names fails, and with ``lasting`` every one after it.

        Args:
            nth: From 1; with 0, steps are counted in ``seen`` and none fails.
            site: Count steps of this kind alone.
        """
        self.failed.clear()
        self.seen.clear()
        self._left, self._site, self._lasting, self._threads = nth, site, lasting, threads
        try:
            yield
        finally:
            self._threads = ()

    def step(self, site: str, error: Error = _os_error) -> None:
        if not self._threads or not threading.current_thread().name.startswith(self._threads):
            return
        with self._lock:
            self.seen[site] += 1
            self._left -= self._site in ("", site)
            fails = self._site in ("", site) and (self._left == 0 or (self._lasting and self._left < 0))
            if fails:
                self.failed.append(site)
        if fails:
            raise error()

    def heard(self, name: str, args: tuple[Any, ...]) -> None:
        """Count an event of Python's audit hook as a step."""
        if (name in _EVENTS and self.owns(args[0])) or name == "subprocess.Popen":
            self.step(name)

    def owns(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and str(path).startswith(str(self.folder))

    # Where steps are heard of ------------------------------------------------------------------

    def watch_database(self, engine: Engine) -> None:
        for moment in ("before_cursor_execute", "commit"):
            event.listen(engine, moment, lambda *_, moment=moment: self.step(moment, _sql_error))

    def watch_folders(self, patch: pytest.MonkeyPatch) -> None:
        patch.setitem(_LISTENERS, id(self), self)
        patch.setattr(os, "fsync", self._watched("fsync", os.fsync))

    def watch_files(self, patch: pytest.MonkeyPatch) -> None:
        opened = io.open
        patch.setattr(io, "open", lambda *args, **kwargs: _File(opened(*args, **kwargs), self))
        patch.setattr(os, "pread", self._watched("pread", os.pread))
        look = os.stat

        def looked(path: Any, **kwargs: Any) -> os.stat_result:
            if self.owns(path):
                self.step("os.stat")
            return look(path, **kwargs)

        patch.setattr(os, "stat", looked)

    def watch_engine(self, patch: pytest.MonkeyPatch) -> None:
        connect = duckdb.connect

        def connected(*args: Any, **kwargs: Any) -> Any:
            self.step("duckdb.connect", _engine_error)
            return _Engine(connect(*args, **kwargs), self)

        patch.setattr(duckdb, "connect", connected)

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            self.step(name)
            return call(*args, **kwargs)

        return watched


@dataclass
class _File:
    """A file whose reads and writes are steps."""

    _file: Any
    _faults: Faults

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._file, name)
        if name not in _FILE_CALLS:
            return found
        return lambda *args: (self._faults.step(f"file.{name}"), found(*args))[1]

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._file)


@dataclass
class _Engine:
    """A connection of DuckDB, or what it answers with; its calls are steps."""

    _engine: Any
    _faults: Faults

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._engine, name)
        if name not in _ENGINE_CALLS:
            return found

        def called(*args: Any, **kwargs: Any) -> Any:
            self._faults.step(f"duckdb.{name}", _engine_error)
            answer = found(*args, **kwargs)
            return _Engine(answer, self._faults) if name in _ENGINE_ANSWERS else answer

        return called

    def __next__(self) -> Any:
        self._faults.step("duckdb.next", _engine_error)
        return next(self._engine)


_LISTENERS: dict[int, Faults] = {}
"""Hooks cannot be taken away; one that nobody listens to does nothing."""


def _hook(name: str, args: tuple[Any, ...], listeners: dict[int, Faults] = _LISTENERS) -> None:
    """The listeners are an argument: an interpreter that ends takes the names of modules first."""
    for faults in tuple(listeners.values()):  # another thread may come to listen meanwhile
        faults.heard(name, args)


sys.addaudithook(_hook)
