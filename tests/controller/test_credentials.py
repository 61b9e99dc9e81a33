"""Certificates, keys and the people who hold them."""

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from gencard.controller.base.files import public_key, secret_bytes, signing_key
from gencard.controller.people.enrolment import enrol as enrol_request
from gencard.controller.people.enrolment import read_identities
from gencard.controller.people.keys import (
    issue,
    new_authority,
    new_signing_key,
    public_pem,
    read_authority,
    renew,
    trust_domain_of,
    write_new,
)
from gencard.core.errors import GencardError, InvalidInputError, StorageError, UnauthenticatedError
from gencard.wire.keys import EnrolmentAnswer, Identity, Role, request_document, request_of_document

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ANA = "spiffe://example/pilot/analyst/ana"


class Person(NamedTuple):
    """Somebody's private keys, and the steward's answer."""

    tls: ec.EllipticCurvePrivateKey
    signing: Ed25519PrivateKey
    answer: EnrolmentAnswer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    new_authority("example", NOW).write(tmp_path / "authority")
    for name in ("card_key", "log_key"):
        key = new_signing_key(tmp_path / "signing" / f"{name}.pem")
        write_new(tmp_path / "signing" / f"{name}.pub", public_pem(key), private=False)
    return tmp_path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def uri_of(certificate: x509.Certificate) -> str:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    (uri,) = names.get_values_for_type(x509.UniformResourceIdentifier)
    return uri


class TestCertificates:
    def test_a_client_is_who_its_uri_says_for_ninety_days(self):
        pair = issue(new_authority("example", NOW), ANA, NOW)
        assert uri_of(pair.certificate) == ANA
        assert isinstance(pair.key.curve, ec.SECP256R1)
        assert pair.certificate.not_valid_before_utc < NOW
        assert pair.certificate.not_valid_after_utc == NOW + timedelta(days=90)
        uses = pair.certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(uses) == [ExtendedKeyUsageOID.CLIENT_AUTH]

    def test_the_chain_verifies_and_another_authority_does_not(self):
        ours, theirs = new_authority("example", NOW), new_authority("example", NOW)
        leaf = issue(ours, ANA, NOW).certificate
        builder = PolicyBuilder().time(NOW)
        builder.store(Store([ours.certificate])).build_client_verifier().verify(leaf, [])
        with pytest.raises(x509.verification.VerificationError):
            builder.store(Store([theirs.certificate])).build_client_verifier().verify(leaf, [])

    def test_a_server_is_known_by_its_hosts(self):
        authority = new_authority("example", NOW)
        leaf = issue(authority, "spiffe://example/s/controller/c", NOW, hosts=("localhost", "::1"))
        verifier = PolicyBuilder().time(NOW).store(Store([authority.certificate]))
        verifier.build_server_verifier(x509.DNSName("localhost")).verify(leaf.certificate, [])
        with pytest.raises(x509.verification.VerificationError):
            verifier.build_server_verifier(x509.DNSName("other")).verify(leaf.certificate, [])

    def test_an_authority_is_read_back_and_knows_its_trust_domain(self, folder):
        authority = read_authority(folder / "authority")
        assert trust_domain_of(authority) == "example"

    def test_a_certificate_with_another_key_is_no_authority(self, folder):
        other = new_authority("example", NOW)
        (folder / "authority" / "key.pem").write_bytes(other.key_pem)
        with pytest.raises(InvalidInputError, match="not a certificate with its key"):
            read_authority(folder / "authority")

    def test_a_garbled_authority_is_refused(self, folder):
        (folder / "authority" / "certificate.pem").write_bytes(b"garbage")
        with pytest.raises(InvalidInputError):
            read_authority(folder / "authority")


class TestS17:
    @pytest.mark.parametrize("rights", [0o644, 0o640, 0o604, 0o660, 0o610])
    def test_s17_a_key_that_others_may_use_is_refused(self, folder, rights):
        path = folder / "signing" / "card_key.pem"
        path.chmod(rights)
        with pytest.raises(InvalidInputError) as caught:
            signing_key(path, "signing.card_key")
        assert caught.value.fields["field"] == "signing.card_key"
        assert "0600" in str(caught.value)

    def test_s17_the_authority_is_held_to_it_too(self, folder):
        (folder / "authority" / "key.pem").chmod(0o644)
        with pytest.raises(InvalidInputError, match="0600"):
            enrol(folder)
        assert not (folder / "identities").exists()

    def test_s17_private_files_are_made_private_whatever_the_umask(self, tmp_path):
        before = os.umask(0)
        try:
            new_authority("example", NOW).write(tmp_path / "authority")
            new_signing_key(tmp_path / "new" / "key.pem")
        finally:
            os.umask(before)
        assert mode(tmp_path / "authority" / "key.pem") == 0o600
        assert mode(tmp_path / "new" / "key.pem") == 0o600
        assert mode(tmp_path / "new") == 0o700

    @pytest.mark.parametrize("content", [b"", b"garbage", b"x" * (1 << 16)])
    def test_what_is_no_key_is_refused(self, tmp_path, content):
        write_new(tmp_path / "key.pem", content)
        with pytest.raises(InvalidInputError):
            signing_key(tmp_path / "key.pem", "key")

    def test_a_key_of_another_kind_is_refused(self, tmp_path):
        write_new(tmp_path / "key.pem", new_authority("example", NOW).key_pem)
        with pytest.raises(InvalidInputError, match="Ed25519"):
            signing_key(tmp_path / "key.pem", "key")

    @pytest.mark.parametrize("name", ["absent", "."])
    def test_a_missing_file_or_a_folder_is_refused(self, tmp_path, name):
        with pytest.raises(InvalidInputError):
            secret_bytes(tmp_path / name, "key")

    def test_a_public_key_that_is_none_is_refused(self):
        with pytest.raises(InvalidInputError, match="public key"):
            public_key("garbage", "ana.toml.signing_key")


