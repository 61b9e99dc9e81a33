"""Edges of the client: terminals, disks, and files that are not what they should be."""

import io
import os

import numpy as np
import pytest
from rich.console import Console

from gencard.client.checking.checks import LOG_SEEN
from gencard.client.common import formats as folder
from gencard.client.common import rows
from gencard.client.connection import connection, tables
from gencard.client.connection.connection import Connection
from gencard.client.connection.credentials import Credentials
from gencard.core import errors
from tests.client.test_frames import CODING


def refuse(*_args, **_kwargs):
    raise OSError("token-7f3a")


class TestProgress:
    def test_a_bar_in_a_terminal(self, monkeypatch):
        screen = io.StringIO()
        terminal = Console(file=screen, force_terminal=True, width=80)
        monkeypatch.setattr(connection, "Console", lambda stderr: terminal)
        with connection.progress_bar("Generating", True) as tell:
            tell("fit", 0.5)
        assert "Generating" in screen.getvalue()
        assert "fit" in screen.getvalue()

    @pytest.mark.parametrize("asked", [True, False])
    def test_nothing_where_nobody_looks(self, asked, capsys):
        with connection.progress_bar("Generating", asked) as tell:
            tell("fit", 0.5)
        assert capsys.readouterr() == ("", "")


class TestDisk:
    @pytest.mark.parametrize("with_fallocate", [True, False])
    def test_room_for_codes(self, tmp_path, monkeypatch, with_fallocate):
        if not with_fallocate:
            monkeypatch.delattr(os, "posix_fallocate")
        table = tables.in_file(tmp_path)((1_500_000, 2), np.dtype("u1"))
        table[:] = 7
        assert table.shape == (1_500_000, 2)
        assert table.flags.f_contiguous
        assert tables.in_file(tmp_path)((0, 2), np.dtype("u1")).shape == (0, 2)

    def test_a_full_disk_says_so_before_anything_comes(self, tmp_path, monkeypatch):
        monkeypatch.setattr(tables, "_reserve", refuse)
        with pytest.raises(errors.InvalidInputError, match="not enough free space") as refused:
            tables.in_file(tmp_path)((10, 2), np.dtype("u1"))
        assert "token-7f3a" not in str(refused.value)

    def test_a_document_that_cannot_be_written(self, tmp_path, monkeypatch):
        monkeypatch.setattr(folder.os, "replace", refuse)
        with pytest.raises(errors.InvalidInputError, match="cannot write"):
            folder.write_bytes(tmp_path / "a.json", b"{}")
        assert list(tmp_path.iterdir()) == []


class TestLogState:
    def test_it_cannot_be_written(self, ana, world, monkeypatch):
        world.log("a")
        monkeypatch.setattr("gencard.client.common.formats.os.replace", refuse)
        with pytest.raises(errors.InvalidInputError, match="cannot write"):
            ana.checkpoint()

    def test_another_of_our_programs_may_look_at_the_same_time(self, ana, world, monkeypatch):
        """The other program looks later and is answered sooner: no log shrank; the newest is kept."""
        world.log("a")
        ask, asked = Connection.call, []

        def call(connection, method, request, **more):
            answer = ask(connection, method, request, **more)
            asked.append(request)
            if len(asked) == 1:
                world.log("b")
                assert ana.checkpoint().size == 2
            return answer

        monkeypatch.setattr(Connection, "call", call)
        assert ana.checkpoint().size == 1
        assert ana.log._seen().size == 2

    def test_it_is_not_what_was_written(self, ana, world, people):
        world.log("a")
        (people / "ana" / LOG_SEEN).write_text("garbage")
        with pytest.raises(errors.VerificationError):
            ana.checkpoint()

    def test_it_cannot_be_read(self, ana, world, people):
        world.log("a")
        (people / "ana" / LOG_SEEN).mkdir()
        try:
            with pytest.raises(errors.InvalidInputError, match="cannot read"):
                ana.checkpoint()
        finally:
            (people / "ana" / LOG_SEEN).rmdir()


def test_parquet_without_its_extra(monkeypatch, tmp_path):
    def absent(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(rows, "import_module", absent)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(errors.InvalidInputError, match=r"gencard\[parquet\]"):
        rows.read_rows(tmp_path / "a.parquet", CODING, CODING.domain)


@pytest.mark.parametrize("content", [b"garbage", b""])
def test_a_certificate_that_is_none(tmp_path, content):
    (tmp_path / "certificate.pem").write_bytes(content)
    with pytest.raises(errors.UnauthenticatedError):
        Credentials.of_folder(tmp_path).identity()


def test_a_csv_line_that_is_too_short(tmp_path):
    (tmp_path / "a.csv").write_text("sex,children,age\nmale,1\n")
    with pytest.raises(errors.InvalidInputError, match="in line 2"):
        rows.read_rows(tmp_path / "a.csv", CODING, CODING.domain)
