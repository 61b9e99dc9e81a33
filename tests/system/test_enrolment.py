"""Enrolment by both shells: keys at the person, a request, the steward's answer, and what goes wrong."""

import shutil
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gencard.client import Analyst, install_answer, new_request, renewal_request
from gencard.client.connection.credentials import PENDING, Credentials
from gencard.controller.drafting.folder import draft
from gencard.controller.people.enrolment import read_identities
from gencard.controller.service.health import is_serving
from gencard.controller.state.log import event_of
from gencard.core.errors import InvalidInputError, UnauthenticatedError
from gencard.wire.dsse import key_id
from gencard.wire.keys import answer_of_document, grouped, request_document, request_of_document
from tests.system.house import House, build
from tests.system.people import answered, enrolled_person, person, request_in, steward


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    house = build(tmp_path_factory.mktemp("house"), people=False)
    yield house.start()
    house.stop()


@pytest.fixture
def ana(house, tmp_path):
    """A person newly enrolled, under a name that no other test has."""
    name = f"ana-{len(list((house.folder / 'identities').glob('*')))}"
    return enrolled_person(house, tmp_path / "ana", name)


def name_of(folder: Path) -> str:
    return Credentials.of_folder(folder).identity().name


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


class TestTheWay:
    def test_from_a_name_to_a_call(self, house, tmp_path):
        said = person("enrol", "bea", "-c", tmp_path / "bea").stdout
        request = request_in(tmp_path / "bea")
        assert grouped(request_of_document(request.read_bytes()).fingerprint) in said
        words = ("enrol", request, "--role", "analyst", "--project", "survey")
        output = ("--output", tmp_path / "bea.json")
        shown = steward(house, *words, *output, typed="y\n")
        assert shown.exit_code == 0, shown.output
        assert grouped(request_of_document(request.read_bytes()).fingerprint) in shown.stdout
        said = person("enrol", "--answer", tmp_path / "bea.json", "-c", tmp_path / "bea").stdout
        assert grouped(answer_of_document((tmp_path / "bea.json").read_bytes()).fingerprint) in said
        assert (
            grouped(answer_of_document((tmp_path / "bea.json").read_bytes()).fingerprint) in shown.stdout
        )
        assert "bea, analyst in project survey" in said
        with Analyst.connect(house.address, folder=tmp_path / "bea") as bea:
            assert [dataset.name for dataset in bea.datasets()] == ["datasets/survey"]

    def test_private_files_are_for_their_owner_alone(self, ana):
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in ana.iterdir()}
        assert stat.S_IMODE(ana.stat().st_mode) == 0o700
        assert modes.pop("key.pem") == modes.pop("signing_key.pem") == 0o600
        assert set(modes) == {
            "authority.pem",
            "certificate.pem",
            "connection.toml",
            "controller_card_key.pub",
            "log_key.pub",
            "signing_key.pub",
        }

    def test_the_log_says_who_was_enrolled_with_which_key(self, house, ana):
        controller_state, name = house.controller.controller_state, name_of(ana)
        with controller_state.database.reading() as tx:
            events = [event_of(entry.body) for entry in controller_state.log.entries(tx)]
        (entry,) = [one for one in events if (one.action, one.resource) == ("enrol", f"people/{name}")]
        own = key_id(Credentials.of_folder(ana).public_signing_keys()[0])
        facts = {"key": own, "kind": "new", "project": "survey", "role": "analyst"}
        assert (entry.action, dict(entry.details)) == ("enrol", facts)
        assert entry.actor.endswith("/steward/sam")

    def test_the_controller_serves_without_the_authoritys_key(self, tmp_path):
        """The controller enrols with the key in a file that is there only meanwhile."""
        file, key = tmp_path / "survey.csv", tmp_path / "stick" / "authority.pem"
        apart = build(tmp_path, people=False)
        shutil.rmtree(apart.folder)
        draft(apart.folder, file, now=datetime.now(UTC), authority_key=key)
        apart.edit({"address": '"localhost:0"'})
        schema = (apart.folder / "schema.toml").read_text()
        (apart.folder / "schema.toml").write_text(schema.replace("reviewed = false", "reviewed = true"))
        try:
            apart.start()
            person("enrol", "ana", "-c", tmp_path / "ana")
            words = ("enrol", request_in(tmp_path / "ana"), "--role", "analyst", "--project", "x")
            missing = steward(apart, *words, typed="y\n").exception
            assert "--authority-key" in str(missing)
            answer = answered(apart, request_in(tmp_path / "ana"), *words[2:], "--authority-key", key)
            install_answer(tmp_path / "ana", answer)
            with Analyst.connect(apart.address, folder=tmp_path / "ana") as ana:
                assert ana.datasets()
            assert is_serving(apart.controller.port, apart.folder / "health")
        finally:
            apart.stop()


