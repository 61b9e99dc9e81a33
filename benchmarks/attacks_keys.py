"""Attacks with old keys, by one of two stewards, and on saved documents: end to end, guessing 0."""

import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc

from benchmarks.attack import Attack, Outcome
from gencard.client import Analyst, Steward, install_answer, new_request
from gencard.client.card import Card
from gencard.client.checking.bundle import AnsweredOnline, Bundle, Keys, rebuild, verify
from gencard.client.checking.bundle import Outcome as Verdict
from gencard.client.connection.credentials import Credentials
from gencard.controller.controller_state import ControllerState
from gencard.controller.people.keys import LEAF_LIFE
from gencard.controller.stewards.desk import DecisionChannel
from gencard.core.errors import GencardError
from gencard.wire.keys import Identity, Role
from gencard.wire.steward import Action, Kind
from tests.system.house import House, build, survey
from tests.system.raw_calls import call, certificate, channel_of, eventually
from tests.system.thread_jobs import run_jobs_in_threads

_LIST = "/gencard.v1.CatalogService/ListDatasets"
_WATCH = "/grpc.health.v1.Health/Watch"
_PAIR = [("sex", "health")]
_SIGNED = ("card.json", "checkpoint.json", "receipt.json")


@contextmanager
def _house(policy: str = "true", *stewards: str) -> Iterator[House]:
    """A served controller whose people are sam, ana, aud and these stewards."""
    import pytest  # noqa: PLC0415 - its patch alone; jobs in threads save their processes' start

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        house = build(Path(folder), survey(300))
        house.edit({"automatic": policy})
        house.raise_caps()
        for name in stewards:
            house.enrol(name, Role.STEWARD)
        run_jobs_in_threads(patch)
        try:
            yield house.start()
        finally:
            house.stop()


def _succeeds(deed: Callable[[], object]) -> bool:
    with suppress(GencardError):
        deed()
        return True
    return False


def _again(house: House, name: str) -> Path:
    """A copy of a person's folder, whose keys were replaced since by a decision of the owner's."""
    old = Path(shutil.copytree(house.person(name), house.folder.parent / f"old-{name}"))
    made = new_request(house.person(name), name, again=True)
    given = {"request": made.file.read_text(), "fingerprint": made.fingerprint, "again": True}
    result = _owner_decides(house, Kind.ENROL, f"people/{name}", {**given, "address": house.address})
    install_answer(house.person(name), result["answer"].encode())
    return old


def _state(house: House) -> ControllerState:
    assert house.controller is not None
    return house.controller.controller_state


def _owner_decides(
    house: House, kind: Kind, resource: str, arguments: Mapping[str, Any]
) -> Mapping[str, str]:
    """Result of a decision of the owner of the files."""
    desk = _state(house).desk(DecisionChannel("local", "root", emergency=True))
    who = Identity.of("spiffe://gencard.local/service/steward/sam")
    shown = desk.preview(who, kind, resource, arguments).shown
    return desk.decide(who, Action(kind, resource, arguments, "seen", shown), str(uuid4())).result


def _old_steward(_quick: bool) -> Outcome:
    """Approve a card, disable a person and read the queue, with a copy of the old folder."""
    with _house("false", "eve") as house, house.analyst() as ana:
        card = ana.propose("survey", _PAIR, purpose="To see", rows=50)
        with Steward.connect(house.address, folder=house.person("sam")) as sam:
            review, person = sam.review(card.name), sam.preview("disable", "people/aud")
        old = _again(house, "eve")
        with Steward.connect(house.address, folder=old) as thief:
            deeds: list[Callable[[], object]] = [
                lambda: list(thief.queue()),
                lambda: thief.approve(review, reason="mine"),
                lambda: thief.decide(person, reason="mine"),
            ]
            successes = sum(map(_succeeds, deeds))
    return Outcome(successes, len(deeds), "refused as unknown")


