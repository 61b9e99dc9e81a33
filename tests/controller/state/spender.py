"""A process with 16 threads that all spend at once: ``python -m tests.controller.state.spender URL``.

Says "ready", waits for a line, spends until the ledger refuses, prints how often it was granted.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

from gencard.controller.state.database import Database
from gencard.core.card.budget import Price
from gencard.core.errors import BudgetExceededError
from tests.controller.state.samples import ledger_of, reserve

THREADS = 16
TRIES = 3
CAP = 149
PRICE = Price(1, Decimal("0.1"))


def spend(database: Database) -> int:
    """Count the tries that the ledger granted."""
    ledger, granted = ledger_of(CAP, "1000"), 0
    for _ in range(TRIES):
        try:
            with database.transaction() as tx:
                reserve(ledger, tx, PRICE)
            granted += 1
        except BudgetExceededError:
            pass
    return granted


def main() -> None:
    database = Database(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    with ThreadPoolExecutor(THREADS) as threads:
        print(sum(threads.map(spend, [database] * THREADS)), flush=True)


if __name__ == "__main__":
    main()
