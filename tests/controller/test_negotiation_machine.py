"""Negotiations and stewardship, without network, against a model: turns, states, etags, time."""

import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from gencard.controller.base.files import signing_key
from gencard.controller.cards.negotiations import Negotiations, Retention
from gencard.controller.people.keys import key_history
from gencard.controller.records.catalogue import Catalogue
from gencard.controller.state.log import verify
from gencard.controller.state.requests import Request
from gencard.controller.wiring.opening import open_controller_state
from gencard.core.card.card import CardRecord, CardState, Turn
from gencard.core.card.terms import Proposal
from gencard.core.errors import (
    CardExpiredError,
    CardStateError,
    GencardError,
    InvalidInputError,
    NotFoundError,
    StaleEtagError,
    VerificationError,
    WrongTurnError,
)
from gencard.wire.dsse import is_signed_by, key_id, opened, signature_of
from gencard.wire.keys import CARDS, LOG, Identity, KeyHistory
from tests.system.house import build
from tests.system.stewards import Steward

DATASET = "datasets/survey"
STEWARD = "spiffe://gencard.local/service/steward/sam"
PEOPLE = {name: Identity.of(f"spiffe://gencard.local/pilot/analyst/{name}") for name in ("ana", "bob")}
VALID_DAYS = 90
ENDED = {CardState.TERMINATED, CardState.EXPIRED, CardState.REVOKED}


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 11, 20, 18, 0, 0, 123_456, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Modelled:
    """Expected state of a card."""

    owner: str
    state: CardState
    expires: datetime | None
    steps: int

    def at(self, now: datetime) -> CardState:
        over = self.expires is not None and now >= self.expires
        return CardState.EXPIRED if over and self.state not in ENDED else self.state


TURN = {CardState.REQUESTED: Turn.CONTROLLER, CardState.OFFERED: Turn.ANALYST}


def proposal(*marginals: tuple[str, ...], dataset: str = DATASET) -> Proposal:
    return Proposal(dataset, "a test", marginals or (("sex",),), "ipf", 100)


def request() -> Request:
    return Request("Test", str(uuid.uuid4()), "0" * 64)


