"""Attacks of the benchmark on numbers of an analyst's own: the cheap ones learn nothing here either."""

import pytest

from benchmarks.attacks_values import ATTACKS

CHEAP = [attack for attack in ATTACKS if "own" in attack.name or "C(..., levels)" in attack.name]


@pytest.mark.parametrize("attack", CHEAP, ids=lambda attack: attack.name)
def test_no_run_is_answered(attack):
    outcome = attack.run(True)
    assert outcome.tries >= attack.least
    assert outcome.note == f"{outcome.tries} refused"