def _old_analyst(_quick: bool) -> Outcome:
    """Read psi and make a release under a card that the thief has open, and by a new connection."""
    with _house() as house:
        with house.analyst() as ana:
            name = _released(ana).name
        old = _again(house, "ana")
        with Analyst.connect(house.address, folder=old) as thief:
            deeds: list[Callable[[], object]] = [
                lambda: thief.card(name).psi,
                lambda: thief.card(name).generate(10, seed=2, progress=False),
                lambda: thief.propose("survey", _PAIR, purpose="Mine"),
            ]
            successes = sum(map(_succeeds, deeds))
    return Outcome(successes, len(deeds), "refused as unknown")


def _released(ana: Analyst) -> Card:
    card = ana.propose("survey", _PAIR, purpose="To see", rows=50).accept()
    card.generate(10, seed=1, progress=False)
    return card


def _ended_certificate(_quick: bool) -> Outcome:
    """Call over a connection, and read from a stream, that were opened before the certificate ended."""
    with _house() as house:
        begins = datetime.now(UTC) - LEAF_LIFE + timedelta(seconds=3)
        pair = certificate(house, "spiffe://gencard.local/pilot/analyst/ana", begins)
        opened = channel_of(house, pair, ("grpc.use_local_subchannel_pool", 1))
        watch: Any = opened.unary_stream(_WATCH)
        stream = watch(b"", timeout=30)
        next(stream)
        eventually(lambda: datetime.now(UTC) > pair.certificate.not_valid_after_utc)
        served = bool(call(opened, _LIST, b"").answers)
        try:
            lasts = not list(stream)
        except grpc.RpcError as error:
            lasts = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    return Outcome(served + lasts, 2, "the call is refused, the stream ends")


def _one_of_two(_quick: bool) -> Outcome:
    """Disable the other steward, enrol an analyst, and give an analyst other keys, alone."""
    with _house("false\nstewards = 2", "eve") as house:
        tries: list[tuple[str, str, dict[str, Any]]] = []
        for name, again in (("ben", False), ("ana", True)):
            made = new_request(house.folder.parent / f"new-{name}", name)
            given: dict[str, Any] = {
                "request": made.file.read_text(),
                "fingerprint": made.fingerprint,
                "address": "localhost:1",
            }
            given |= {"again": True} if again else {"role": "analyst", "project": "survey"}
            tries.append(("enrol", f"people/{name}", given))
        tries.append(("disable", "people/eve", {}))
        with Steward.connect(house.address, folder=house.person("sam")) as sam:
            successes = sum(_is_done(sam, *deed) for deed in [*tries, *tries])
    return Outcome(successes, 2 * len(tries), "each waits for another steward")


def _is_done(sam: Steward, kind: str, resource: str, arguments: Mapping[str, Any]) -> bool:
    """Whether one steward's decision has its effect."""
    with suppress(GencardError):
        return sam.decide(sam.preview(kind, resource, arguments), reason="mine").done
    return False


@contextmanager
def _saved() -> Iterator[tuple[Path, Keys, House, str]]:
    """A saved release, the keys of its analyst, and the card's name."""
    with _house() as house, house.analyst() as ana, tempfile.TemporaryDirectory() as folder:
        card = ana.propose("survey", [*_PAIR, ("sex", "work")], purpose="To see", rows=50).accept()
        card.release(rows=20, seed=1, progress=False).save(Path(folder, "kept"))
        keys = Keys.of(Credentials.of_folder(house.person("ana")))
        yield Path(folder, "kept"), keys, house, card.name


def _is_verified(folder: Path, keys: Keys, online: AnsweredOnline | None = None) -> bool:
    """Whether no check fails."""
    with suppress(GencardError):
        checks = verify(Bundle.of([folder]), keys, datetime.now(UTC), online)
        return all(check.outcome is not Verdict.FAILED for check in checks)
    return False


def _is_replayed(folder: Path, keys: Keys) -> bool:
    with suppress(GencardError):
        bundle = Bundle.of([folder])
        if not bundle.damaged:
            rebuild(bundle, keys)
            return True
    return False


