"""Attack on a count near the threshold: runs that could disclose if seven or nine people have a level.

The attacker knows everything but two records' groups, so that he predicts what he would read in either
world. Where both are read alike he guesses. The threshold is ten: all such runs should end alike.
"""

from collections import Counter

import numpy as np

from benchmarks.attack import Attack, Outcome
from benchmarks.attacks_numbers import CODING, World, cents, read
from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.controller.run_question import RunQuestion
from gencard.core.policy import USUAL_RULES, Rules
from gencard.core.statistics.formula import Analysis
from gencard.wire.documents import Question

_FEW = (7, 9)

_OF_FEW = tuple(
    (kind, formula, where)
    for kind, formula, where in (
        *((Analysis.MEANS, "y ~ g", ""), (Analysis.TTEST, "y ~ g", ""), (Analysis.ANOVA, "y ~ g", "")),
        *((Analysis.ANOVA, f"y ~ {terms}", "") for terms in ("g + h", "g * h")),
        *(
            (Analysis.LINEAR, f"{response} ~ {terms}", "")
            for response in ("y", "log1p(y)")
            for terms in (
                "g",
                "g + age",
                "g * age",
                "age:g",
                "age + g:h",
                "code",
                "age:code",
                "code + h",
            )
        ),
        (Analysis.LINEAR, "age ~ y + g", ""),
        (Analysis.CORRELATION, "~ y + code", ""),
        (Analysis.CORRELATION, "~ y + age + code", ""),
        (Analysis.QUANTILES, "y ~ g", ""),
        *(
            (kind, formula, where)
            for where in ("g == 'yes'", "g == 'no'", "code == 1", "g == 'yes' or h == 'a'")
            for kind, formula in (
                (Analysis.MEANS, "y ~ 1"),
                (Analysis.TTEST, "y ~ g"),
                (Analysis.ANOVA, "y ~ h"),
                (Analysis.LINEAR, "y ~ age"),
                (Analysis.CORRELATION, "~ y + age"),
                (Analysis.QUANTILES, "y ~ 1"),
            )
        ),
    )
)
"""Questions whose answers, or ends, could count the people of a rare group."""


def few(quick: bool, rules: Rules = USUAL_RULES) -> Outcome:
    """Guess if seven or nine people are in a group; equal answers in both worlds leave a coin flip."""
    rng, successes, tries, differ, answered = np.random.default_rng(9), 0, 0, Counter[str](), 0
    for _ in range(2 if quick else 10):
        for kind, formula, where in _OF_FEW:
            run = RunQuestion.new(Question(kind, formula, where), CODING)
            y = cents(rng.lognormal(8, 0.5, 600))
            world = World.drawn(y, 600, rng)
            reads = []
            for size in _FEW:
                world.g[:] = np.arange(600) < size
                reads.append(read(run, world.with_secret(int(world.g[world.target])), rules))
            answered += isinstance(reads[0], AnalysisAnswer)
            differ[f"{kind} {formula} {where}".strip()] += reads[0] != reads[1]
            tries += 1
            successes += int(reads[0] != reads[1] or rng.random() < 0.5)
    named = "; ".join(f"{name}: {number}" for name, number in differ.items() if number)
    return Outcome(successes, tries, f"{answered} told; read differently: {named or 'none'}")


ATTACKS = (
    Attack("A1", "seven people or nine, by runs of the file's numbers", "not tried", 0.5, 20, few),
)
"""Attacks on the threshold."""
