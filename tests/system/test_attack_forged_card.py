"""Attack: the controller makes a card that the analyst never signed, and shows it as signed by both.

It succeeded where the controller made people's signing keys. It holds against the controller itself, for
the analyst and for anybody who has the analyst's fingerprint from the analyst. Nobody else is protected:
who takes the analyst's key from the controller believes the controller.
"""

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from typer.testing import CliRunner

from gencard.client import Analyst
from gencard.client.agreement import Agreement
from gencard.client.checking.bundle import Bundle, Keys, Outcome, verify, with_fingerprint
from gencard.client.connection.credentials import Credentials, private_key
from gencard.controller.people.enrolment import Enrolled, enrolled_in, identity_text, read_identities
from gencard.controller.people.keys import public_pem
from gencard.controller.shell.main import app as steward_shell
from gencard.core.errors import VerificationError
from gencard.wire import dsse
from gencard.wire.canonical import time_of
from gencard.wire.documents import card_of_document, card_statement
from gencard.wire.dsse import CARD, predicate_of
from tests.system.house import House, build
from tests.system.people import enrolled_person, person, request_in

PEM = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    house = build(tmp_path_factory.mktemp("house"), people=False)
    yield house.start()
    house.stop()


@pytest.fixture(scope="module")
def ana(house, tmp_path_factory) -> Path:
    """Ana's folder, on a machine of her own."""
    return enrolled_person(house, tmp_path_factory.mktemp("elsewhere") / "ana")


@pytest.fixture(scope="module")
def aud(house, tmp_path_factory) -> Path:
    """An auditor's folder, on a third machine."""
    return enrolled_person(house, tmp_path_factory.mktemp("third") / "aud", "aud", "auditor")


@pytest.fixture(scope="module")
def release(house, ana, tmp_path_factory) -> Path:
    """A release that ana kept."""
    with Analyst.connect(house.address, folder=ana) as analyst:
        card = analyst.propose("survey", [("sex", "health")], purpose="A test", rows=100).accept()
        return card.release(rows=50, seed=1, progress=False).save(tmp_path_factory.mktemp("kept") / "r")


def private_keys_in(folder: Path) -> list[Ed25519PrivateKey]:
    """Every signing key that somebody who has the folder can sign with."""
    files = (file.read_bytes() for file in folder.rglob("*") if file.is_file())
    keys = [load_pem_private_key(pem, None) for content in files for pem in PEM.findall(content)]
    return [key for key in keys if isinstance(key, Ed25519PrivateKey)]


def forged(house: House, release: Path, own: Ed25519PrivateKey) -> bytes:
    """A card for a hundred times the rows, signed with everything that the controller has."""
    envelope = (release / "card.json").read_bytes()
    payload, _ = dsse.opened(envelope)
    card = card_of_document(predicate_of(payload, CARD))
    richer = replace(card, terms=replace(card.terms, rows=100 * card.terms.rows))
    signer = json.loads(envelope)["signatures"][1]["keyid"]
    (key,) = {
        one.private_bytes_raw(): one
        for one in private_keys_in(house.folder)
        if dsse.key_id(one.public_key()) == signer
    }.values()
    return dsse.sign(card_statement(richer), [own, key])


def failures(folder: Path, keys: Keys) -> list[str]:
    """Checks that fail, at a time at which the card is in force."""
    payload, _ = dsse.opened((folder / "card.json").read_bytes())
    now = time_of(predicate_of(payload, CARD)["offered"])
    return [c.what for c in verify(Bundle.of([folder]), keys, now) if c.outcome is Outcome.FAILED]


@pytest.fixture
def forgery(house, release, tmp_path):
    """The forged card in a folder of its own, and the key that the controller made for it."""
    own = Ed25519PrivateKey.generate()
    (tmp_path / "forged").mkdir()
    (tmp_path / "forged/card.json").write_bytes(forged(house, release, own))
    return tmp_path / "forged", own


