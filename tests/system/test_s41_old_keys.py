"""S41: keys that were replaced open nothing, and a certificate counts within its time alone."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from gencard.client import Analyst, Steward, install_answer, new_request, renewal_request
from gencard.controller.people.keys import (
    LEAF_LIFE,
    KeyPair,
    certify,
    issue,
    new_authority,
    read_authority,
)
from gencard.controller.service import access
from gencard.controller.service.access import Caller
from gencard.controller.shell.main import app
from gencard.core.errors import UnauthenticatedError
from gencard.v1 import audit_pb2
from gencard.wire.keys import Identity, Role
from gencard.wire.steward import Kind
from tests.system.house import House, build
from tests.system.people import answered, request_in
from tests.system.raw_calls import call, certificate, channel_of, eventually, methods, own_key
from tests.system.stewards import Steward as LocalSteward

LIST = "/gencard.v1.CatalogService/ListDatasets"
WATCH = "/grpc.health.v1.Health/Watch"
LENT = "/gencard.v1.AuditService/RunBlackBox"
NO_SUBCHANNELS = ("grpc.use_local_subchannel_pool", 1)


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    built = build(tmp_path_factory.mktemp("old"))
    built.edit({"automatic": "false"})
    yield built.start()
    built.stop()


@pytest.fixture
def name(house, request):
    """A person whom no other test enrols."""
    return f"{request.node.name.partition('[')[0][-40:].replace('_', '-')}{len(list(people(house)))}"


def people(house: House):
    return (house.folder / "identities").glob("*.toml")


def again(house: House, name: str) -> Path:
    """A copy of a person's folder, whose keys the person has replaced since."""
    old = Path(shutil.copytree(house.person(name), house.folder.parent / f"old-{name}"))
    new_request(house.person(name), name, again=True)
    install_answer(house.person(name), answered(house, request_in(house.person(name)), "--again"))
    return old


def channel(house: House, folder: Path) -> grpc.Channel:
    """A channel with the certificate in a folder, on a connection of its own."""
    files = ("authority.pem", "key.pem", "certificate.pem")
    credentials = grpc.ssl_channel_credentials(*((folder / file).read_bytes() for file in files))
    return grpc.secure_channel(house.address, credentials, [NO_SUBCHANNELS])


