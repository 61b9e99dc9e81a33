"""S41: a history of keys is an unbroken chain, and each key speaks for its own period alone."""

import json
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.errors import VerificationError
from gencard.wire import dsse
from gencard.wire.dsse import CARD, KEY_CHANGE, RECEIPT, statement
from gencard.wire.keys import CARDS, LOG, KeyChange, KeyHistory, changes_file, changes_in, key_change_of

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32) for seed in range(1, 6)]
PUBLIC = [key.public_key() for key in KEYS]
TIMES = [f"2026-11-{day}T12:00:00Z" for day in (10, 12, 14, 16)]
"""When each key but the first took over."""


def link(number: int, *, use: str = CARDS, **other: object) -> bytes:
    """Change ``number``, from 1, of the sample chain."""
    plain = KeyChange(use, number, PUBLIC[number - 1], PUBLIC[number], TIMES[number - 1])
    return replace(plain, **other).signed(KEYS[number - 1], KEYS[number])


CHAIN = [link(number) for number in range(1, 5)]
OTHER_USE = link(1, use=LOG)


def history(pin: int, links: list[bytes]) -> KeyHistory:
    return KeyHistory(PUBLIC[pin], CARDS).followed(links)


def receipt(day: int, key: int) -> bytes:
    facts = {"time": f"2026-11-{day:02}T12:00:00Z"}
    return dsse.sign(statement(RECEIPT, "a release", facts), [KEYS[key]])


def card(first: int, last: int, key: int) -> bytes:
    facts = {"expires": f"2026-11-{last:02}T12:00:00Z", "offered": f"2026-11-{first:02}T12:00:00Z"}
    return dsse.sign(statement(CARD, "a card", facts), [KEYS[key]])


class TestChain:
    @pytest.mark.parametrize("pin", range(5))
    def test_s41_any_key_of_the_chain_leads_to_all(self, pin):
        found = history(pin, [OTHER_USE, *CHAIN])
        assert [period.key for period in found.periods] == PUBLIC
        assert [period.since for period in found.periods] == ["", *TIMES]
        assert [period.until for period in found.periods] == [*TIMES, ""]

    @given(st.lists(st.sampled_from(range(4)), max_size=6))
    def test_s41_only_the_chain_from_its_beginning_is_one(self, places):
        """A gap, a swap, a link twice: whatever is not a beginning of the chain is refused."""
        links = [CHAIN[place] for place in places]
        if places == list(range(len(places))):
            assert len(history(0, links).changes) == len(places)
        else:
            with pytest.raises(VerificationError):
                history(0, links)

    @given(st.data())
    def test_s41_a_changed_link_is_refused(self, data):
        """Any change of the signed bytes is refused, with the signatures left as they are."""
        payload, signatures = dsse.opened(CHAIN[1])
        place = data.draw(st.integers(0, len(payload) - 1))
        forged = bytearray(payload)
        forged[place] ^= data.draw(st.integers(1, 255))
        with pytest.raises(VerificationError):
            history(0, [CHAIN[0], dsse.envelope_of(bytes(forged), signatures), *CHAIN[2:]])

    @pytest.mark.parametrize("signers", [(KEYS[1],), (KEYS[2],), (KEYS[4], KEYS[2]), (KEYS[1], KEYS[4])])
    def test_s41_a_link_needs_the_key_before_and_its_own(self, signers):
        forged = dsse.sign(key_change_of(CHAIN[1]).statement, signers)
        with pytest.raises(VerificationError, match="no signature by key"):
            history(0, [CHAIN[0], forged])

    def test_s41_a_stranger_cannot_go_on_from_our_key(self):
        """Signed by both its keys, but the first is not the one that was in force."""
        change = KeyChange(CARDS, 2, PUBLIC[3], PUBLIC[4], TIMES[1])
        with pytest.raises(VerificationError, match="breaks the chain"):
            history(0, [CHAIN[0], change.signed(KEYS[3], KEYS[4])])

    def test_s41_a_chain_of_other_keys_does_not_lead_here(self):
        change = KeyChange(CARDS, 1, PUBLIC[3], PUBLIC[4], TIMES[0])
        with pytest.raises(VerificationError, match="does not lead"):
            history(0, [change.signed(KEYS[3], KEYS[4])])

    def test_s41_time_does_not_go_back_and_no_key_comes_back(self):
        with pytest.raises(VerificationError, match="breaks the chain"):
            history(0, [CHAIN[0], link(2, time="2026-11-09T12:00:00Z")])
        back = KeyChange(CARDS, 2, PUBLIC[1], PUBLIC[0], TIMES[1]).signed(KEYS[1], KEYS[0])
        with pytest.raises(VerificationError, match="appears twice"):
            history(0, [CHAIN[0], back])

    @pytest.mark.parametrize("known", range(1, 5))
    def test_s41_what_was_known_is_continued_and_never_shortened(self, known):
        mine = history(0, CHAIN[:known])
        assert mine.continued_by(CHAIN) == history(0, CHAIN)
        assert mine.followed(CHAIN[: known - 1]) == mine
        with pytest.raises(VerificationError, match="shortened"):
            mine.continued_by(CHAIN[: known - 1])

    def test_s41_a_fork_is_refused(self):
        """The holder of a retired key names another successor than the one that is known."""
        forked = KeyChange(CARDS, 1, PUBLIC[0], PUBLIC[4], TIMES[0]).signed(KEYS[0], KEYS[4])
        with pytest.raises(VerificationError, match="forked"):
            history(0, CHAIN[:2]).followed([forked])


