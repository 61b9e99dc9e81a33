"""One service at a time on one state, and whether a state is whole: log, ledger, rows of releases."""

import fcntl
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, select

from gencard.controller.controller_state import ControllerState
from gencard.controller.people.signing_keys import key_history
from gencard.controller.releases.rows_file import RowsFile
from gencard.controller.state.accounts import accounts_of, columns_of
from gencard.controller.state.events import checkpoint_of
from gencard.controller.state.events import verify as verify_log
from gencard.controller.state.releases import ReleaseStore
from gencard.controller.state.tables import CURRENCIES, balances
from gencard.core.card.budget import SpendState
from gencard.core.errors import InvalidInputError, StorageError, VerificationError
from gencard.wire.documents.key_history import CARDS, LOG
from gencard.wire.documents.receipt import receipt_of_document
from gencard.wire.signatures.dsse import RECEIPT, predicate_of


def check_state(controller_state: ControllerState, tx: Connection, known: Iterable[bytes] = ()) -> int:
    """Check everything; the number of entries that the log is known to have had.

    Args:
        known: Checkpoints that others keep. Those of a longer log show that its end is lost.

    Raises:
        VerificationError: Names the first thing that is wrong.
        StorageError: Rows of a release are not there.
    """
    keys, size = key_history(tx, controller_state.keys[LOG]), controller_state.log.size(tx)
    sizes = {envelope: checkpoint_of(envelope, keys).size for envelope in known}
    within = [envelope for envelope in sizes if sizes[envelope] <= size]
    verify_log(controller_state.log.entries(tx), [*controller_state.log.checkpoints(tx), *within], keys)
    _check_ledger(controller_state, tx)
    _check_releases(controller_state, tx)
    return max([size, *sizes.values()])


def _check_releases(controller_state: ControllerState, tx: Connection) -> None:
    """Rows must be those that were signed."""
    keys, folder = (
        key_history(tx, controller_state.keys[CARDS]),
        controller_state.settings.state.releases,
    )
    for release in ReleaseStore().all(tx):
        signed = predicate_of(keys.payload_of(release.receipt), RECEIPT)
        digests = {release.digest, receipt_of_document(signed).rows_digest}
        if digests != {RowsFile(folder / release.file_name).dataset().digest()}:
            raise VerificationError(problem=f"the rows of {release.name} are not those that were signed")


def _check_ledger(controller_state: ControllerState, tx: Connection) -> None:
    """Balances must be the sums of lines."""
    sums: Counter[tuple[str, ...]] = Counter()
    for line in controller_state.ledger.all(tx):
        if line.state is not SpendState.VOIDED:
            for account in accounts_of(line.dataset, line.project, line.analyst):
                for name, units in columns_of(line.price).items():
                    sums[*account.columns().values(), name] += units
    stored: Counter[tuple[str, ...]] = Counter()
    for row in tx.execute(select(balances)).mappings():
        for name in CURRENCIES:
            stored[row["scope"], row["dataset"], row["holder"], name] = row[name]
    if +sums != +stored:
        raise VerificationError(problem="the ledger's balances are not the sums of its lines")


PATIENCE = 2.0
"""Seconds that a service which was killed may take until all its threads are gone."""


@contextmanager
def state_lock(folder: Path) -> Iterator[None]:
    """Hold the state's folder alone; the system lets go of it too when the process dies.

    Raises:
        InvalidInputError: Another service holds it.
        StorageError: The folder cannot be written.
    """
    lock = _opened(folder / "lock")
    try:
        if not _taken(lock):
            raise InvalidInputError(field="state.folder", problem="is in use by another service")
        yield
    finally:
        os.close(lock)


def _opened(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        pass
    raise StorageError


def _taken(lock: int) -> bool:
    end = time.monotonic() + PATIENCE
    while not (taken := _took(lock)) and time.monotonic() < end:
        time.sleep(0.05)
    return taken


def _took(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