def refused(opened: grpc.Channel, path: str = LIST) -> bool:
    ending = call(opened, path, b"")
    return (ending.code, ending.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")


class TestReplacedKeys:
    @pytest.mark.parametrize("role", [Role.STEWARD, Role.ANALYST, Role.AUDITOR])
    def test_s41_an_old_folder_opens_no_method(self, house, name, role):
        house.enrol(name, role)
        old = again(house, name)
        with channel(house, house.person(name)) as own:
            assert call(own, LIST, b"").answers
        for (
            path
        ) in methods():  # each on a connection of its own: refused calls take their places for 1 s
            with channel(house, old) as thief:
                assert refused(thief, path), path

    def test_s41_an_old_folder_of_a_steward_decides_nothing(self, house, name):
        house.enrol(name, Role.STEWARD)
        old = again(house, name)
        with house.analyst() as ana:
            card = ana.propose("survey", [("sex", "health")], purpose="A test")
        with Steward.connect(house.address, folder=house.person("sam")) as sam:
            review, person = sam.review(card.name), sam.preview("disable", "people/ana")
        with Steward.connect(house.address, folder=old) as thief:
            for deed in (
                lambda: list(thief.queue()),
                lambda: thief.approve(review, reason="mine"),
                lambda: thief.decide(person, reason="mine"),
            ):
                with pytest.raises(UnauthenticatedError):
                    deed()
        with house.analyst() as ana:
            assert ana.card(card.name).state == "requested"

    def test_s41_an_old_folder_of_an_analyst_reads_and_makes_nothing(self, house, name):
        house.enrol(name)
        with house.analyst(name) as analyst:
            card = analyst.propose("survey", [("sex", "health")], purpose="A test", rows=50)
            LocalSteward(house.controller.controller_state).approve(card.name)
            card.refresh().accept()
            card.generate(10, seed=1, progress=False)
        old = again(house, name)
        with Analyst.connect(house.address, folder=old) as thief:
            for deed in (
                lambda: thief.card(card.name),
                lambda: list(thief.datasets()),
                lambda: thief.propose("survey", [("sex",)], purpose="Mine"),
            ):
                with pytest.raises(UnauthenticatedError):
                    deed()
        with house.analyst(name) as analyst:
            assert len(analyst.card(card.name).generate(10, seed=2, progress=False)) == 10

    def test_s41_a_card_that_the_thief_has_open_gives_nothing_more(self, house, name):
        house.enrol(name)
        with house.analyst(name) as thief:
            card = thief.propose("survey", [("sex", "health")], purpose="A test", rows=50)
            LocalSteward(house.controller.controller_state).approve(card.name)
            card.refresh().accept()
            again(house, name)
            for deed in (
                card.refresh,
                lambda: card.psi,
                lambda: card.generate(10, seed=1, progress=False),
            ):
                with pytest.raises(UnauthenticatedError):
                    deed()

    def test_s41_a_connection_from_before_ends_with_its_next_call(self, house, name):
        """Streams of a watcher and of a lent black box end by themselves."""
        house.enrol(name)
        with channel(house, house.person(name)) as opened:
            assert call(opened, LIST, b"").answers
            stream = opened.unary_stream(WATCH)(b"", timeout=120)
            next(stream)
            again(house, name)
            assert refused(opened)
            with pytest.raises(grpc.RpcError) as ended:
                list(stream)
        assert ended.value.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAUTHENTICATED)

    def test_s41_a_lent_black_box_is_lent_no_longer(self, house, name):
        house.enrol(name)
        start = audit_pb2.RunBlackBoxRequest(
            start=audit_pb2.RunBlackBoxStart(card="datasets/survey/cards/0123456789abcdef", rows=1)
        )

        def requests():
            """The first message comes once the keys are replaced."""
            again(house, name)
            yield start.SerializeToString()

        with channel(house, house.person(name)) as opened:
            assert call(opened, LIST, b"").answers
            stub = opened.stream_stream(LENT)
            with pytest.raises(grpc.RpcError) as ended:
                list(stub(requests(), timeout=60))
        assert ended.value.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAUTHENTICATED)

    def test_s41_a_renewed_certificate_keeps_the_key_and_the_connection(self, house, name):
        house.enrol(name)
        with channel(house, house.person(name)) as opened:
            assert call(opened, LIST, b"").answers
            request = renewal_request(house.person(name))
            install_answer(house.person(name), answered(house, request.file))
            assert call(opened, LIST, b"").answers
            with channel(house, house.person(name)) as fresh:
                assert call(fresh, LIST, b"").answers