class Machine(RuleBasedStateMachine):
    controller_state, clock, keys = None, None, None
    names = Bundle("names")

    @initialize(automatic=st.booleans())
    def sit_down(self, automatic: bool) -> None:
        catalogue = Catalogue(
            replace(dataset_entry, policy=replace(dataset_entry.policy, automatic=automatic))
            for dataset_entry in self.controller_state.cards.catalogue
        )
        cards = replace(self.controller_state.cards, catalogue=catalogue)
        keys = {PEOPLE[name].uri: key.public_key() for name, key in self.keys.items()}
        self.negotiations = Negotiations(
            self.controller_state.database,
            cards,
            lambda who: keys[who.uri],
            Retention(self.controller_state.database, cards, keep_days=0),
        )
        self.stewardship = Steward(replace(self.controller_state, cards=cards), STEWARD)
        self.automatic = automatic
        self.model: dict[str, Modelled] = {}

    # What people do --------------------------------------------------------------------------

    @rule(target=names, owner=st.sampled_from(list(PEOPLE)))
    def propose(self, owner: str) -> str:
        card = self.negotiations.propose(PEOPLE[owner], proposal(("sex", "health")), request())
        self.model[card.name] = Modelled(owner, CardState.REQUESTED, None, 1)
        if self.automatic:
            self._offer(card.name)
        return card.name

    @rule(name=names, who=st.sampled_from(list(PEOPLE)), fresh=st.booleans(), signed=st.booleans())
    def accept(self, name: str, who: str, fresh: bool, signed: bool) -> None:
        card = self._read(name)
        etag = card.etag if fresh else "stale"
        statement = card.offer.statement if card.offer else b"nothing"
        signature = signature_of(statement if signed else b"something else", self.keys[who])
        error = self._wrong(name, who, fresh) or (None if signed else VerificationError)
        self._attempt(
            error, lambda: self.negotiations.accept(PEOPLE[who], name, etag, signature, request())
        )
        if error is None:
            self.model[name].state = CardState.AGREED
            self.model[name].steps += 2

    @rule(name=names, who=st.sampled_from(list(PEOPLE)), fresh=st.booleans(), same=st.booleans())
    def counter(self, name: str, who: str, fresh: bool, same: bool) -> None:
        etag = self._read(name).etag if fresh else ""
        terms = proposal(("sex",), ("work", "region"), dataset=DATASET if same else "datasets/other")
        error = self._wrong(name, who, fresh) if same else InvalidInputError
        self._attempt(
            error, lambda: self.negotiations.counter(PEOPLE[who], name, etag, terms, request())
        )
        if error is None:
            self.model[name].state, self.model[name].expires = CardState.REQUESTED, None
            self.model[name].steps += 1
            if self.automatic:
                self._offer(name)

    @rule(name=names, who=st.sampled_from(list(PEOPLE)), fresh=st.booleans())
    def terminate(self, name: str, who: str, fresh: bool) -> None:
        etag = self._read(name).etag if fresh else "stale"
        error = self._stranger(name, who, fresh) or self._ended(name)
        self._attempt(error, lambda: self.negotiations.terminate(PEOPLE[who], name, etag, request()))
        if error is None:
            self.model[name].state = CardState.TERMINATED
            self.model[name].steps += 1

    @rule(name=names, other=st.booleans())
    def approve(self, name: str, other: bool) -> None:
        error = None if self._now(name) is CardState.REQUESTED else CardStateError
        move = (
            (lambda: self.stewardship.offer(name, proposal(("region",))))
            if other
            else lambda: self.stewardship.approve(name)
        )
        self._attempt(error, move)
        if error is None:
            self._offer(name)

    @rule(name=names)
    def offer_about_another_dataset(self, name: str) -> None:
        other = proposal(dataset="datasets/other")
        self._attempt(InvalidInputError, lambda: self.stewardship.offer(name, other))

    @rule(name=names)
    def reject(self, name: str) -> None:
        error = None if self._now(name) is CardState.REQUESTED else CardStateError
        self._attempt(error, lambda: self.stewardship.reject(name, "no"))
        if error is None:
            self.model[name].state = CardState.TERMINATED
            self.model[name].steps += 1

    @rule(name=names)
    def revoke(self, name: str) -> None:
        signed = bool(self._read(name).envelope)
        revocable = signed and self._now(name) is not CardState.REVOKED
        error = None if revocable else CardStateError
        self._attempt(error, lambda: self.stewardship.revoke(name, "no longer"))
        if error is None:
            self.model[name].state = CardState.REVOKED
            self.model[name].steps += 1

    @rule(use=st.sampled_from([CARDS, LOG]))
    def rotate(self, use: str) -> None:
        self.stewardship.rotate(use)

    @rule(days=st.sampled_from([1, VALID_DAYS - 1, VALID_DAYS]))
    def wait(self, days: int) -> None:
        self.clock.now += timedelta(days=days)

    # What must hold --------------------------------------------------------------------------

    @invariant()
    def every_card_is_as_modelled(self) -> None:
        for name, modelled in getattr(self, "model", {}).items():
            card = self._read(name)
            state = modelled.at(self.clock.now)
            assert card.state is state
            assert card.turn is TURN.get(state, Turn.NOBODY)
            assert len(card.history) == modelled.steps
            assert bool(card.envelope) == any(step.action == "sign" for step in card.history)
            if card.envelope:
                own = self.keys[modelled.owner].public_key()
                payload, signatures = opened(card.envelope)
                assert next(iter(signatures)) == key_id(own)  # the analyst signs first
                assert is_signed_by(payload, signatures[key_id(own)], own)
                assert self._history(CARDS).payload_of(card.envelope, unknown=1) == card.offer.statement

    @invariant()
    def lists_show_ones_own(self) -> None:
        for name, who in PEOPLE.items():
            listed, _ = (
                self.negotiations.page(who, DATASET, "", 500) if hasattr(self, "model") else ([], "")
            )
            assert {card.analyst for card in listed} <= {who.uri}, name

    def teardown(self) -> None:
        with self.controller_state.database.transaction() as tx:
            self.controller_state.log.checkpoint(tx, self.clock())
            entries, envelopes = (
                list(self.controller_state.log.entries(tx)),
                self.controller_state.log.checkpoints(tx),
            )
        assert verify(entries, envelopes, self._history(LOG)) == len(entries)

    def _history(self, use: str) -> KeyHistory:
        with self.controller_state.database.reading() as tx:
            return key_history(tx, self.controller_state.keys[use])

    def _read(self, name: str) -> CardRecord:
        return self.negotiations.get(PEOPLE[self.model[name].owner], name)

    def _now(self, name: str) -> CardState:
        return self.model[name].at(self.clock.now)

    def _offer(self, name: str) -> None:
        modelled = self.model[name]
        modelled.state = CardState.OFFERED
        modelled.expires = self.clock.now.replace(microsecond=0) + timedelta(days=VALID_DAYS)
        modelled.steps += 1

    def _stranger(self, name: str, who: str, fresh: bool) -> type[GencardError] | None:
        if who != self.model[name].owner:
            return NotFoundError
        return None if fresh else StaleEtagError

    def _ended(self, name: str) -> type[GencardError] | None:
        return CardStateError if self._now(name) in ENDED else None

    def _wrong(self, name: str, who: str, fresh: bool) -> type[GencardError] | None:
        """Why an answer to an offer is refused, in the order in which a caller may learn it."""
        state = self._now(name)
        by_state = {
            CardState.OFFERED: None,
            CardState.REQUESTED: WrongTurnError,
            CardState.EXPIRED: CardExpiredError,
        }
        return self._stranger(name, who, fresh) or by_state.get(state, CardStateError)

    def _attempt(self, error: type[GencardError] | None, move) -> None:
        if error is None:
            move()
            return
        before = self._dump()
        with pytest.raises(error) as caught:
            move()
        assert type(caught.value) is error
        assert self._dump() == before

    def _dump(self) -> list[object]:
        """The tables of cards, answers and log."""
        with self.controller_state.database.reading() as tx:
            tables = (tx.exec_driver_sql(f"SELECT * FROM {t}") for t in ("cards", "answers", "events"))
            return [tuple(row) for table in tables for row in table]


def test_negotiations_follow_the_model(tmp_path):
    house, clock = build(tmp_path), Clock()
    house.enrol("bob")
    Machine.controller_state, Machine.clock = open_controller_state(house.settings(), clock), clock
    Machine.keys = {
        name: signing_key(house.person(name) / "signing_key.pem", "signing_key") for name in PEOPLE
    }
    try:
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=25,
                stateful_step_count=25,
                deadline=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        Machine.controller_state.database.close()
