"""How many plausible checked runs the rules refuse, and how long judging them takes.

``python -m benchmarks.run_refusals [--full] [--json FILE]``; in full more than 12 minutes.

The analyses are those of ``benchmarks.answers_exact``, which nobody wrote to be refused: each alone,
beside exact marginals of all pairs, and one after the other, each beside all that were answered.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby

from benchmarks import bench, model_referees, table_referees
from benchmarks.coded_samples import sample
from benchmarks.table_referees import Case
from gencard.controller.answers.earlier import Earlier
from gencard.controller.answers.run_question import RunQuestion
from gencard.controller.jobs.answering import checked
from gencard.core.output_checks.rules import USUAL_RULES

_SECONDS = 60
"""Of one run: an analyst waits for it."""

_QUICK = "fair"


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a run: the reasons of its refusal, none where it was answered."""

    case: Case
    setting: str
    reasons: tuple[str, ...]
    seconds: float


def run(quick: bool) -> bench.Result:
    """Every analysis in three settings, or those of one sample."""
    cases = [*model_referees.CASES, *table_referees.CASES]
    chosen = sorted(
        (one for one in cases if not quick or one.sample == _QUICK), key=lambda one: one.sample
    )
    judged = [one for _, group in groupby(chosen, lambda one: one.sample) for one in _settings([*group])]
    columns = ("sample", "setting", "runs", "answered", "refused, by reason", "longest, seconds")
    table = bench.Table("Checked runs that the rules let pass", columns, [*_rows(judged)])
    longest = max(one.seconds for one in judged)
    return bench.Result(
        (table,), (bench.Target("seconds of the longest", longest, _SECONDS, "at most"),)
    )


def _settings(cases: Sequence[Case]) -> Iterator[Judged]:
    """Each of one sample in each setting."""
    coded, answered = sample(cases[0].sample), list[RunQuestion]()
    pairs = tuple(combinations(coded.coding.domain.attributes, 2))
    for case in cases:
        question = {"kind": case.kind, "formula": case.formula, "where": "", "missing": "level"}
        run_question = RunQuestion.of({**question, "options": ""}, coded.coding)
        settings = {
            "alone": ((), ()),
            "beside all pairs": ((), pairs),
            "in a row": (tuple(answered), ()),
        }
        for setting, (runs, cliques) in settings.items():
            begin = time.perf_counter()
            earlier = Earlier(coded.coding, runs, cliques)
            reasons = checked(run_question, earlier, coded.dataset, {}, USUAL_RULES)["reasons"]
            yield Judged(case, setting, tuple(reasons), time.perf_counter() - begin)
        if not reasons:
            answered.append(run_question)


def _rows(judged: Sequence[Judged]) -> Iterator[tuple[bench.Cell, ...]]:
    """One for each sample and setting."""
    for sample_name, setting in dict.fromkeys((one.case.sample, one.setting) for one in judged):
        own = [one for one in judged if (one.case.sample, one.setting) == (sample_name, setting)]
        reasons = Counter(reason for one in own for reason in one.reasons[:1])
        refused = ", ".join(f"{reason} {number}" for reason, number in reasons.most_common()) or "none"
        answered = sum(not one.reasons for one in own)
        yield sample_name, setting, len(own), answered, refused, max(one.seconds for one in own)


if __name__ == "__main__":
    bench.main("run_refusals", run, usually_quick=True)