class TestTheSteward:
    @pytest.fixture
    def request_file(self, tmp_path):
        return new_request(tmp_path / "eve", "eve", role="steward").file

    def refused(self, house: House, *words: object, typed: str = "") -> str:
        before = contents(house.folder / "identities")
        result = steward(house, "enrol", *words, typed=typed)
        assert result.exit_code == 1
        assert contents(house.folder / "identities") == before
        assert not isinstance(result.exception, AssertionError)
        return result.stdout + str(result.exception)

    def test_the_role_is_the_stewards_to_give(self, house, request_file):
        assert "give --role and --project" in self.refused(house, request_file)
        given = ("--role", "analyst", "--project", "survey")
        assert "analyst (the request says steward)" in self.refused(
            house, request_file, *given, typed="n"
        )

    def test_another_fingerprint_than_was_told(self, house, request_file):
        given = ("--role", "analyst", "--project", "survey", "--fingerprint", "ab" * 32)
        assert "changed in transit" in self.refused(house, request_file, *given)

    def test_a_file_that_is_no_request(self, house, tmp_path, request_file):
        (tmp_path / "x.json").write_bytes(request_file.read_bytes()[:-3])
        assert "not an enrolment request" in self.refused(
            house, tmp_path / "x.json", "--role", "analyst"
        )
        assert "there is no file" in self.refused(house, tmp_path / "typo.json")

    @pytest.mark.parametrize("address", ["0.0.0.0:7443", "[::]:7443", ":7443"])
    def test_an_address_that_names_no_host(self, house, request_file, address):
        given = ("--role", "analyst", "--project", "survey", "--address", address)
        assert "names no host" in self.refused(house, request_file, *given)

    def test_a_name_that_is_taken(self, house, ana, tmp_path):
        name = name_of(ana)
        given = ("--role", "analyst", "--project", "survey")
        thief = new_request(tmp_path / "thief", name).file
        assert "is already enrolled with another signing key" in self.refused(house, thief, *given)
        assert "is taken: analyst" in self.refused(
            house, thief, "--role", "auditor", "--project", "survey"
        )

    def test_a_key_that_another_name_has(self, house, ana, tmp_path):
        shutil.copytree(ana, tmp_path / "copy")
        request = renewal_request(tmp_path / "copy")
        entry = house.folder / "identities" / f"{name_of(ana)}.toml"
        moved = entry.rename(tmp_path / "aside.toml")
        try:
            other = entry.with_name("other.toml")
            other.write_text(moved.read_text().replace(name_of(ana), "other"))
            given = ("--role", "analyst", "--project", "survey")
            assert "belongs to other" in self.refused(house, request.file, *given)
        finally:
            other.unlink()
            moved.rename(entry)


class TestTheAnswer:
    def refused(self, folder: Path, answer: Path | bytes) -> str:
        before = contents(folder)
        with pytest.raises(InvalidInputError) as caught:
            install_answer(folder, answer)
        assert contents(folder) == before
        return str(caught.value)

    def test_for_the_keys_of_another_request(self, house, ana, tmp_path):
        request = new_request(tmp_path / "zoe", "zoe")
        answer = answered(house, request.file, "--role", "analyst", "--project", "survey")
        assert "is for the signing key" in self.refused(ana, answer)
        shutil.rmtree(tmp_path / "zoe")
        assert "there are no keys" in self.refused(tmp_path, answer)
        assert not (tmp_path / "key.pem").exists()

    def test_that_is_none(self, ana, tmp_path):
        for content in (b"", b"{}", b"x" * 100_000):
            (tmp_path / "answer.json").write_bytes(content)
            assert "not an answer" in self.refused(ana, tmp_path / "answer.json")
        assert "cannot read" in self.refused(ana, tmp_path / "typo.json")

    def test_for_another_name(self, house, ana, tmp_path):
        """A steward, or a thief of the authority's key, who makes somebody somebody else."""
        name = name_of(ana)
        entry = house.folder / "identities" / f"{name}.toml"
        moved = entry.rename(tmp_path / "aside.toml")
        try:
            shutil.copytree(ana, tmp_path / "copy")
            (tmp_path / "copy/certificate.pem").unlink()
            (tmp_path / "copy/signing_key.pub").unlink()
            credentials = Credentials.of_folder(ana)
            (tmp_path / "copy" / PENDING).mkdir()
            request = tmp_path / "copy" / PENDING / "other-request.json"
            request.write_bytes(renamed(credentials, "other"))
            answer = answered(house, request, "--role", "analyst", "--project", "survey")
            (house.folder / "identities/other.toml").unlink()
        finally:
            moved.rename(entry)
        assert f"this folder is for {name}" in self.refused(ana, answer)

    def test_of_another_controller(self, house, ana, tmp_path):
        other = build(tmp_path, people=False)
        request = renewal_request(ana)
        answer = answered(other, request.file, "--role", "analyst", "--project", "survey")
        assert "another authority" in self.refused(ana, answer)
        shutil.rmtree(ana / PENDING)