def _mutated(content: bytes, rng: random.Random) -> bytes:
    """Other bytes: one replaced, added or removed, or the same value in another form."""
    while True:
        place, value = rng.randrange(len(content)), json.loads(content)
        part = bytes([rng.randrange(256)])
        other = rng.choice(
            [
                content[:place] + part + content[place + 1 :],
                content[:place] + part + content[place:],
                content[:place] + content[place + 1 :],
                content[:place] + b" " + content[place:],
                json.dumps(value, indent=rng.choice([None, 1])).encode(),
                json.dumps({**value, rng.choice("xyz"): ""}, separators=(",", ":")).encode(),
                content + rng.choice([b"\n", b" ", b"\0", b"{}"]),
            ]
        )
        if other != content:
            return other


def _with_other_signers(content: bytes, rng: random.Random) -> bytes:
    """An envelope with another list of signatures."""
    document = json.loads(content)
    signed, entries = document["signatures"], document["signatures"]
    stranger = {"keyid": rng.randbytes(32).hex(), "sig": rng.choice(signed)["sig"]}
    while entries == signed:
        entries = rng.sample([*signed, stranger, *signed], rng.randint(len(signed), len(signed) + 2))
    document["signatures"] = entries
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _signatures(quick: bool) -> Outcome:
    """Exchange the lists of signatures of a saved release, and single bytes of its signed documents."""
    rng, successes, tries = random.Random(1), 0, 1_000 if quick else 5_600
    with _saved() as (folder, keys, _house, _name):
        for number in range(tries):
            name = rng.choice(_SIGNED)
            content = (folder / name).read_bytes()
            change = _with_other_signers if number % 2 else _mutated
            successes += _is_verified_with(folder, name, change(content, rng), keys)
    return Outcome(successes, tries, "all refused by verify")


def _is_verified_with(folder: Path, name: str, other: bytes, keys: Keys) -> bool:
    """Whether a folder is verified with other bytes in one file, which is put back."""
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(other)
    try:
        return _is_verified(folder, keys)
    finally:
        (folder / name).write_bytes(content)


def _psi(quick: bool) -> Outcome:
    """Change the bytes of psi.json; the attack succeeds if replay or verify accepts them."""
    rng, successes, tries = random.Random(2), 0, 400 if quick else 800
    with _saved() as (folder, keys, _house, _name):
        content = (folder / "psi.json").read_bytes()
        for _ in range(tries):
            (folder / "psi.json").write_bytes(_mutated(content, rng))
            successes += _is_replayed(folder, keys) or _is_verified(folder, keys)
        (folder / "psi.json").write_bytes(content)
        assert _is_replayed(folder, keys)
        assert _is_verified(folder, keys)
    return Outcome(successes, tries, "all refused by replay and by verify")


def _revoked(_quick: bool) -> Outcome:
    """Pass off a release of a revoked card as good: online, beside its revocation, offline undated."""
    with _saved() as (folder, keys, house, name):
        _owner_decides(house, Kind.REVOKE, name, {"remark": "An error"})
        with house.analyst() as ana:
            facts = tuple(ana.card(name).negotiation.attestations)
        online = _is_verified(folder, keys, AnsweredOnline(facts, is_revoked=True))
        hidden = _is_verified(folder, keys, AnsweredOnline((), is_revoked=True))
        checks = verify(Bundle.of([folder]), keys, datetime.now(UTC))
        undated = not any("as far as these files show" in check.detail for check in checks)
        (folder / "revocation.json").write_bytes(facts[-1])
        beside = _is_verified(folder, keys)
    return Outcome(online + hidden + undated + beside, 4, "reported, or offline with its date")


ATTACKS = (
    Attack("B7", "act with a steward's old folder", "3 of 3", 0, 3, _old_steward),
    Attack("B7", "act with an analyst's old folder", "3 of 3", 0, 3, _old_analyst),
    Attack("B7", "use a connection after its certificate", "2 of 2", 0, 2, _ended_certificate),
    Attack("B8", "change people as one of two stewards", "2 of 2", 0, 6, _one_of_two),
    Attack("B8", "exchange signatures of saved files", "53 of 5600", 0, 1_000, _signatures),
    Attack("B8", "replay with another psi.json", "114 of 800", 0, 400, _psi),
    Attack("B8", "pass off a revoked card's release", "4 of 4", 0, 4, _revoked),
)