class TestOtherCertificates:
    """Certificates of the right authority with the right name, for keys that are not the newest."""

    def test_s41_a_certificate_for_a_key_that_was_never_enrolled(self, house):
        """The thief of the authority's key would issue such a certificate."""
        authority = read_authority(house.folder / "authority")
        uri = "spiffe://gencard.local/pilot/steward/sam"
        assert refused(channel_of(house, issue(authority, uri, datetime.now(UTC))))

    def test_s41_a_certificate_of_another_persons_key(self, house, name):
        house.enrol(name)
        key = own_key(house, name)
        authority = read_authority(house.folder / "authority")
        uri = "spiffe://gencard.local/pilot/steward/sam"
        pair = KeyPair(certify(authority, uri, key.public_key(), datetime.now(UTC)), key)
        assert refused(channel_of(house, pair, NO_SUBCHANNELS))

    def test_s41_a_key_that_was_replaced_in_a_new_certificate(self, house, name):
        house.enrol(name)
        uri, key = f"spiffe://gencard.local/survey/analyst/{name}", own_key(house, name)
        again(house, name)
        authority = read_authority(house.folder / "authority")
        pair = KeyPair(certify(authority, uri, key.public_key(), datetime.now(UTC)), key)
        assert refused(channel_of(house, pair, NO_SUBCHANNELS))

    def test_s41_who_has_no_recorded_key_is_accepted_until_the_next_enrolment(self, house, name):
        house.enrol(name)
        file = house.folder / "identities" / f"{name}.toml"
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(line for line in lines if not line.startswith("tls_keys")))
        authority = read_authority(house.folder / "authority")
        other = issue(authority, f"spiffe://gencard.local/survey/analyst/{name}", datetime.now(UTC))
        with channel(house, house.person(name)) as own:
            assert call(own, LIST, b"").answers
            assert call(channel_of(house, other, NO_SUBCHANNELS), LIST, b"").answers
            checked = CliRunner().invoke(app, ["check", "--config", str(house.settings_file)])
            assert f"{name}: the key of the certificate is not recorded" in checked.output
            request = renewal_request(house.person(name))
            install_answer(house.person(name), answered(house, request.file))
            assert call(own, LIST, b"").answers
            assert refused(channel_of(house, other, NO_SUBCHANNELS))
        checked = CliRunner().invoke(app, ["check", "--config", str(house.settings_file)])
        assert f"{name}: the key" not in checked.output

    def test_s41_disabled_and_enabled_again_with_the_same_key(self, house, name):
        house.enrol(name)
        local = LocalSteward(house.controller.controller_state)
        with channel(house, house.person(name)) as own:
            local.decide(Kind.DISABLE, f"people/{name}")
            assert refused(own)
            local.decide(Kind.ENABLE, f"people/{name}")
            assert call(own, LIST, b"").answers


class TestTime:
    def test_s41_an_ended_certificate_ends_an_open_connection(self, house):
        """The next call is refused, and its stream ends; TLS checks the time only at first."""
        left = timedelta(seconds=3)
        pair = certificate(
            house, "spiffe://gencard.local/pilot/analyst/ana", datetime.now(UTC) - LEAF_LIFE + left
        )
        opened = channel_of(house, pair, NO_SUBCHANNELS)
        assert call(opened, LIST, b"").answers
        stream = opened.unary_stream(WATCH)(b"", timeout=120)
        next(stream)
        with pytest.raises(grpc.RpcError) as ended:
            list(stream)
        assert ended.value.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAUTHENTICATED)
        assert eventually(lambda: datetime.now(UTC) > pair.certificate.not_valid_after_utc)
        assert refused(opened)

    def test_s41_so_does_one_that_is_not_valid_yet(self, house, monkeypatch):
        """The clock was set back."""
        opened = house.channel()
        assert call(opened, LIST, b"").answers
        earlier = datetime.now(UTC) - timedelta(days=1)
        monkeypatch.setattr(house.controller.service.guard, "now", lambda: earlier)
        assert refused(opened)

    @given(st.integers(-400, 400), st.integers(0, 200), st.booleans())
    def test_s41_a_caller_is_checked_by_time_and_key_alike(self, begins, life, admitted):
        now = datetime(2026, 11, 1, tzinfo=UTC)
        start = now + timedelta(seconds=begins)
        identity = Identity.of("spiffe://gencard.local/pilot/analyst/ana")
        caller = Caller(identity, "k", start, start + timedelta(seconds=life))
        is_valid = begins <= 0 <= begins + life and admitted
        try:
            caller.check(lambda *_: admitted, now)
            assert is_valid
        except UnauthenticatedError:
            assert not is_valid

    def test_s41_a_key_of_another_kind_is_no_enrolled_one(self):
        """The fingerprint of such a key is empty, which no recorded key's is."""
        authority = new_authority("gencard.local", datetime.now(UTC))
        pair = issue(authority, "spiffe://gencard.local/pilot/analyst/ana", datetime.now(UTC))
        assert isinstance(pair.key, ec.EllipticCurvePrivateKey)
        assert len(access._caller_in(pair.certificate_pem).tls_key) == 64
