"""Attackers on the file's numbers succeed where no rule stops them, so a failure means something."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import attacks_few, attacks_numbers
from benchmarks.attacks_numbers import CODING, PRIOR, PROBES, World, cents, guesses
from gencard.core.policy import USUAL_RULES
from gencard.core.statistics.formula import Analysis
from tests.core.stored_runs import stored_run

TELLING = [
    probe
    for probe in PROBES
    if probe.kind is not Analysis.QUANTILES
    and not probe.of_variance
    and "log1p" not in probe.formula
    and probe.formula.startswith(("y", "~ y + code"))
]


@pytest.mark.parametrize("probe", TELLING, ids=str)
def test_an_answer_without_rules_names_the_group_of_the_largest_number(probe):
    rng, right = np.random.default_rng(1), 0
    values = cents(np.random.default_rng(2).lognormal(8, 2, 20_000))
    for _ in range(60):
        world = World.drawn(values, 400, rng)
        columns = {"y": world.y, "age": world.age, "h": world.h, "g": world.g, "code": world.g}
        kept = world.g == 1 if probe.member else None
        where = "g == 'yes'" if probe.member else ""
        run = stored_run(probe.kind, probe.formula, CODING, columns, kept, where=where)
        right += guesses(probe, run.answer, world)["likelier"] == world.g[world.target]
    assert right / 60 > PRIOR + max(attacks_numbers.LIMITS.values())


def test_seven_people_are_told_from_nine_without_a_threshold():
    checks = replace(USUAL_RULES.checks, threshold=1, rounding=1, freedom=0)
    outcome = attacks_few.few(True, replace(USUAL_RULES, checks=checks, influence=None))
    assert outcome.successes > 0.6 * outcome.tries
