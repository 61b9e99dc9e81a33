"""S39 at the level of the store: a decision and its entry in the log show together or not at all."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import event, select
from sqlalchemy.exc import OperationalError

from gencard.controller.state import requests, results
from gencard.controller.state.cards import update_card
from gencard.controller.state.log import EventLog, verify
from gencard.controller.state.requests import Request
from gencard.controller.state.tables import metadata
from gencard.core.card.budget import Price
from gencard.core.card.card import CardState
from gencard.core.errors import StorageError
from gencard.wire.keys import Identity, KeyHistory
from tests.controller.state.samples import ANA, CARD, NOW, insert_card, ledger_of, reserve

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
LOG = EventLog(lambda _tx: KEY)
REQUEST = "0a2d9c86-2f4e-4c0b-9d0e-6a3f7f6b1c11"


def decide(tx):
    """A decision that touches everything: entry, line, card, psi, operation and checkpoint."""

    def make():
        LOG.append(tx, action="accept", actor=ANA, resource=CARD, details={"state": "agreed"}, now=NOW)
        ledger = ledger_of(100)
        line = reserve(ledger, tx, Price(7))
        update_card(
            tx, CARD, old_etag="etag-1", etag="etag-2", state=CardState.AGREED, body=b"", now=NOW
        )
        results.put_psi(tx, CARD, b"{}", "digest", NOW)
        ledger.settle(tx, line, NOW)
        requests.create_operation(
            tx, "operations/o", owner=ANA, kind="generate", resource=CARD, request=b"{}", now=NOW
        )
        return LOG.checkpoint(tx, NOW)

    Request("AcceptCard", REQUEST, "d").once(tx, Identity.of(ANA), NOW, make)


def everything(database):
    with database.reading() as tx:
        return {table.name: tx.execute(select(table)).all() for table in metadata.sorted_tables}


@pytest.fixture
def before(database):
    with database.transaction() as tx:
        insert_card(tx)
        LOG.append(tx, action="propose", actor=ANA, resource=CARD, details={}, now=NOW)
    return everything(database)


class FaultAt:
    """The n-th statement or commit fails as a broken disk would make it fail."""

    def __init__(self, step):
        self.left = step

    def __call__(self, *_):
        self.left -= 1
        if self.left == 0:
            raise OperationalError("statement", {}, OSError("disk"))


def test_s39_a_fault_at_any_step_leaves_everything_as_it_was(database, before):
    for step in range(1, 100):
        fault = FaultAt(step)
        for moment in ("before_cursor_execute", "commit"):
            event.listen(database._engine, moment, fault)
        try:
            with database.transaction() as tx:
                decide(tx)
        except StorageError:
            pass
        for moment in ("before_cursor_execute", "commit"):
            event.remove(database._engine, moment, fault)
        if fault.left > 0:
            break
        assert everything(database) == before, f"step {step}"
    assert step > 20
    after = everything(database)
    assert {name for name in after if after[name] != before[name]} == {
        "answers",
        "balances",
        "cards",
        "checkpoints",
        "events",
        "lines",
        "log_nodes",
        "operations",
        "psis",
    }
    with database.reading() as tx:
        assert verify(LOG.entries(tx), LOG.checkpoints(tx), KeyHistory(KEY.public_key(), "log")) == 2
