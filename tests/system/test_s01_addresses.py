"""A service listens at every address of its host, or does not start."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import grpc
import httpx
import pytest

from gencard.controller.base.listening import bound
from gencard.controller.service.server import OPTIONS, bind
from gencard.core.errors import InvalidInputError
from tests.system.house import build

LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


def has_ipv6() -> bool:
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
each_family = pytest.mark.parametrize(
    "family", [socket.AF_INET, pytest.param(socket.AF_INET6, marks=needs_ipv6)]
)


@contextmanager
def held(family: socket.AddressFamily, *, reuse: bool = False, listens: bool = True) -> Iterator[int]:
    """A port that another server holds at one loopback address, and that is free at the other."""
    with socket.socket(family) as other:
        if reuse:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind((LOOPBACK[family], 0))
        if listens:
            other.listen()
        yield other.getsockname()[1]


@needs_ipv6
@each_family
@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("listens", [False, True])
def test_s01_a_port_that_is_held_in_one_family_is_refused(tmp_path, family, reuse, listens):
    house = build(tmp_path)
    with held(family, reuse=reuse, listens=listens) as port:
        house.edit({"address": f'"localhost:{port}"'})
        with pytest.raises(InvalidInputError, match=r"server\.address: is in use by another process"):
            house.start()


@needs_ipv6
def test_s01_localhost_is_served_at_both_addresses_and_nobody_shares_the_port(tmp_path):
    house = build(tmp_path).start()
    try:
        with ExitStack() as stack:
            for family, host in LOOPBACK.items():
                connection = stack.enter_context(socket.socket(family))
                connection.connect((host, house.controller.port))
                thief = stack.enter_context(socket.socket(family))
                thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                with pytest.raises(OSError, match="in use"):
                    thief.bind((host, house.controller.port))
        with house.analyst() as ana:
            assert ana.datasets()
    finally:
        house.stop()


@each_family
def test_s01_two_servers_of_ours_do_not_share_a_port(family):
    host = f"[{LOOPBACK[family]}]" if family == socket.AF_INET6 else LOOPBACK[family]
    one, other = (grpc.server(None, options=OPTIONS) for _ in range(2))
    port = bind(one, f"{host}:0", None)
    with pytest.raises(InvalidInputError, match="is in use"):
        bind(other, f"{host}:{port}", None)


@needs_ipv6
@each_family
def test_s01_metrics_and_page_too(tmp_path, family):
    house = build(tmp_path)
    with held(family) as port:
        with house.settings_file.open("a") as settings:
            settings.write(f'\n[metrics]\naddress = "localhost:{port}"\n')
        with pytest.raises(InvalidInputError, match=r"metrics\.address: is in use"):
            house.start()
        for field in ("page.address", "--host"):
            with pytest.raises(InvalidInputError, match=f"{field}: is in use"):
                bound(f"localhost:{port}", field)


@needs_ipv6
def test_s01_metrics_are_answered_at_both(tmp_path):
    house = build(tmp_path)
    with house.settings_file.open("a") as settings:
        settings.write('\n[metrics]\naddress = "localhost:0"\n')
    house.start()
    try:
        for host in ("127.0.0.1", "[::1]"):
            answer = httpx.get(f"http://{host}:{house.controller.metrics.port}/metrics")
            assert "gencard_operations" in answer.text
    finally:
        house.stop()


@needs_ipv6
@each_family
def test_s01_the_wildcard_address_needs_both_families(family):
    with held(family) as port, pytest.raises(InvalidInputError, match="is in use"):
        bound(f"[::]:{port}", "server.address")


def test_s01_an_address_of_another_machine_and_a_name_without_address_are_refused():
    for address, problem in (
        ("192.0.2.1:0", "is not an address of this machine: 192.0.2.1"),
        ("nowhere.invalid:0", "names a host without address: nowhere.invalid"),
    ):
        with pytest.raises(InvalidInputError, match=problem):
            bound(address, "server.address")


def test_s01_without_ipv6_localhost_is_ipv4(monkeypatch):
    """Many containers are like this; their list of hosts may name ::1 all the same."""
    made = socket.socket

    def without(family=socket.AF_INET, *arguments, **options):
        if family == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return made(family, *arguments, **options)

    monkeypatch.setattr(socket, "socket", without)
    (only,) = bound("localhost:0", "server.address")
    assert only.getsockname()[0] == "127.0.0.1"
    only.close()
