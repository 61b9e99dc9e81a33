"""Share of plausible checked runs that the rules refuse or leave to a steward, and the time of judging.

``python -m benchmarks.run_refusals [--full] [--json FILE]``; in full more than 12 minutes.

The analyses are those of ``benchmarks.answers_exact``, which nobody wrote to be refused: each alone,
beside exact marginals of all pairs, and one after the other, each beside all that were answered or wait,
and beside the populations of all that were refused. The last column says how soon an honest analyst
needs a review: after how many such runs, on average, ``limits.refusals`` (10) were refused or wait.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby

from benchmarks import bench, model_referees, table_referees
from benchmarks.coded_samples import sample
from benchmarks.table_referees import Case
from gencard.controller.earlier import Earlier
from gencard.controller.jobs.answering import checked
from gencard.controller.run_question import Population, RunQuestion
from gencard.core.policy import USUAL_RULES
from gencard.wire.documents import Question

_SECONDS = 60
"""Most seconds of one run: an analyst waits for it."""

_MOST_REFUSALS = 10
"""Default of ``limits.refusals``."""

_QUICK = "fair"


@dataclass(frozen=True, slots=True)
class Judged:
    """Result of one run.

    Args:
        rules: The rules that refused it, or leave it to a steward; none if it was answered.
    """

    case: Case
    setting: str
    refused: bool
    rules: tuple[str, ...]
    seconds: float


def run(quick: bool) -> bench.Result:
    """Every analysis in three settings, or those of one sample."""
    cases = [*model_referees.CASES, *table_referees.CASES]
    chosen = sorted(
        (one for one in cases if not quick or one.sample == _QUICK), key=lambda one: one.sample
    )
    judged = [one for _, group in groupby(chosen, lambda one: one.sample) for one in _settings([*group])]
    columns = (
        "sample",
        "setting",
        "runs",
        "answered",
        "wait",
        "refused",
        "by rule",
        "longest, seconds",
        "runs until ten are refused",
    )
    table = bench.Table("Checked runs that the rules let pass", columns, [*_rows(judged)])
    longest = max(one.seconds for one in judged)
    return bench.Result(
        (table,), (bench.Target("seconds of the longest", longest, _SECONDS, "at most"),)
    )


def _settings(cases: Sequence[Case]) -> Iterator[Judged]:
    """Each of one sample in each setting."""
    coded, answered, refused = sample(cases[0].sample), list[RunQuestion](), list[Population]()
    pairs = tuple(combinations(coded.coding.domain.attributes, 2))
    for case in cases:
        run_question = RunQuestion.of(Question(case.kind, case.formula), coded.coding)
        settings = {
            "alone": ((), (), ()),
            "beside all pairs": ((), pairs, ()),
            "in a row": (tuple(answered), (), tuple(refused)),
        }
        for setting, before in settings.items():
            begin = time.perf_counter()
            earlier = Earlier(coded.coding, *before)
            result = checked(run_question, earlier, coded.dataset, {}, USUAL_RULES)
            rules = (rule for mark in result.marks or () for rule in mark.rules)
            is_refused, seconds = result.answer is None, time.perf_counter() - begin
            yield Judged(case, setting, is_refused, tuple(dict.fromkeys(rules)), seconds)
        if is_refused:
            refused.append(run_question.population)
        else:
            answered.append(run_question)


def _rows(judged: Sequence[Judged]) -> Iterator[tuple[bench.Cell, ...]]:
    """One for each sample and setting."""
    for sample_name, setting in dict.fromkeys((one.case.sample, one.setting) for one in judged):
        own = [one for one in judged if (one.case.sample, one.setting) == (sample_name, setting)]
        rules = Counter(rule for one in own for rule in one.rules[:1])
        by_rule = ", ".join(f"{rule} {number}" for rule, number in rules.most_common()) or "none"
        answered, refused = sum(not one.rules for one in own), sum(one.refused for one in own)
        longest, counted = max(one.seconds for one in own), len(own) - answered
        until = round(_MOST_REFUSALS * len(own) / counted) if counted else "never"
        yield (
            *(sample_name, setting, len(own), answered, counted - refused, refused),
            *(by_rule, longest, until),
        )


if __name__ == "__main__":
    bench.main("run_refusals", run, usually_quick=True)