def enrol(folder: Path, name: str = "ana", project: str = "pilot", **kwargs) -> Person:
    """Enrol somebody whose keys are made here, as on a machine of their own."""
    tls = kwargs.pop("tls", None) or ec.generate_private_key(ec.SECP256R1())
    signing = kwargs.pop("signing", None) or Ed25519PrivateKey.generate()
    request = request_of_document(request_document(tls, signing, name=name))
    given = {"role": "analyst", "project": project, "address": "localhost:7443", "now": NOW} | kwargs
    answer = enrol_request(folder, request, read_authority(folder / "authority"), **given)
    return Person(tls, signing, answer)


class TestEnrolment:
    def test_a_person_gets_a_certificate_and_is_known_afterwards(self, folder):
        person = enrol(folder)
        (enrolled,) = read_identities(folder / "identities").values()
        assert enrolled.identity == Identity("example", "pilot", Role.ANALYST, "ana")
        assert enrolled.signing_key == person.signing.public_key() == person.answer.signing_key
        assert uri_of(person.answer.certificate) == ANA
        assert person.answer.certificate.public_key() == person.tls.public_key()
        assert person.answer.authority == read_authority(folder / "authority").certificate
        assert person.answer.address == "localhost:7443"

    def test_nobody_is_enrolled_over_somebody_else(self, folder):
        enrol(folder)
        before = (folder / "identities/ana.toml").read_bytes()
        with pytest.raises(InvalidInputError, match="taken: analyst in project pilot"):
            enrol(folder, role="steward")
        with pytest.raises(InvalidInputError, match="already enrolled with another signing key"):
            enrol(folder)
        assert (folder / "identities/ana.toml").read_bytes() == before

    def test_a_full_disk_leaves_nobody_half_enrolled(self, folder, monkeypatch):
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("gencard.controller.people.enrolment.identity_text", full)
        with pytest.raises(StorageError):
            enrol(folder)
        assert read_identities(folder / "identities") == {}
        monkeypatch.undo()
        assert enrol(folder)

    def test_the_same_keys_get_a_new_certificate_and_change_nothing_else(self, folder):
        person = enrol(folder)
        before = (folder / "identities/ana.toml").stat()
        again = enrol(folder, tls=person.tls, signing=person.signing, role=None, project=None)
        assert again.answer.certificate != person.answer.certificate
        assert uri_of(again.answer.certificate) == ANA
        assert (folder / "identities/ana.toml").stat() == before

    def test_s41_new_keys_for_somebody_enrolled_keep_the_old_in_mind(self, folder):
        people = [enrol(folder, again=again) for again in (False, True, True)]
        (enrolled,) = read_identities(folder / "identities").values()
        keys = (*enrolled.earlier, enrolled.signing_key)
        assert keys == tuple(person.signing.public_key() for person in people)

    def test_s41_a_key_that_was_replaced_does_not_come_back(self, folder):
        first = enrol(folder)
        enrol(folder, again=True)
        with pytest.raises(InvalidInputError, match="was replaced by a newer key"):
            enrol(folder, tls=first.tls, signing=first.signing, again=True)

    @pytest.mark.parametrize(
        ("name", "project", "problem"),
        [("bob", "pilot", "bob is not enrolled"), ("ana", "other", "is taken")],
    )
    def test_s41_and_for_nobody_else(self, folder, name, project, problem):
        enrol(folder)
        before = (folder / "identities/ana.toml").read_bytes()
        with pytest.raises(InvalidInputError, match=problem):
            enrol(folder, name, project, again=True)
        assert (folder / "identities/ana.toml").read_bytes() == before
        assert not (folder / "identities/bob.toml").exists()

    def test_a_signing_key_belongs_to_one_identity(self, folder):
        """Otherwise a card of one could be shown as signed by the other; replaced keys count too."""
        ana = enrol(folder)
        enrol(folder, again=True)
        with pytest.raises(InvalidInputError, match="belongs to ana"):
            enrol(folder, "bob", signing=ana.signing)

    @pytest.mark.parametrize("role", [None, "controller", "visitor", ""])
    def test_a_role_that_no_person_has_is_refused(self, folder, role):
        with pytest.raises(InvalidInputError, match="role"):
            enrol(folder, role=role)
        assert not (folder / "identities").exists()

    @pytest.mark.parametrize("name", ["", "../ana", "Ana", "a/b", ".ana", "ana\n", "a" * 64])
    def test_a_name_that_is_no_name_is_refused(self, folder, name):
        with pytest.raises(InvalidInputError):
            enrol(folder, name)
        assert not (folder / "identities").exists()

    def test_a_project_that_is_no_name_is_refused(self, folder):
        with pytest.raises(InvalidInputError):
            enrol(folder, project="analyst/ana/x")

    def test_two_files_for_one_person_are_refused(self, folder):
        enrol(folder)
        text = (folder / "identities" / "ana.toml").read_text()
        (folder / "identities" / "again.toml").write_text(text)
        with pytest.raises(InvalidInputError, match="same identity"):
            read_identities(folder / "identities")

    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ("uri = 'x'\n", InvalidInputError),
            ("uri = 'x'\nsigning_key = 'CANARY'\n", UnauthenticatedError),
            (f"uri = '{ANA}'\nsigning_key = 'CANARY'\n", InvalidInputError),
        ],
    )
    def test_a_malformed_entry_is_refused(self, tmp_path, text, kind):
        (tmp_path / "ana.toml").write_text(text)
        with pytest.raises(kind) as caught:
            read_identities(tmp_path)
        assert isinstance(caught.value, GencardError)
        assert "CANARY" not in str(caught.value)


