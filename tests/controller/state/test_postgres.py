"""The PostgreSQL servers of tests end with the tests, however these end."""

import shutil
import subprocess
import sys

import psycopg
import pytest

from tests.controller.state import postgres
from tests.system.raw_calls import eventually

SERVING = """
import time
from tests.controller.state import postgres
with postgres.server() as socket:
    print(socket, flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(not postgres.has_server(), reason="no PostgreSQL server binaries here")
def test_a_server_ends_with_a_process_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", SERVING], stdout=subprocess.PIPE, text=True) as process:
        socket = process.stdout.readline().strip()
        assert answers(socket)
        process.kill()
    assert eventually(lambda: not answers(socket))
    shutil.rmtree(socket)


def answers(socket):
    try:
        psycopg.connect(host=socket, user="gencard", dbname="postgres").close()
    except psycopg.OperationalError:
        return False
    return True
