"""Attacks on small counts and on rounding by single checked runs, alone and beside exact pairs.

The attacker knows every attribute of every record except one: whether the target is ill. The run asks
for means by a wide attribute, whose groups pass the threshold while the ill of a group are few. The
checks run as in a job, in memory.
"""

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import combinations, product

import numpy as np

from benchmarks.attack import Attack, Outcome
from gencard.analysis.answers import crosstabs
from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.controller.earlier import Earlier
from gencard.controller.jobs.answering import checked
from gencard.controller.run_question import RunQuestion
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.dataset import Dataset
from gencard.core.policy import USUAL_RULES
from gencard.core.types import FloatArray
from gencard.wire.documents import Question

_FEW_TRIES, _TRIES = 20, 60
_REFUSED, _WAITS = "refused", "waits"


def _labels(name: str, size: int) -> Attribute:
    return Attribute(name, Labels(tuple(map(str, range(size))), integer=True, ordered=True))


def _world(
    levels: int, records: int, others: dict[str, int], seed: int, share: float = 0.5
) -> tuple[Coding, Dataset]:
    """Records with as many in each wide level, a share of whom is ill; conditions hold for most."""
    rng = np.random.default_rng(seed)
    sizes = {"wide": levels, "ill": 2, **others}
    codes = np.stack([rng.integers(size, size=records) for size in sizes.values()], axis=1)
    codes[:, 0] = np.arange(records) % levels
    codes[:, 1] = rng.random(records) < share
    for axis, name in enumerate(sizes):
        if name.startswith("c"):
            codes[:, axis] = rng.random(records) < 0.98
    coding = Coding(tuple(_labels(name, size) for name, size in sizes.items()))
    coding = Coding(
        tuple(
            # The numbers 1 and 2, not 0 and 1: with these the rule of dominance refuses first.
            Attribute("ill", Labels(("1", "2"), integer=True, ordered=True))
            if one.name == "ill"
            else one
            for one in coding.attributes
        )
    )
    return coding, Dataset(coding.domain, codes.astype(np.int64))


def _asked(
    coding: Coding, dataset: Dataset, kind: str, formula: str, where: str, *, pairs: bool
) -> AnalysisAnswer | str:
    """The released answer, else how the run ended."""
    run = RunQuestion.of(Question(kind, formula, where), coding)
    cliques = tuple(combinations(coding.domain.attributes, 2)) if pairs else ()
    # A card with the pair of the target itself would tell the secret: no rule can help there.
    cliques = tuple(one for one in cliques if set(one) != {"wide", "ill"})
    result = checked(run, Earlier(coding, (), cliques), dataset, {}, USUAL_RULES)
    if result.answer is None:
        return _REFUSED
    return _WAITS if result.review else AnalysisAnswer.of_json(json.loads(json.dumps(result.answer)))


def _endings(endings: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in endings.most_common())


def _target_of_means(
    quick: bool,
    *,
    levels: int,
    others: dict[str, int],
    term: str,
    each: int,
    share: float = 0.5,
    pairs: bool = False,
) -> Outcome:
    """Name the secret of one record from the mean of its group, where too few are ill to be told.

    Args:
        share: Of people who are ill, among whom and among others the target is as often.
    """
    endings, successes = Counter[str](), 0
    tries = _FEW_TRIES if quick else _TRIES
    where = " and ".join(f"{name} == 1" for name in others if name.startswith("c"))
    for seed in range(tries):
        coding, dataset = _world(levels, levels * each, others, seed, share)
        kept = np.logical_and.reduce(
            [np.ones(len(dataset), dtype=bool)]
            + [dataset.column(name) == 1 for name in others if name.startswith("c")]
        )
        rng = np.random.default_rng([seed, levels, each, len(others), pairs])
        secret = int(rng.integers(2))
        target = int(rng.choice(np.flatnonzero(kept & (dataset.column("ill") == secret))))
        answer = _asked(coding, dataset, "means", f"ill ~ {term}", where, pairs=pairs)
        endings[answer if isinstance(answer, str) else "answered"] += 1
        guess = int(rng.integers(2))
        if not isinstance(answer, str):
            guess = _by_mean(answer, dataset, kept, target)
        successes += guess == secret
    return Outcome(successes, tries, _endings(endings))


def _by_mean(answer: AnalysisAnswer, dataset: Dataset, kept: np.ndarray, target: int) -> int:
    """The level of the target that gives the released mean of its group more nearly."""
    level = dataset.column("wide")[target]
    others = kept & (dataset.column("wide") == level)
    others[target] = False
    ill, size = dataset.column("ill")[others].sum(), others.sum() + 1
    table = answer.table("means")
    row = table.values[table.row_names.index(str(level))]
    mean = row[table.column_names.index("mean")] or 0.0
    return int(abs((ill + 1) / size + 1 - mean) < abs(ill / size + 1 - mean))


