"""S53: a restore that two stewards decide is not decided by one, whatever files are shown."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gencard.controller.backup import BackupList, approved_by
from gencard.controller.people.enrolment import Enrolled
from gencard.core.errors import InvalidInputError, SecondStewardError
from gencard.wire import dsse
from gencard.wire.canonical import time_text
from gencard.wire.dsse import CARD, DOCUMENT, statement
from gencard.wire.keys import LIFE, Identity, RestoreApproval, backup_facts

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEYS = {name: Ed25519PrivateKey.generate() for name in ("sam", "eve", "kim", "ana", "old")}
BACKUP = BackupList({"state.sqlite": "ab" * 32, "releases/r1.rows": "cd" * 32}, 7, time_text(NOW))
OTHER = replace(BACKUP, files={"state.sqlite": "ef" * 32})


def enrolled(name, role="steward", **changes):
    identity = Identity.of(f"spiffe://gencard.local/service/{role}/{name}")
    return Enrolled(identity, KEYS[name].public_key(), **changes)


PEOPLE = {
    one.identity.uri: one
    for one in (
        enrolled("sam", earlier=(KEYS["old"].public_key(),)),
        enrolled("eve"),
        enrolled("kim", disabled=True),
        enrolled("ana", "analyst"),
    )
}


def approval(name, key="", backup=BACKUP, **changes):
    """A steward's approval, which may lie."""
    uri = next(uri for uri in PEOPLE if uri.endswith(f"/{name}"))
    digest = backup_facts(backup.encoded()).digest
    word = RestoreApproval(digest, False, "the disk broke", uri, time_text(NOW))
    return replace(word, **changes).signed(KEYS[key or name])


def approved(*envelopes, people=PEOPLE, backup=BACKUP, complete=False):
    return approved_by(backup, envelopes, people, complete=complete, now=NOW)


def test_s53_two_stewards_restore():
    assert approved(approval("sam"), approval("eve")) == ("sam", "eve")
    both = approval("sam", complete=True), approval("eve", complete=True)
    assert approved(*both, complete=True) == ("sam", "eve")


@pytest.mark.parametrize(
    "envelopes",
    [
        (),
        (approval("sam"),),
        (approval("sam"), approval("sam")),
        (approval("sam"), approval("sam", reason="again")),
    ],
)
def test_s53_one_steward_restores_nothing_alone(envelopes):
    with pytest.raises(SecondStewardError):
        approved(*envelopes)


def changed(envelope, **facts):
    """The facts of an approval changed, under its signature."""
    payload = json.loads(dsse.opened(envelope)[0])
    payload["predicate"] |= facts
    return dsse.envelope_of(json.dumps(payload).encode(), dsse.opened(envelope)[1])


def of_another_kind():
    word = RestoreApproval(backup_facts(BACKUP.encoded()).digest, False, "", "", time_text(NOW))
    return dsse.sign(statement(CARD, "state", DOCUMENT.write(word), word.backup), [KEYS["eve"]])


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        (approval("eve", backup=OTHER), "another backup"),
        (approval("eve", complete=True), "--complete"),
        (approval("eve", time=time_text(NOW - LIFE - timedelta(seconds=1))), "older"),
        (approval("eve", time=time_text(NOW + timedelta(hours=1))), "future"),
        (approval("eve", key="sam"), "current key"),
        (approval("sam", key="old"), "current key"),
        (approval("kim"), "enrolled steward"),
        (approval("ana"), "enrolled steward"),
        (changed(approval("eve", backup=OTHER), backup="0" * 64), "current key"),
        (changed(approval("sam"), steward="spiffe://gencard.local/service/steward/eve"), "current key"),
        (of_another_kind(), "current key"),
        (b"", "current key"),
        (b"{}", "current key"),
        (b"\xff" * 99, "current key"),
    ],
)
def test_s53_what_is_no_word_of_a_second_steward_does_not_count(second, problem):
    """The first approval is right each time; the second is refused aloud, not left out."""
    with pytest.raises(InvalidInputError, match=problem):
        approved(approval("sam"), second)


def test_s53_one_key_under_two_names_is_one_steward():
    """Approvals of this kind could stand in files that were written by hand."""
    twin = replace(
        PEOPLE["spiffe://gencard.local/service/steward/eve"], signing_key=KEYS["sam"].public_key()
    )
    people = PEOPLE | {twin.identity.uri: twin}
    with pytest.raises(SecondStewardError):
        approved(approval("sam"), approval("eve", key="sam"), people=people)


def test_s53_the_digest_is_of_every_file():
    digests = {
        backup_facts(one.encoded()).digest
        for one in (
            BACKUP,
            OTHER,
            replace(BACKUP, entries=8),
            replace(BACKUP, files={**BACKUP.files, "kept/a/b": "00" * 32}),
        )
    }
    assert len(digests) == 4
    for wrong in (b"", b"[]", b"{}", b'{"kind": "gencard.backup.v1"}', b"\xff"):
        with pytest.raises(InvalidInputError):
            backup_facts(wrong)