class TestTheController:
    def test_it_has_no_private_key_of_a_person(self, house, ana, release):
        """Neither as PEM, nor as the bytes of the key in any file or in the request that it was sent."""
        held = {dsse.key_id(key.public_key()) for key in private_keys_in(house.folder)}
        own = private_key(ana / "signing_key.pem", "key")
        assert held
        assert dsse.key_id(own.public_key()) not in held
        tls = load_pem_private_key((ana / "key.pem").read_bytes(), None)
        number = tls.private_numbers().private_value.to_bytes(32, "big")
        secrets = [
            form
            for secret in (own.private_bytes_raw(), number)
            for form in (secret, secret.hex().encode(), base64.b64encode(secret))
        ]
        secrets += [PEM.findall((ana / name).read_bytes())[0] for name in ("key.pem", "signing_key.pem")]
        for file in (*house.folder.rglob("*"), *house.folder.parent.glob("*.json")):
            content = file.read_bytes() if file.is_file() else b""
            assert not [secret for secret in secrets if secret in content], file

    def test_in_a_demonstration_it_has_them_and_check_says_so(self, tmp_path):
        """The attack as it was: it still succeeds where people's keys are made by the controller."""
        demo = build(tmp_path)
        held = {dsse.key_id(key.public_key()) for key in private_keys_in(demo.folder)}
        enrolled = read_identities(demo.folder / "identities").values()
        assert {dsse.key_id(entry.signing_key) for entry in enrolled} < held
        said = CliRunner().invoke(steward_shell, ["check", "--config", str(demo.settings_file)]).stdout
        assert "ana: private keys are in this folder" in said

    def test_a_request_holds_no_private_key(self, tmp_path):
        person("enrol", "eve", "-c", tmp_path / "eve")
        own = private_key(tmp_path / "eve/enrolment/signing_key.pem", "key").private_bytes_raw()
        sent = request_in(tmp_path / "eve").read_bytes()
        payload, _ = dsse.opened(sent)
        for secret in (own, own.hex().encode(), base64.b64encode(own), b"PRIVATE"):
            assert secret not in sent
            assert secret not in payload

    def test_an_enrolled_key_of_its_own_making_is_noticed_when_the_analyst_signs(
        self, house, ana, release
    ):
        entry = house.folder / "identities/ana.toml"
        before, own = entry.read_bytes(), Ed25519PrivateKey.generate()
        entry.write_text(identity_text(Enrolled(enrolled_in(entry).identity, own.public_key())))
        try:
            with Analyst.connect(house.address, folder=ana) as analyst:
                card = analyst.propose("survey", [("sex", "work")], purpose="Another", rows=100)
                with pytest.raises(VerificationError):
                    card.accept()
        finally:
            entry.write_bytes(before)


class TestTheAnalyst:
    def test_what_was_signed_verifies_by_the_analysts_own_key(self, ana, release):
        keys = Keys.of(Credentials.of_folder(ana))
        assert failures(release, keys) == []

    def test_a_forged_card_does_not(self, ana, forgery):
        folder, _ = forgery
        assert failures(folder, Keys.of(Credentials.of_folder(ana))) == ["Card, signed by both"]

    def test_nor_over_the_wire(self, house, ana, release, forgery):
        """The service shows the forged card as one that the analyst has agreed to."""
        folder, _ = forgery
        name = json.loads(dsse.opened((release / "card.json").read_bytes())[0])["subject"][0]["name"]
        with Analyst.connect(house.address, folder=ana) as analyst:
            card = analyst.card(name)
            lie = replace(card.negotiation, envelope=(folder / "card.json").read_bytes())
            with pytest.raises(VerificationError, match="no signature by key"):
                Agreement.of(analyst._connection, lie, card.agreement.coding)

    def test_the_shell_says_whose_word_the_key_rests_on(self, ana, release):
        shown = json.loads(person("verify", release, "-c", ana, "--json").stdout)
        (line,) = (check for check in shown if check["what"] == "Analyst's key")
        own = private_key(ana / "signing_key.pem", "key").public_key()
        assert line["detail"].replace(" ", "").startswith(dsse.key_id(own))
        assert "your own" in line["detail"]


class TestAThirdParty:
    """A third person, enrolled here too, to whom the analyst gave the fingerprint."""

    def words(self, folder, key, aud, fingerprint):
        return ("verify", folder, "-c", aud, "--analyst-key", key, "--analyst-fingerprint", fingerprint)

    def test_the_real_card_verifies(self, ana, aud, release):
        own = private_key(ana / "signing_key.pem", "key").public_key()
        said = person(*self.words(release, ana / "signing_key.pub", aud, dsse.key_id(own))).stdout
        assert "Everything agrees" in said
        assert "the fingerprint that you gave" in " ".join(said.split())

    def test_the_forged_one_does_not(self, ana, aud, forgery):
        folder, own = forgery
        (folder.parent / "ana.pub").write_bytes(public_pem(own.public_key()))
        real = dsse.key_id(private_key(ana / "signing_key.pem", "key").public_key())
        refused = person(*self.words(folder, folder.parent / "ana.pub", aud, real), code=1)
        assert "does not have the fingerprint" in refused.output
        person(*self.words(folder, ana / "signing_key.pub", aud, real), code=1)

    def test_who_believes_the_controller_about_the_key_is_not_protected(self, aud, forgery):
        """Limit of the defence: with a key from the controller the forged card looks right."""
        folder, own = forgery
        (folder.parent / "ana.pub").write_bytes(public_pem(own.public_key()))
        keys = Keys.of(Credentials.of_folder(aud))
        assert failures(folder, replace(keys, analyst=(own.public_key(),)))[0] != "Card, signed by both"
        with pytest.raises(VerificationError, match="fingerprint"):
            with_fingerprint(replace(keys, analyst=(own.public_key(),)), "0" * 64)
