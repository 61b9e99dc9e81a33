"""Reserve, run, settle, killed at a failpoint: ``python -m tests.controller.state.crasher URL FOLDER``.

Every child gets a dataset of its own and is killed (SIGKILL) right before its n-th step: a statement, a
commit, or the reading of records, for n = 1, 2, ... until one gets through. Prints how many there were.
"""

import os
import signal
import sys
from itertools import count
from pathlib import Path

from sqlalchemy import event

from gencard.controller.state import results
from gencard.controller.state.database import Database
from gencard.core.card.budget import Price
from tests.controller.state.samples import NOW, insert_card, ledger_of, reserve

PRICE = Price(7)


class Failpoint:
    """Kills the process right before its n-th step."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def __call__(self, *_: object) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def dataset_of(child: int) -> str:
    return f"datasets/d{child}"


def run(url: str, folder: Path, child: int) -> None:
    """The whole flow of a release; the n-th child dies at its n-th step."""
    dataset = dataset_of(child)
    ledger, database, step = ledger_of(100, dataset=dataset), Database(url), Failpoint(child)
    with database.transaction() as tx:
        insert_card(tx, f"{dataset}/cards/c1", dataset=dataset)
    for moment in ("before_cursor_execute", "commit"):
        event.listen(database._engine, moment, step)
    with database.transaction() as tx:
        line = reserve(ledger, tx, PRICE, dataset=dataset)
    step()
    (folder / f"records-read-{child}").touch()
    step()
    with database.transaction() as tx:
        results.put_psi(tx, f"{dataset}/cards/c1", b"{}", "digest", NOW)
        ledger.settle(tx, line, NOW)
    step()


def main() -> None:
    url, folder = sys.argv[1], Path(sys.argv[2])
    for child in count(1):
        pid = os.fork()
        if pid == 0:
            run(url, folder, child)
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        if not os.WIFSIGNALED(status):
            print(child)
            sys.exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main()
