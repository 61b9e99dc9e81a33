"""Check that a controller's ledger, log, releases and operations agree with one another."""

from collections import Counter
from typing import Any

from sqlalchemy import Connection, select

from gencard.controller.controller_state import ControllerState
from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.people.keys import key_history
from gencard.controller.state import tables
from gencard.controller.state.ledger import Account, Scope, accounts_of, columns_of
from gencard.controller.state.log import verify
from gencard.core.card.budget import Spend, SpendState
from gencard.wire.keys import LOG

Counted = Counter[tuple[Account, str]]


def lines_of(controller_state: ControllerState, resource: str | None = None) -> list[Spend]:
    """Lines of the ledger, newest first: all, or those of one card."""
    with controller_state.database.reading() as tx:
        rows = controller_state.ledger.lines(tx, limit=10_000).rows
    return [line for line in rows if resource in (None, line.resource)]


def assert_consistent(controller_state: ControllerState) -> None:
    """Ledger and log are in order, and the rows of every release lie in their place, and no others."""
    assert_ledger_and_log(controller_state)
    files = controller_state.files
    with controller_state.database.reading() as tx:
        releases = tx.execute(select(tables.releases)).mappings().all()
    names = {f"releases/{release['file_name']}" for release in releases}
    for release in releases:
        path = files.path(f"releases/{release['file_name']}")
        assert RowsFile(path).dataset().digest() == release["digest"]
    if files.shared:
        assert set(files.stored("releases/")) == names
    assert {f"releases/{file.name}" for file in (files.folder / "releases").glob("*")} == names


def assert_balanced(controller_state: ControllerState) -> None:
    """Balances are the sums of lines in each currency, and under their caps."""
    sums = _sums(lines_of(controller_state))
    with controller_state.database.reading() as tx:
        assert _balances(tx) == sums
        for account, _ in sums:
            assert controller_state.ledger.spent(tx, account).fits(controller_state.ledger.cap(account))


def assert_ledger_and_log(controller_state: ControllerState) -> None:
    """The ledger is balanced, and the log verifies."""
    assert_balanced(controller_state)
    with controller_state.database.reading() as tx:
        keys = key_history(tx, controller_state.keys[LOG])
        entries = verify(controller_state.log.entries(tx), controller_state.log.checkpoints(tx), keys)
        assert entries == controller_state.log.size(tx)


def _sums(lines: list[Spend]) -> Counted:
    sums: Counted = Counter()
    for line in lines:
        if line.state is not SpendState.VOIDED:
            for account in accounts_of(line.dataset, line.project, line.analyst):
                sums.update({(account, name): units for name, units in columns_of(line.price).items()})
    return +sums


def _balances(tx: Connection) -> Counted:
    found: Counted = Counter()
    row: Any
    for row in tx.execute(select(tables.balances)).mappings():
        account = Account(Scope(row["scope"]), row["dataset"], row["holder"])
        found.update({(account, name): row[name] for name in tables.CURRENCIES})
    return +found
