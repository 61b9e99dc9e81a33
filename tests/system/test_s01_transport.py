"""S1, S4, S6, S9, S11, S12: who gets a connection, and how much may come over it."""

import socket
import ssl
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography import x509
from google.longrunning import operations_pb2
from grpc_health.v1 import health_pb2

from gencard.controller.people.keys import issue, new_authority, read_authority, renew
from gencard.controller.service import server
from gencard.core.errors import InvalidInputError
from gencard.v1 import catalog_pb2
from gencard.wire.keys import Role
from tests.system.house import House, build, running
from tests.system.raw_calls import (
    URI,
    Ending,
    call,
    certificate,
    channel_of,
    configure,
    enrolled,
    eventually,
    resident_kib,
)

LIST = "/gencard.v1.CatalogService/ListDatasets"
PROPOSE = "/gencard.v1.NegotiationService/ProposeCard"
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
CANCEL = "/google.longrunning.Operations/CancelOperation"
ANA = URI.format(role="analyst", name="ana")
OK = Ending(grpc.StatusCode.OK).code


def is_healthy(house: House) -> bool:
    return call(house.channel(), CHECK, b"").code is OK


class TestS01Transport:
    def test_s01_a_person_with_a_certificate_gets_through(self, house):
        assert call(house.channel("ana"), LIST, b"").code is OK

    def test_s01_plaintext_is_refused(self, house):
        with grpc.insecure_channel(house.address) as channel:
            assert call(channel, LIST, b"").code is grpc.StatusCode.UNAVAILABLE

    def test_s01_no_certificate_is_refused(self, house):
        assert call(channel_of(house, None), LIST, b"").code is grpc.StatusCode.UNAVAILABLE

    def test_s01_another_authority_is_refused(self, house):
        strangers = new_authority("gencard.local", datetime.now(UTC))
        channel = channel_of(house, issue(strangers, ANA, datetime.now(UTC)))
        assert call(channel, LIST, b"").code is grpc.StatusCode.UNAVAILABLE

    @pytest.mark.parametrize("days", [-200, 30], ids=["expired", "not yet valid"])
    def test_s01_a_certificate_out_of_its_time_is_refused(self, house, days):
        pair = certificate(house, ANA, datetime.now(UTC) + timedelta(days=days))
        assert call(channel_of(house, pair), LIST, b"").code is grpc.StatusCode.UNAVAILABLE

    def test_s01_a_server_certificate_is_nobodys(self, house):
        authority = read_authority(house.folder / "authority")
        pair = issue(authority, ANA, datetime.now(UTC), hosts=("localhost",))
        assert call(channel_of(house, pair), LIST, b"").code is grpc.StatusCode.UNAVAILABLE

    @pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:7443", "example.org:1"])
    def test_s01_plaintext_beyond_loopback_aborts_the_start(self, plain_house, address):
        configure(plain_house, "server", insecure_dev="true")
        plain_house.edit({"address": f'"{address}"'})
        with pytest.raises(InvalidInputError, match=r"server.*loopback"):
            plain_house.start()

    def test_s01_plaintext_on_loopback_serves_the_developer(self, plain_house):
        configure(plain_house, "server", insecure_dev="true").start()
        with grpc.insecure_channel(plain_house.address) as channel:
            assert call(channel, LIST, b"").code is OK


class TestS04Rotation:
    def test_s04_new_certificates_are_served_without_a_restart(self, own_house):
        before = served_serial(own_house)
        channel = own_house.channel()
        assert call(channel, LIST, b"").code is OK
        server = own_house.folder / "server"
        (server / "certificate.pem").write_bytes(b"half a fi")
        assert served_serial(own_house) == before
        authority = read_authority(own_house.folder / "authority")
        uri = URI.format(role="controller", name="controller")
        fresh = issue(authority, uri, datetime.now(UTC), hosts=("localhost", "127.0.0.1"))
        (server / "key.pem").write_bytes(fresh.key_pem)
        (server / "certificate.pem").write_bytes(fresh.certificate_pem)
        assert served_serial(own_house) == fresh.certificate.serial_number != before
        assert call(channel, LIST, b"").code is OK
        assert call(channel_of(own_house, certificate(own_house, ANA)), LIST, b"").code is OK

    def test_s04_a_renewed_certificate_is_served_at_once(self, own_house):
        before = served_serial(own_house)
        renew(own_house.folder, own_house.folder / "server/certificate.pem", now=datetime.now(UTC))
        assert served_serial(own_house) != before
        assert is_healthy(own_house)