class TestForm:
    def test_a_file_of_changes_reads_back(self):
        assert changes_in(changes_file(CHAIN)) == CHAIN

    @pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"keyChanges":3}', b'{"keyChanges":[3]}'])
    def test_what_is_no_such_file_is_refused(self, content):
        with pytest.raises(VerificationError):
            history(0, changes_in(content))

    @pytest.mark.parametrize(
        "wrong",
        [
            {"key": "00"},
            {"key": PUBLIC[2].public_bytes_raw().hex().upper()},
            {"number": "02"},
            {"number": 2},
            {"time": "2026-11-12"},
            {"use": None},
            {"more": "than there should be"},
        ],
        ids=str,
    )
    def test_facts_in_another_form_are_refused(self, wrong):
        facts = json.loads(key_change_of(CHAIN[1]).statement)["predicate"] | wrong
        payload = statement(KEY_CHANGE, "keys/cards", facts, dsse.key_id(PUBLIC[2]))
        with pytest.raises(VerificationError):
            history(0, [CHAIN[0], dsse.sign(payload, KEYS[1:3])])

    def test_a_statement_about_something_else_is_no_change(self):
        with pytest.raises(VerificationError, match="expected type"):
            history(0, [receipt(10, 0)])

    def test_the_subject_is_the_new_key(self):
        document = json.loads(key_change_of(CHAIN[1]).statement)
        assert document["subject"] == [
            {"digest": {"sha256": dsse.key_id(PUBLIC[2])}, "name": "keys/cards"}
        ]
        assert bytes.fromhex(document["predicate"]["key"]) == PUBLIC[2].public_bytes_raw()


class TestPeriods:
    """The second key was in force from the 10th to the 12th of November."""

    @pytest.mark.parametrize("pin", range(5))
    @pytest.mark.parametrize("day", [10, 11, 12])
    def test_s41_a_key_speaks_in_its_period(self, day, pin):
        envelope = receipt(day, 1)
        assert history(pin, CHAIN).payload_of(envelope) == dsse.opened(envelope)[0]

    @pytest.mark.parametrize(("day", "said"), [(9, "not yet valid"), (13, "no longer valid")])
    def test_s41_and_in_no_other(self, day, said):
        with pytest.raises(VerificationError, match=said):
            history(0, CHAIN).payload_of(receipt(day, 1))

    @pytest.mark.parametrize(
        ("first", "last", "said"),
        [
            (5, 8, "not yet valid"),
            (5, 10, None),
            (5, 30, None),
            (12, 30, None),
            (13, 30, "no longer valid"),
        ],
    )
    def test_s41_a_card_was_signed_between_its_offer_and_its_end(self, first, last, said):
        envelope = card(first, last, 1)
        if said is None:
            assert history(0, CHAIN).payload_of(envelope) == dsse.opened(envelope)[0]
            return
        with pytest.raises(VerificationError, match=said):
            history(0, CHAIN).payload_of(envelope)

    def test_s41_the_first_and_the_last_key_are_bounded_on_one_side(self):
        found = history(0, CHAIN)
        assert found.payload_of(receipt(1, 0))
        assert found.payload_of(receipt(30, 4))
        with pytest.raises(VerificationError, match="no longer"):
            found.payload_of(receipt(30, 0))
        with pytest.raises(VerificationError, match="yet"):
            found.payload_of(receipt(1, 4))

    def test_s41_a_key_from_before_any_rotation_speaks_at_all_times(self):
        found = KeyHistory(PUBLIC[0], CARDS)
        assert [found.payload_of(receipt(day, 0)) for day in (1, 30)]
        with pytest.raises(VerificationError, match="no signature by key"):
            found.payload_of(receipt(1, 1))

    def test_s41_a_statement_without_a_time_is_of_no_period(self):
        timeless = dsse.sign(statement(RECEIPT, "a release", {"rows": "1"}), [KEYS[1]])
        with pytest.raises(VerificationError, match="has no time"):
            history(0, CHAIN).payload_of(timeless)

    def test_s41_a_name_of_a_key_is_no_signature(self):
        payload, signatures = dsse.opened(receipt(11, 3))
        named = {dsse.key_id(PUBLIC[1]): next(iter(signatures.values()))}
        with pytest.raises(VerificationError, match="is wrong"):
            history(0, CHAIN).payload_of(dsse.envelope_of(payload, named))

    def test_s41_strangers_are_not_known(self):
        found = history(0, CHAIN[:2])
        assert [found.knows_signer(receipt(11, key)) for key in range(5)] == [True] * 3 + [False] * 2
