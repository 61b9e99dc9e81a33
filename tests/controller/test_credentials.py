"""Certificates, keys and the people who hold them."""

import os
import shutil
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from gencard.client.credentials import Credentials
from gencard.controller.certificates import (
    issue,
    new_authority,
    new_signing_key,
    public_pem,
    read_authority,
    trust_domain_of,
    write_new,
)
from gencard.controller.enrolment import enrol
from gencard.controller.identities import read_identities
from gencard.controller.keys import public_key, secret_bytes, signing_key
from gencard.controller.renewal import renew
from gencard.core.errors import GencardError, InvalidInputError, StorageError, UnauthenticatedError
from gencard.wire.identity import Identity, Role

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ANA = "spiffe://example/pilot/analyst/ana"


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
            enrol(folder, "ana", Role.ANALYST, "pilot", address="localhost:7443", now=NOW)
        assert not (folder / "people").exists()

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


class TestEnrolment:
    def test_a_person_gets_a_folder_and_is_known_afterwards(self, folder):
        person = enrol(folder, "ana", Role.ANALYST, "pilot", address="localhost:7443", now=NOW)
        assert sorted(path.name for path in person.iterdir()) == [
            "authority.pem",
            "certificate.pem",
            "connection.toml",
            "controller_card_key.pub",
            "key.pem",
            "log_key.pub",
            "signing_key.pem",
            "signing_key.pub",
        ]
        (enrolled,) = read_identities(folder / "identities").values()
        assert enrolled.identity == Identity("example", "pilot", Role.ANALYST, "ana")
        own = signing_key(person / "signing_key.pem", "key").public_key()
        assert enrolled.signing_key.public_bytes_raw() == own.public_bytes_raw()
        certificate = x509.load_pem_x509_certificate((person / "certificate.pem").read_bytes())
        assert uri_of(certificate) == ANA
        key = load_pem_private_key((person / "key.pem").read_bytes(), None)
        assert key.public_key() == certificate.public_key()
        assert mode(person / "signing_key.pem") == mode(person / "key.pem") == 0o600

    def test_nobody_is_enrolled_over_somebody_else(self, folder):
        person = enrol(folder, "ana", Role.ANALYST, "pilot", address="localhost:7443", now=NOW)
        before = (person / "key.pem").read_bytes()
        with pytest.raises(InvalidInputError, match="taken"):
            enrol(folder, "ana", Role.STEWARD, "pilot", address="localhost:7443", now=NOW)
        assert (person / "key.pem").read_bytes() == before

    def test_a_full_disk_leaves_nobody_half_enrolled(self, folder, monkeypatch):
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("gencard.controller.enrolment.identity_text", full)
        with pytest.raises(StorageError):
            enrol(folder, "ana", Role.ANALYST, "pilot", address="localhost:1", now=NOW)
        assert not (folder / "people" / "ana").exists()
        monkeypatch.undo()
        assert enrol(folder, "ana", Role.ANALYST, "pilot", address="localhost:1", now=NOW).is_dir()

    def test_s41_new_keys_for_somebody_enrolled_keep_the_old_in_mind(self, folder):
        handed = []
        for again in (False, True, True):
            person = enrol(
                folder, "ana", Role.ANALYST, "pilot", address="localhost:1", now=NOW, again=again
            )
            handed.append((person / "signing_key.pub").read_text())
            assert (person / "earlier_keys.pub").exists() == again
            kept = Credentials.of_folder(shutil.move(person, folder / f"handed-{len(handed)}"))
        (enrolled,) = read_identities(folder / "identities").values()
        keys = (*enrolled.earlier, enrolled.signing_key)
        assert [public_pem(key).decode() for key in keys] == handed
        assert kept.public_signing_keys() == (enrolled.signing_key, *enrolled.earlier)

    @pytest.mark.parametrize(
        ("name", "project", "said"),
        [("bob", "pilot", "not enrolled"), ("ana", "other", "not enrolled"), ("ana", "pilot", "taken")],
    )
    def test_s41_and_for_nobody_else(self, folder, name, project, said):
        """For ana neither in another project, nor while her old folder lies there."""
        person = enrol(folder, "ana", Role.ANALYST, "pilot", address="localhost:1", now=NOW)
        before = (folder / "identities/ana.toml").read_bytes(), (person / "key.pem").read_bytes()
        with pytest.raises(InvalidInputError, match=said):
            enrol(folder, name, Role.ANALYST, project, address="localhost:1", now=NOW, again=True)
        assert before == (
            (folder / "identities/ana.toml").read_bytes(),
            (person / "key.pem").read_bytes(),
        )
        assert not (folder / "people/bob").exists()

    @pytest.mark.parametrize("name", ["", "../ana", "Ana", "a/b", ".ana", "ana\n", "a" * 64])
    def test_a_name_that_is_no_name_is_refused(self, folder, name):
        with pytest.raises(InvalidInputError):
            enrol(folder, name, Role.ANALYST, "pilot", address="localhost:7443", now=NOW)
        assert not (folder / "people").exists()

    def test_a_project_that_is_no_name_is_refused(self, folder):
        with pytest.raises(InvalidInputError):
            enrol(folder, "ana", Role.ANALYST, "analyst/ana/x", address="localhost:7443", now=NOW)

    def test_two_files_for_one_person_are_refused(self, folder):
        enrol(folder, "ana", Role.ANALYST, "pilot", address="localhost:7443", now=NOW)
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
        person = enrol(folder, "ana", Role.ANALYST, "pilot", address="localhost:1", now=NOW)
        sent = tmp_path / "sent.pem"
        sent.write_bytes((person / "certificate.pem").read_bytes())
        assert renew(folder, sent, now=self.LATER) == self.LATER + timedelta(days=90)
        old, new = (
            x509.load_pem_x509_certificate(path.read_bytes())
            for path in (person / "certificate.pem", sent)
        )
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

    def test_a_person_is_no_server(self, folder):
        person = enrol(folder, "ana", Role.ANALYST, "pilot", address="localhost:1", now=NOW)
        with pytest.raises(InvalidInputError, match="person's"):
            renew(folder, person / "certificate.pem", now=NOW, hosts=["localhost"])

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
        monkeypatch.setattr("gencard.controller.renewal.os.replace", full)
        with pytest.raises(StorageError):
            renew(folder, server, now=NOW)
        assert server.read_bytes() == before
        assert len(list(server.parent.iterdir())) == 2
