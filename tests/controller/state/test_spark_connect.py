"""Records that a server of Spark Connect has: the psi of a file; what cannot be reached is refused."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks import engine_rows
from benchmarks.awkward_records import CODING, READINGS, awkward
from gencard.controller.records.table_address import TableAddress
from gencard.controller.records.vault import Vault
from gencard.core.errors import DatasetUnavailableError
from gencard.core.statistics.measure import measure
from gencard.wire.psi import psi_document
from tests.system.raw_calls import eventually
from tests.system.receivers import free_port

pytest.importorskip("ibis")
from gencard.controller.records import databases as engines
from gencard.controller.records.databases import open_backend, open_table, records_of
from tests.controller.state.test_tables import CLIQUES, JAVA_OPTIONS, SALT

if reason := engine_rows.lacking("spark"):
    pytest.skip(reason, allow_module_level=True)

TOKEN = "open sesame"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Yield the port of a server on loopback that requires the token."""
    (location,) = find_spec("pyspark").submodule_search_locations
    chosen = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(chosen),
        "spark.connect.authenticate.token": TOKEN,
        "spark.driver.memory": "1g",
        "spark.log.level": "OFF",
        "spark.sql.session.timeZone": "Asia/Tokyo",  # a server's own settings must not matter
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    options = [text for pair in settings.items() for text in ("--conf", "=".join(pair))]
    command = [f"{location}/bin/spark-submit", "--class", SERVER, "--master", "local[2]", *options]
    environment = {"PATH": os.environ["PATH"], "SPARK_HOME": location, "JDK_JAVA_OPTIONS": JAVA_OPTIONS}
    log = (tmp_path_factory.mktemp("connect") / "log").open("w")
    with (
        log,
        subprocess.Popen(
            [*command, "spark-internal"], env=environment, stdout=log, stderr=log
        ) as server,
    ):
        try:
            assert eventually(lambda: _listens(chosen) or server.poll() is not None)
            yield chosen
        finally:
            server.terminate()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("localhost", port), 1).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records") / "parquet"
    folder.mkdir()
    pq.write_table(awkward(5_000), folder / "0.parquet")
    return folder


@pytest.fixture
def address(port: int, records: Path) -> Callable[[int], TableAddress]:
    return lambda where=port: TableAddress(
        f"sc://localhost:{where}?parquet={records}&password_variable=SPARK_TOKEN"
    )


def test_psi_is_the_same_to_the_byte(address, records):
    vault = Vault(records / "0.parquet", CODING, READINGS)
    with open_table(address(), TOKEN, CODING, READINGS) as table:
        table.check()
        version = table.version(SALT)
        table.confirm(version, SALT)
        first, second = (
            psi_document(measure(source, CLIQUES, CODING.domain)) for source in (table, vault)
        )
    assert first == second


def test_a_process_can_read_by_connect_and_without_it_in_turn(address, records, monkeypatch):
    monkeypatch.setenv("JDK_JAVA_OPTIONS", JAVA_OPTIONS)
    here = TableAddress(f"spark://local?parquet={records}")
    for where, token in ((here, ""), (address(), TOKEN)) * 2:
        with open_backend(where, token) as backend:
            assert records_of(backend, where).count().execute() == 5_000


@pytest.mark.parametrize("token", ["", "open barley"])
def test_s65_a_server_that_wants_another_token_gives_nothing(address, token):
    with (
        pytest.raises(DatasetUnavailableError) as caught,
        open_table(address(), token, CODING, READINGS),
    ):
        pass
    assert caught.value.__cause__ is None
    assert "sesame" not in str(caught.value)
    assert "barley" not in str(caught.value)


def test_a_server_that_is_not_there_is_refused_within_seconds(address, monkeypatch):
    monkeypatch.setattr(engines, "_CONNECT_SECONDS", 0.5)
    begin = time.monotonic()
    with (
        pytest.raises(DatasetUnavailableError),
        open_table(address(free_port()), TOKEN, CODING, READINGS),
    ):
        pass
    assert time.monotonic() - begin < 30, "its client would try for ten minutes"
