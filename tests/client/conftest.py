"""A fake controller over real TLS, and ana, who is connected to it."""

import pytest

from gencard.client import Analyst
from gencard.client.connection import connection
from tests.client.fake_controller import make_people, served


@pytest.fixture(scope="session")
def people(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    make_people(folder)
    return folder


@pytest.fixture(autouse=True, scope="module")
def short_waits():
    """A tenth of the wait between two tries of a call: three waits were 1.4 s."""
    config = connection._service_config()
    config["methodConfig"][0]["retryPolicy"]["initialBackoff"] = "0.02s"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_service_config", lambda: config)
        yield


@pytest.fixture
def service(people):
    for seen in ("log_seen.json", "keys_seen.json"):
        (people / "ana" / seen).unlink(missing_ok=True)
    with served(people) as (world, port):
        yield world, port


@pytest.fixture
def world(service):
    return service[0]


@pytest.fixture
def connection_toml(service, people):
    file = people / "ana/connection.toml"
    file.write_text(f'address = "localhost:{service[1]}"\n')
    return file


@pytest.fixture
def ana(service, people, connection_toml):
    with Analyst.connect(folder=people / "ana") as analyst:
        yield analyst


@pytest.fixture
def offered(ana):
    marginals = [("health", "sex"), ("sex", "children", "age"), ("age", "health")]
    return ana.propose("survey", marginals, purpose="To see <how> it works.")


@pytest.fixture
def agreed(offered):
    return offered.accept()
