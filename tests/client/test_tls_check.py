"""Faults of certificates are named over real TLS, on one line."""

import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copy

import grpc
import pytest

from gencard.client import Analyst
from gencard.controller.people.keys import KeyPair, issue, new_authority
from gencard.core import errors
from tests.client.fake_controller import make_people, served
from tests.client.fake_world import ANA, HOST

NOW = datetime.now(UTC)
LONG_AGO, LATER = NOW - timedelta(days=200), NOW + timedelta(days=30)


@dataclass(frozen=True)
class Place:
    """A service's files, its authority, and the folder of ana, who calls it."""

    folder: Path
    authority: KeyPair

    @property
    def ana(self) -> Path:
        return self.folder / "ana"

    def replace(self, who: str, pair: KeyPair) -> None:
        for file in ("certificate.pem", "key.pem"):
            (self.folder / who / file).unlink()
        pair.write(self.folder / who)

    def show(self, now: datetime = NOW, hosts=("localhost", "127.0.0.1"), authority=None) -> None:
        """Give the service another certificate."""
        self.replace("host", issue(authority or self.authority, HOST, now, hosts=hosts))


@pytest.fixture
def place(tmp_path):
    make_people(tmp_path)
    place = Place(tmp_path, new_authority("test.local", NOW))
    place.show()
    place.replace("ana", issue(place.authority, ANA, NOW))
    (place.ana / "authority.pem").write_bytes(place.authority.certificate_pem)
    return place


@contextmanager
def called(place):
    """The address of the service, with ana's folder as it is once the service has started."""
    with served(place.folder) as (_, port):
        yield f"localhost:{port}"


def refusal(address, folder):
    with Analyst.connect(address, folder=folder) as ana, pytest.raises(errors.GencardError) as raised:
        ana.datasets()
    return raised.value


def test_right_certificates_get_through(place):
    with called(place) as address, Analyst.connect(address, folder=place.ana) as ana:
        assert ana.datasets()


def test_our_certificate_is_from_another_authority(place):
    place.replace("ana", issue(new_authority("test.local", NOW), ANA, NOW))
    with called(place) as address:
        error = refusal(address, place.ana)
    assert type(error) is errors.CertificateNotTrustedError
    assert error.message == f"Certificate {place.ana}/certificate.pem is not trusted by {address}."
    assert "gencard enrol" in error.advice


def test_our_certificate_is_a_services(place):
    place.replace("ana", issue(place.authority, ANA, NOW, hosts=("localhost",)))
    with called(place) as address:
        assert type(refusal(address, place.ana)) is errors.CertificateNotTrustedError


@pytest.mark.parametrize("which", ["ours", "the service's"])
@pytest.mark.parametrize(
    ("issued", "kind", "words"),
    [
        (LONG_AGO, errors.CertificateExpiredError, f"{LONG_AGO + timedelta(days=90):%Y-%m-%d}"),
        (LATER, errors.CertificateNotYetValidError, f"before {LATER:%Y-%m-%d}"),
    ],
    ids=["expired", "not yet valid"],
)
def test_a_certificate_out_of_its_time_is_told_with_the_date(place, which, issued, kind, words):
    if which == "ours":
        place.replace("ana", issue(place.authority, ANA, issued))
    else:
        place.show(issued)
    with called(place) as address:
        error = refusal(address, place.ana)
    whose = "certificate.pem" if which == "ours" else f"of the service at {address}"
    assert type(error) is kind
    assert words in str(error)
    assert whose in str(error)


@pytest.mark.parametrize("name", ["test.local", "other.local"])
def test_the_service_is_of_another_authority(place, name):
    place.show(authority=new_authority(name, NOW))
    with called(place) as address:
        error = refusal(address, place.ana)
    assert type(error) is errors.AuthorityMismatchError
    assert str(error).startswith(f"The certificate of the service at {address} was not issued by")
    assert str(place.ana) in str(error)


def test_the_service_is_called_by_a_name_that_is_not_in_its_certificate(place):
    place.show(hosts=("gencard.example", "192.0.2.7"))
    with called(place) as address:
        error = refusal(address, place.ana)
    assert type(error) is errors.HostNameMismatchError
    assert "for other host names: gencard.example, 192.0.2.7" in str(error)


def test_a_certificate_with_the_key_of_another(place):
    copy(place.folder / "host/key.pem", place.ana / "key.pem")
    with called(place) as address:
        error = refusal(address, place.ana)
    assert type(error) is errors.InvalidInputError
    assert "private key" in str(error)


def test_nobody_listens_and_plaintext_are_as_before(place):
    with called(place) as address:
        pass
    assert type(refusal(address, place.ana)) is errors.ServiceUnavailableError
    server = grpc.server(None)
    port = server.add_insecure_port("localhost:0")
    server.start()
    assert type(refusal(f"localhost:{port}", place.ana)) is errors.ServiceUnavailableError
    server.stop(0).wait()


LIBRARY = """
import sys
from gencard.client import Analyst
from gencard.core.errors import GencardError
try:
    Analyst.connect(folder=sys.argv[1]).datasets()
except GencardError as error:
    sys.exit(f"{error.reason}  {error}")
"""


def ended_with(*command):
    """Standard error of a command without settings of gRPC, which has to fail."""
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 1
    return ended.stderr.splitlines()


def test_shell_and_library_say_what_is_wrong_and_grpc_says_nothing(place):
    place.replace("ana", issue(new_authority("test.local", NOW), ANA, NOW))
    python = Path(sys.executable)
    with called(place) as address:
        (place.ana / "connection.toml").write_text(f'address = "{address}"\n')
        line, advice = ended_with(python.parent / "gencard", "datasets", "-c", place.ana)
        (only_line,) = ended_with(python, "-c", LIBRARY, place.ana)
    assert f"{line} {advice.removeprefix('→ ')}" == only_line
    assert line.startswith("CERTIFICATE_NOT_TRUSTED  Certificate ")
    assert advice.startswith("→ Check the address.")
