"""Attacks on records, keys, documents and workers: how often each succeeds, beside guessing.

``python -m benchmarks.attacks [--full] [--json FILE]``. Exit code 1 if an attack succeeds more often
than guessing (one-sided binomial tests, 1 % over all attacks together by Bonferroni's bound), or was
tried too rarely to say so.
"""

import sys
import time
from collections.abc import Sequence

from benchmarks import (
    attacks_cluster,
    attacks_documents,
    attacks_few,
    attacks_keys,
    attacks_kinds,
    attacks_lattice,
    attacks_numbers,
    attacks_refusals,
    attacks_stored,
    attacks_values,
    bench,
)
from benchmarks.attack import Attack, Outcome

ATTACKS: tuple[Attack, ...] = (
    *attacks_values.ATTACKS,
    *attacks_kinds.ATTACKS,
    *attacks_lattice.ATTACKS,
    *attacks_refusals.ATTACKS,
    *attacks_stored.ATTACKS,
    *attacks_numbers.ATTACKS,
    *attacks_few.ATTACKS,
    *attacks_keys.ATTACKS,
    *attacks_documents.ATTACKS,
    *attacks_cluster.ATTACKS,
)
"""All attacks, in the order of their lines."""

_LEVEL = 0.01
"""Probability that a defence without a hole fails this benchmark."""


def run(quick: bool) -> bench.Result:
    """Try every attack."""
    outcomes = [_tried(attack, number, quick) for number, attack in enumerate(ATTACKS, 1)]
    pairs = list(zip(ATTACKS, outcomes, strict=True))
    above = [attack for attack, outcome in pairs if attack.p_value(outcome) < _LEVEL / len(ATTACKS)]
    too_few = [attack for attack, outcome in pairs if outcome.tries < attack.least]
    return bench.Result(
        (_table(pairs),),
        (
            bench.Target("attacks that succeed more often than guessing", len(above), 0, "at most"),
            bench.Target("attacks tried too rarely", len(too_few), 0, "at most"),
        ),
        {"above": [attack.name for attack in above], "too few": [attack.name for attack in too_few]},
    )


def _tried(attack: Attack, number: int, quick: bool) -> Outcome:
    """Try one attack, and print its result on standard error: all attacks take minutes."""
    begin = time.perf_counter()
    outcome = attack.run(quick)
    result = f"{outcome.successes} of {outcome.tries}, {time.perf_counter() - begin:.0f} s"
    print(f"{number}/{len(ATTACKS)} {attack.line} {attack.name}: {result}", file=sys.stderr)
    return outcome


def _table(pairs: Sequence[tuple[Attack, Outcome]]) -> bench.Table:
    columns = ("line", "attack", "before", "now", "guessing", "tries", "ended")
    rows = [
        (
            attack.line,
            attack.name,
            attack.before,
            f"{outcome.successes} of {outcome.tries}",
            attack.guessing,
            outcome.tries,
            outcome.note,
        )
        for attack, outcome in pairs
    ]
    return bench.Table("Attacks", columns, rows)


if __name__ == "__main__":
    bench.main("attacks", run, usually_quick=True)