def _by_derived(quick: bool, *, columns: int, records: int, terms: str) -> Outcome:
    """Name every count of a crosstab from expected counts and residuals beside the rounded counts."""
    endings, successes = Counter[str](), 0
    tries = _FEW_TRIES if quick else _TRIES
    for seed in range(tries):
        coding, dataset = _world(columns, records, {"d": 3}, seed)
        rng = np.random.default_rng(seed)
        codes = dataset.codes.copy()
        codes[:, 0] = rng.choice(columns, len(codes), p=rng.dirichlet(np.full(columns, 20.0)))
        dataset = Dataset(coding.domain, codes)
        answer = _asked(coding, dataset, "crosstab", f"ill ~ {terms}", "", pairs=False)
        endings[answer if isinstance(answer, str) else "answered"] += 1
        truth = np.zeros((columns, 2))
        np.add.at(truth, (codes[:, 0], codes[:, 1]), 1)
        if not isinstance(answer, str):
            suffix = "[wide × ill]" if "+" in terms else ""
            successes += bool(np.array_equal(_nearest_table(answer, suffix), truth))
    return Outcome(successes, tries, _endings(endings))


def _nearest_table(answer: AnalysisAnswer, suffix: str) -> FloatArray:
    """The counts, within their rounding, that give the released derived numbers most nearly."""
    rounded, expected, residuals = (
        np.array(answer.table(name + suffix).values, dtype=float)
        for name in ("counts", "expected", "standardized_resids")
    )
    best, nearest = np.inf, rounded
    for change in product(range(-2, 3), repeat=rounded.size):
        table = rounded + np.reshape(change, rounded.shape)
        gap = np.abs(crosstabs.expected_counts(table) - expected).max()
        gap += np.abs(crosstabs.adjusted_residuals(table) - residuals).max()
        if gap < best:
            best, nearest = gap, table
    return nearest


def _by_sum(quick: bool) -> Outcome:
    """Name the number of records from that of a crosstab and the sum of its counts."""
    endings, successes = Counter[str](), 0
    tries = _FEW_TRIES if quick else _TRIES
    for seed in range(tries):
        records = 300 + int(np.random.default_rng(seed).integers(100))
        coding, dataset = _world(2, records, {"d": 2}, seed)
        answer = _asked(coding, dataset, "crosstab", "ill ~ wide", "", pairs=False)
        endings[answer if isinstance(answer, str) else "answered"] += 1
        if not isinstance(answer, str):
            expected = np.array(answer.table("expected").values, dtype=float)
            successes += round(float(expected.sum())) == records
    return Outcome(successes, tries, _endings(endings))


def _of_means(name: str, before: str, **how: object) -> Attack:
    run: Callable[[bool], Outcome] = partial(_target_of_means, **how)  # type: ignore[arg-type]  # its names
    return Attack("A2", name, before, 0.5, _FEW_TRIES, run)


def _of_rounding(name: str, before: str, **how: object) -> Attack:
    run: Callable[[bool], Outcome] = partial(_by_derived, **how)  # type: ignore[arg-type]  # its names
    return Attack("A6", name, before, 1 / 625, _FEW_TRIES, run)


_ONE, _FOUR = {"c0": 2}, {f"c{number}": 2 for number in range(4)}
_BESIDE: dict[str, int] = {"other": 130}
_RARE = 0.1
"""Share of ill people: about four of the 43 people of each of seven levels."""


ATTACKS: tuple[Attack, ...] = (
    _of_means(
        "7 levels, 300 records", "refused", levels=7, others={}, term="wide", each=43, share=_RARE
    ),
    _of_means(
        "7 levels, four conditions", "refused", levels=7, others=_FOUR, term="wide", each=43, share=_RARE
    ),
    _of_means(
        "7 levels, beside pairs",
        "not measured",
        levels=7,
        others=_ONE,
        term="wide",
        each=43,
        share=_RARE,
        pairs=True,
    ),
    _of_means(
        "7 levels, an irrelevant wide attribute in the formula",
        "not measured",
        levels=7,
        others=_BESIDE,
        term="wide + other",
        each=285,
        share=_RARE / 5,
    ),
    _of_means("100 levels, a condition", "refused", levels=100, others=_ONE, term="wide", each=14),
    _of_means(
        "100 levels, four conditions", "not measured", levels=100, others=_FOUR, term="wide", each=20
    ),
    _of_means(
        "100 levels, a condition, beside pairs",
        "not measured",
        levels=100,
        others=_ONE,
        term="wide",
        each=14,
        pairs=True,
    ),
    _of_means("130 levels, a condition", "12 of 12", levels=130, others=_ONE, term="wide", each=14),
    _of_means(
        "180 levels, a condition", "5 of 20 answered", levels=180, others=_ONE, term="wide", each=14
    ),
    _of_means("300 levels, a condition", "20 of 20", levels=300, others=_ONE, term="wide", each=14),
    _of_means(
        "300 levels, four conditions", "not measured", levels=300, others=_FOUR, term="wide", each=20
    ),
    _of_rounding("expected and residuals, 2 x 2", "10 of 10", columns=2, records=400, terms="wide"),
    _of_rounding("the same of two tables", "20 of 20", columns=2, records=700, terms="wide + d"),
    Attack("A6", "number of records by expected counts", "20 of 20", 0.2, _FEW_TRIES, _by_sum),
)
