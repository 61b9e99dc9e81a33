"""Answers from exact psi beside other people's software on the coded records: how far apart, how long.

``python -m benchmarks.answers_exact [--quick] [--json FILE]``

psi holds the marginals that determine the analysis and nothing else; naive Bayes and discriminants are
asked for their accuracy too, which needs records. Two linear models of ten features are answered from
all pairs of their sample's attributes. A difference is relative to the referee's number, or to the
largest of its array times 1e-5. Referees: statsmodels, scipy, scikit-learn.

The same questions are put to the same records under schemas that are drafted from them, whose numbers
have steps: with the marginals above alone, and, where that is refused, with the card of the refusal.
"""

import tempfile
import time
import warnings
from collections.abc import Sequence
from datetime import date
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import bench, model_referees, table_referees
from benchmarks.coded_samples import Coded, sample
from benchmarks.sums import psi_of
from benchmarks.table_referees import Case
from gencard.analysis.answers.margins import Margins, PsiMargins, RecordMargins
from gencard.analysis.formulas.answering import answer_of
from gencard.analysis.formulas.formulas import read_formula
from gencard.analysis.formulas.numbers import Needs
from gencard.analysis.formulas.summing import question_needs
from gencard.controller.drafting.schema_draft import draft_schema
from gencard.controller.records.vault import Vault
from gencard.core.domain import Clique
from gencard.core.errors import GencardError, LevelsTooWideError
from gencard.core.statistics.formula import Analysis, sufficient_cliques
from gencard.core.statistics.measure import measure_dataset

CLOSE = 1e-8
"""The largest relative difference that counts as equal."""

_SECONDS = 0.2
_FLOOR = 1e-5
_REPEATS = 3
"""Answers of each case, of which the fastest is timed: a busy machine slows some."""

ENDS = ("answered", "by the card that the refusal names", "not answered")
"""Outcomes of a question under a drafted schema, on a card of the marginals alone."""

_MOSTLY = 0.9

_OF_MODELS = ("params", "bse", "statistic")
_WITH_ACCURACY = ("naive-bayes", "discriminant")
_QUICK = "fair"


def run(quick: bool) -> bench.Result:
    """Every case, or those of the smallest sample."""
    models = (*model_referees.WIDE, *model_referees.CASES)
    cases = [one for one in (*models, *table_referees.CASES) if not quick or one.sample == _QUICK]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measured = [_measured(case) for case in cases]
    rows = [_row(case, *one) for case, one in zip(cases, measured, strict=True)]
    columns = ("analysis", "sample", *_OF_MODELS, "all", "seconds")
    table = bench.Table("Largest relative differences from the referee", columns, rows)
    worst = max(max(gaps) for gaps, _ in measured)
    targets = [bench.Target("largest relative difference", worst, CLOSE, "at most")]
    wide = [seconds for case, (_, seconds) in zip(cases, measured, strict=True) if _is_wide(case)]
    if wide:
        name = "seconds for 10 features from pairs"
        targets.append(bench.Target(name, max(wide), _SECONDS, "at most"))
    ends = [(case, drafted(case.sample).end(case)) for case in cases if not _is_wide(case)]
    counts = [(end, sum(one == end for _, one in ends)) for end in ENDS]
    answered = 1 - counts[-1][1] / len(ends)
    targets.append(bench.Target("answered under drafted schemas", answered, _MOSTLY, "at least"))
    others = [(f"{case.kind} {case.formula}", case.sample, end) for case, end in ends if end != ENDS[0]]
    tables = (
        table,
        bench.Table("The same questions under drafted schemas", ("end", "questions"), counts),
        bench.Table(
            "Those that the marginals alone do not answer", ("analysis", "sample", "end"), others
        ),
    )
    return bench.Result(tables, tuple(targets), {"analyses": len(cases)})


@cache
def drafted(name: str) -> "Drafted":
    """One of the samples."""
    return Drafted(name)


class Drafted:
    """A sample under a schema that is drafted from it."""

    def __init__(self, name: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name, f"{name}.parquet")
        sample(name).frame.to_parquet(path)
        draft = draft_schema(path, name, today=date(2026, 11, 27))
        self.vault = Vault(path, draft.schema.coding, draft.schema.readings)

    def end(self, case: Case) -> str:
        """One of ``ENDS``."""
        coding, kind = self.vault.coding, Analysis(case.kind)
        formula = read_formula(case.formula, coding)
        cliques = sufficient_cliques(formula, kind, coding.domain)
        try:
            self._answer(case, Needs(cliques))
        except LevelsTooWideError:
            try:
                self._answer(case, question_needs(case.formula, kind, coding))
            except GencardError:
                return ENDS[2]
            return ENDS[1]
        except GencardError:
            return ENDS[2]
        return ENDS[0]

    def _answer(self, case: Case, needs: Needs) -> None:
        margins = PsiMargins(psi_of(self.vault, needs), self.vault.coding)
        answer_of(case.formula, Analysis(case.kind), margins, self.vault.coding, options=case.options)


def _is_wide(case: Case) -> bool:
    return case in model_referees.WIDE


def _measured(case: Case) -> tuple[Sequence[float], float]:
    """Differences in the referee's order, and seconds of the answer."""
    coded = sample(case.sample)
    margins = _margins(case, coded)
    kind, times = Analysis(case.kind), []
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        answer = answer_of(case.formula, kind, margins, coded.coding, options=case.options)
        times.append(time.perf_counter() - begin)
    seconds = min(times)
    return [gap(ours, theirs) for ours, theirs in case.referee(coded, answer)], seconds


def _margins(case: Case, coded: Coded) -> Margins:
    if case.kind in _WITH_ACCURACY:
        return RecordMargins.of(coded.dataset)
    formula = read_formula(case.formula, coded.coding)
    domain = coded.coding.domain
    cliques: Sequence[Clique] = sufficient_cliques(formula, Analysis(case.kind), domain)
    if _is_wide(case):
        cliques = list(combinations(domain.attributes, 2))
    return PsiMargins(measure_dataset(coded.dataset, cliques))


def gap(ours: Any, theirs: Any) -> float:
    """The largest relative difference of two arrays."""
    one, other = (np.atleast_1d(np.asarray(each, dtype=np.float64)) for each in (ours, theirs))
    size = np.maximum(np.abs(other), _FLOOR * np.nanmax(np.abs(other), initial=0.0))
    difference = np.where(np.isnan(one) & np.isnan(other), 0.0, np.abs(one - other))
    relative = np.divide(difference, size, where=size > 0, out=difference)
    return float(np.max(np.nan_to_num(relative, nan=np.inf), initial=0.0))


def _row(case: Case, gaps: Sequence[float], seconds: float) -> Sequence[bench.Cell]:
    is_model = case.referee.__module__ == model_referees.__name__
    shown: list[bench.Cell] = list(gaps[:3]) if is_model else [None] * len(_OF_MODELS)
    return (f"{case.kind} {case.formula}", case.sample, *shown, max(gaps), seconds)


if __name__ == "__main__":
    bench.main("answers_exact", run)