def served_serial(house: House) -> int:
    """Serial number of the certificate that the service shows."""
    person = house.person("ana")
    context = ssl.create_default_context(cafile=person / "authority.pem")
    context.load_cert_chain(person / "certificate.pem", person / "key.pem")
    context.set_alpn_protocols(["h2"])
    host, port = house.address.split(":")
    with (
        socket.create_connection((host, int(port)), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        return x509.load_der_x509_certificate(secured.getpeercert(binary_form=True)).serial_number


class TestS06NothingElseIsServed:
    @pytest.mark.parametrize(
        "path",
        [
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            "/grpc.channelz.v1.Channelz/GetServers",
            "/gencard.v1.AdminService/Anything",
        ],
    )
    def test_s06_reflection_channelz_and_strangers_are_unimplemented(self, house, path):
        assert call(house.channel(), path, b"").code is grpc.StatusCode.UNIMPLEMENTED

    def test_s06_health_says_serving_and_no_more(self, house):
        ending = call(house.channel(), CHECK, b"")
        serving = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)
        assert ending.answers == (serving.SerializeToString(),)
        named = health_pb2.HealthCheckRequest(service="gencard.v1.CatalogService")
        assert call(house.channel(), CHECK, named).code is grpc.StatusCode.NOT_FOUND


class TestS09Sizes:
    def test_s09_five_mebibytes_are_refused(self, house):
        big = catalog_pb2.ListDatasetsRequest(page_token="x" * (5 << 20))
        assert call(house.channel(), LIST, big).code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert is_healthy(house)

    def test_s09_a_gzip_bomb_is_refused(self, house):
        bomb = catalog_pb2.ListDatasetsRequest(page_token="\x01" * (100 << 20)).SerializeToString()
        ending = call(house.channel(), LIST, bomb, compression=grpc.Compression.Gzip)
        assert ending.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert is_healthy(house)

    def test_s09_a_long_header_is_refused(self, house):
        ending = call(house.channel(), LIST, b"", metadata=[("x-long", "x" * (64 << 10))])
        assert ending.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert is_healthy(house)

    def test_s09_a_message_of_a_million_parts_is_refused_at_once(self, house):
        parts = b"\x0a\x80\x80\x80\x01" + b"\x1a\x00" * (1 << 20)  # terms of empty cliques
        before = resident_kib()
        ending = call(house.channel(), PROPOSE, parts)
        assert ending.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (ending.reason, is_healthy(house)) == ("TOO_LARGE", True)
        assert resident_kib() - before < 500 << 10


class TestS11Crowds:
    def test_s11_one_identity_has_its_share_and_health_and_cancel_are_free(self, crowded_house):
        ana, aud = crowded_house.channel("ana"), crowded_house.channel("aud")
        with watching(ana, 2):
            refused = call(ana, LIST, b"")
            assert (refused.code, refused.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "SERVICE_BUSY")
            assert call(aud, LIST, b"").code is OK
            self.asks_and_cancels(ana)
        assert eventually(lambda: call(ana, LIST, b"").code is OK)
        self.all_are_gone(crowded_house)

    def test_s11_a_full_house_still_answers_health_and_cancel(self, crowded_house):
        people = [enrolled(crowded_house, name, Role.AUDITOR) for name in ("aud", "bea")]
        channels = [crowded_house.channel(name) for name in ["ana", *people]]
        with watching(channels[0], 2), watching(channels[1], 2):
            refused = call(channels[2], LIST, b"")
            assert (refused.code, refused.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "SERVICE_BUSY")
            self.asks_and_cancels(channels[2])
        assert eventually(lambda: call(channels[2], LIST, b"").code is OK)
        self.all_are_gone(crowded_house)

    @staticmethod
    def all_are_gone(house: House) -> None:
        """A stream that its caller gave up takes a moment to end here."""
        running = house.controller.service.guard._shares._running
        assert eventually(lambda: running.total() == 0)

    @staticmethod
    def asks_and_cancels(channel: grpc.Channel) -> None:
        assert call(channel, CHECK, b"").code is OK
        unknown = operations_pb2.CancelOperationRequest(name="operations/none")
        assert call(channel, CANCEL, unknown).code is grpc.StatusCode.NOT_FOUND


class TestS12Age:
    def test_s12_streams_and_connections_end_at_their_age(self, own_house, monkeypatch):
        """A stream that nobody needs ends with its connection, and its place is free again."""
        young = {"grpc.max_connection_age_ms": 500, "grpc.max_connection_age_grace_ms": 500}
        assert young.keys() <= dict(server.OPTIONS).keys()
        monkeypatch.setattr(server, "OPTIONS", [*(dict(server.OPTIONS) | young).items()])
        own_house.stop()
        own_house.start()
        ending = call(own_house.channel(), WATCH, b"")
        assert ending.code is grpc.StatusCode.UNAVAILABLE
        assert eventually(lambda: is_healthy(own_house))  # connections are young for this call, too


class watching:  # noqa: N801
    """Health watched by some streams that do not end by themselves."""

    def __init__(self, channel: grpc.Channel, streams: int) -> None:
        self.streams = [channel.unary_stream(WATCH)(b"", timeout=120) for _ in range(streams)]

    def __enter__(self) -> None:
        for stream in self.streams:
            next(stream)

    def __exit__(self, *_: object) -> None:
        for stream in self.streams:
            stream.cancel()


@pytest.fixture(scope="module")
def crowded_house(tmp_path_factory):
    house = build(tmp_path_factory.mktemp("crowded"))
    yield configure(house, "server", maximum_concurrent_rpcs=4, per_identity=2).start()
    house.stop()


@pytest.fixture(scope="module")
def own_house(tmp_path_factory):
    with running(tmp_path_factory.mktemp("own")) as house:
        yield house


@pytest.fixture
def plain_house(tmp_path):
    house = build(tmp_path)
    yield house
    house.stop()
