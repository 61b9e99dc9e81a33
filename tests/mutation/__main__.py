"""``python -m tests.mutation [--room NAME] [--jobs N]``: a table by room; exit code 1 below 57 of 60."""

import argparse
import sys
import time

from rich.console import Console
from rich.table import Table

from tests.mutation.mutants import MUTANTS, ROOMS
from tests.mutation.runner import Outcome, Result, check

SURVIVORS_ALLOWED = 3
"""Most survivors among all 60; at least 57 are killed. A run of one room allows none."""


def main(arguments: list[str]) -> int:
    """Run the check; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--room", choices=ROOMS, help="one room instead of all")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time (default: 1)")
    options = parser.parse_args(arguments)
    mutants = [mutant for mutant in MUTANTS if options.room in (None, mutant.room)]
    console, begin = Console(), time.monotonic()
    results = check(
        mutants,
        options.jobs,
        lambda line: console.print(line, highlight=False, soft_wrap=True, markup=False),
    )
    console.print(table_of(results))
    survivors = sum(result.outcome is Outcome.SURVIVED for result in results)
    console.print(
        f"{len(results) - survivors} of {len(results)} killed in {time.monotonic() - begin:.0f} s"
    )
    return exit_code(survivors, whole=options.room is None)


def exit_code(survivors: int, *, whole: bool) -> int:
    """0 where at most the allowed number of mutants survived, else 1."""
    return int(survivors > (SURVIVORS_ALLOWED if whole else 0))


def table_of(results: list[Result]) -> Table:
    """By room: mutants, killed, and the survivors by name."""
    table = Table("room", "mutants", "killed", "survivors")
    for room in dict.fromkeys(result.mutant.room for result in results):
        own = [result for result in results if result.mutant.room == room]
        survivors = [result.mutant.name for result in own if result.outcome is Outcome.SURVIVED]
        table.add_row(room, str(len(own)), str(len(own) - len(survivors)), "\n".join(survivors))
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