def renamed(credentials: Credentials, name: str) -> bytes:
    """A request for the same keys under another name."""
    tls_key = load_pem_private_key(credentials.key.read_bytes(), None)
    return request_document(tls_key, credentials.private_signing_key(), name=name)


class TestLater:
    def test_a_certificate_is_renewed_for_the_same_keys(self, house, ana):
        before = contents(ana)
        said = person("enrol", "--renew", "-c", ana).stdout
        assert "--answer" in said
        answer = answered(house, request_in(ana))
        person("enrol", "--answer", answer, "-c", ana)
        after = contents(ana)
        assert {name for name in before if before[name] != after[name]} == {"certificate.pem"}
        assert set(after) == set(before)
        with Analyst.connect(house.address, folder=ana) as analyst:
            assert analyst.datasets()

    def test_new_keys_wait_aside_until_the_answer_is_installed(self, house, ana):
        before, old = contents(ana), Credentials.of_folder(ana).public_signing_keys()[0]
        request = new_request(ana, name_of(ana), again=True)
        with Analyst.connect(house.address, folder=ana) as analyst:
            assert analyst.datasets()
        assert contents(ana).items() > before.items()
        with pytest.raises(InvalidInputError, match="without an answer"):
            new_request(ana, name_of(ana), again=True)
        answer = answered(house, request.file, "--again")
        install_answer(ana, answer)
        keys = Credentials.of_folder(ana).public_signing_keys()
        assert [key_id(key) for key in keys] == [request.fingerprint, key_id(old)]
        assert not (ana / PENDING).exists()
        install_answer(ana, answer)  # once more changes nothing
        assert Credentials.of_folder(ana).public_signing_keys() == keys
        enrolled = read_identities(house.folder / "identities")[
            Credentials.of_folder(ana).identity().uri
        ]
        assert (enrolled.signing_key, *enrolled.earlier) == keys

    def test_an_answer_names_no_earlier_key(self, house, ana):
        """Otherwise a controller could pass a key of its own making off as an old one of ana's."""
        answer = answered(house, renewal_request(ana).file)
        assert b"earlier" not in answer.read_bytes()
        install_answer(ana, answer)
        assert not (ana / "earlier_keys.pub").exists()

    def test_keys_in_use_are_not_overwritten(self, ana):
        before = contents(ana)
        with pytest.raises(InvalidInputError, match="use --renew for a new certificate"):
            new_request(ana, name_of(ana))
        assert contents(ana) == before

    def test_who_was_taken_off_the_list_stays_off_it(self, house, ana):
        entry = house.folder / "identities" / f"{name_of(ana)}.toml"
        request = renewal_request(ana)
        kept = entry.read_bytes()
        entry.unlink()
        result = steward(house, "enrol", request.file, typed="y\n")
        assert "is not enrolled yet" in str(result.exception)
        with Analyst.connect(house.address, folder=ana) as analyst, pytest.raises(UnauthenticatedError):
            analyst.datasets()
        entry.write_bytes(kept)

    @pytest.mark.parametrize("words", [("enrol",), ("enrol", "--renew"), ("enrol", "Ana")])
    def test_what_is_missing_is_said(self, tmp_path, words, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert person(*words, code=1).output.count("→") == 1
        assert list(tmp_path.iterdir()) == []