class TestRenewal:
    LATER = NOW + timedelta(days=100)

    @pytest.fixture
    def server(self, folder):
        authority = read_authority(folder / "authority")
        issue(authority, ANA, NOW, hosts=("localhost", "127.0.0.1")).write(folder / "server")
        return folder / "server" / "certificate.pem"

    def test_a_person_goes_on_with_the_same_key(self, folder, tmp_path):
        issued = enrol(folder).answer.certificate.public_bytes(Encoding.PEM)
        sent = tmp_path / "sent.pem"
        sent.write_bytes(issued)
        assert renew(folder, sent, now=self.LATER) == self.LATER + timedelta(days=90)
        old, new = map(x509.load_pem_x509_certificate, (issued, sent.read_bytes()))
        assert new.public_key() == old.public_key()
        assert new.extensions.get_extension_for_class(
            x509.ExtendedKeyUsage
        ) == old.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
        assert uri_of(new) == uri_of(old)
        assert new.not_valid_before_utc > old.not_valid_after_utc
        new.verify_directly_issued_by(read_authority(folder / "authority").certificate)

    @pytest.mark.parametrize(
        ("hosts", "names", "addresses"),
        [
            ((), ["localhost"], ["127.0.0.1"]),
            (("data.example", "192.0.2.7"), ["data.example"], ["192.0.2.7"]),
        ],
    )
    def test_a_server_keeps_its_hosts_or_gets_others(self, folder, server, hosts, names, addresses):
        renew(folder, server, now=self.LATER, hosts=hosts)
        new = x509.load_pem_x509_certificate(server.read_bytes())
        served = new.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert served.get_values_for_type(x509.DNSName) == names
        assert [str(one) for one in served.get_values_for_type(x509.IPAddress)] == addresses
        assert uri_of(new) == ANA
        assert sorted(path.name for path in server.parent.iterdir()) == ["certificate.pem", "key.pem"]

    def test_a_person_is_no_server(self, folder, tmp_path):
        issued = enrol(folder).answer.certificate.public_bytes(Encoding.PEM)
        (tmp_path / "sent.pem").write_bytes(issued)
        with pytest.raises(InvalidInputError, match="service's certificate"):
            renew(folder, tmp_path / "sent.pem", now=NOW, hosts=["localhost"])

    def test_what_this_authority_did_not_issue_stays_as_it_is(self, folder, tmp_path):
        issue(new_authority("example", NOW), ANA, NOW).write(tmp_path / "strange")
        (tmp_path / "garbage.pem").write_bytes(b"garbage")
        for name in ("strange/certificate.pem", "garbage.pem", "authority/certificate.pem"):
            before = (folder / name).read_bytes()
            with pytest.raises(InvalidInputError, match="not issued"):
                renew(folder, folder / name, now=NOW)
            assert (folder / name).read_bytes() == before
        with pytest.raises(InvalidInputError, match="there is no file"):
            renew(folder, tmp_path / "absent.pem", now=NOW)

    def test_a_full_disk_leaves_the_old_one(self, folder, server, monkeypatch):
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        before = server.read_bytes()
        monkeypatch.setattr("gencard.controller.people.keys.os.replace", full)
        with pytest.raises(StorageError):
            renew(folder, server, now=NOW)
        assert server.read_bytes() == before
        assert len(list(server.parent.iterdir())) == 2
