"""Do intervals from noisy psi cover? ``python -m benchmarks.answers [--quick] [--json FILE]``.

Records are drawn from a population in which the model holds, measured with Laplace noise (replace-one),
and analysed from psi alone, again and again. Beside ours stand the intervals that do not know the noise,
from psi and from synthetic rows, those of a parametric bootstrap, and those on the records.

The claim is that each coefficient's interval covers with a probability between 0.93 and 0.97. It is
judged by what so many draws can tell: a coefficient contradicts it where its hits are too few for 0.93,
or too many for 0.97, by binomial tests of all coefficients together at one per cent. The table has
these bounds. An analysis with a coverage below 0.93 or above 0.97 is drawn again, four times as often
and with other random numbers; of those draws each coverage has to lie between the two. ``--quick`` has
too few draws for that.

``benchmarks.answers_grid`` has small populations of each kind of answer and design, and judges every
number of their answers.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy import stats

from benchmarks import bench
from benchmarks.answers_cases import Case, cases
from benchmarks.answers_grid import Seeded, grid
from gencard.analysis.answers.answer import Coefficients
from gencard.analysis.answers.kinds import answered, plain_answer
from gencard.analysis.answers.margins import Margins, PsiMargins, RecordMargins
from gencard.analysis.answers.noisy_margins import Bootstrap, NoisyMargins, bootstrapped
from gencard.core.card.privacy import laplace
from gencard.core.errors import ComputationError, InvalidInputError, NoiseDrownsError
from gencard.core.generators.family import ipf
from gencard.core.statistics.noise import noisy
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import FloatArray

EPSILONS = ("0.5", "1", "4")
LEAST, MOST = 0.93, 0.97
"""Between which the coverage of each coefficient is to lie."""

_FALSE_ALARMS = 0.01
"""Chance that, of coefficients which all keep the claim, any is said to contradict it."""

_SEED = 20_26
_AGAIN = 4
"""Times as many draws where an observed coverage is outside the claim."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Number of cases of each kind: the costly ones are fewer."""

    noise: int
    rows: int
    bootstraps: int
    replicates: int


FULL = Draws(noise=1_000, rows=60, bootstraps=6, replicates=150)
QUICK = Draws(noise=100, rows=10, bootstraps=1, replicates=100)


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Intervals of one method: whether each covers, and its width; shape ``(draws, coefficients)``."""

    covers: FloatArray
    widths: FloatArray

    @classmethod
    def of(cls, ends: Sequence[FloatArray], truth: FloatArray) -> "Intervals":
        """From the ends of the intervals, each of shape ``(coefficients, 2)``."""
        if not ends:
            return cls(np.full((1, len(truth)), np.nan), np.full((1, len(truth)), np.nan))
        low, high = np.moveaxis(np.array(ends), -1, 0)
        return cls(((low <= truth) & (truth <= high)).astype(np.float64), high - low)

    @property
    def coverage(self) -> FloatArray:
        return np.asarray(self.covers.mean(axis=0))

    @property
    def width(self) -> FloatArray:
        """Median over the draws, of each coefficient."""
        return np.asarray(np.median(self.widths, axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One analysis at one epsilon."""

    case: Case
    epsilon: str
    drowned: int
    ours: Intervals
    records: Intervals
    blind: Intervals
    rows: Intervals
    bootstrap: Intervals

    def bounds(self, alarms: float) -> tuple[float, float]:
        """Between which observed coverages may lie.

        Args:
            alarms: Chance that one coefficient which keeps the claim lies outside.
        """
        draws = len(self.ours.covers)
        low = float(stats.binom.ppf(alarms / 2, draws, LEAST))
        high = float(stats.binom.ppf(1 - alarms / 2, draws, MOST))
        return low / draws, high / draws

    def cells(self, alarms: float) -> tuple[bench.Cell, ...]:
        """Cells of the table's row."""
        return (
            *(self.case.name, self.epsilon, self.drowned),
            *(float(self.ours.coverage.min()), float(self.ours.coverage.max())),
            *self.bounds(alarms),
            *(float(one.coverage.min()) for one in (self.records, self.blind, self.rows)),
            float(np.median(self.ours.width / self.records.width)),
            float(np.median(self.ours.width / self.bootstrap.width)),
        )


_COLUMNS = (
    *(
        "analysis",
        "epsilon",
        "drowned",
        "least",
        "most",
        "from",
        "to",
        "records",
        "blind to noise",
        "synthetic rows",
    ),
    *("width / records", "width / bootstrap"),
)


def run(quick: bool) -> bench.Result:
    draws = QUICK if quick else FULL
    rows = [row(*one, draws) for one in _counted(list(product(cases(), EPSILONS)))]
    alarms = _FALSE_ALARMS / sum(len(one.ours.coverage) for one in rows)
    often = replace(draws, noise=_AGAIN * draws.noise)
    doubtful = [(one.case, one.epsilon) for one in rows if _outside([one]) and not quick]
    again = [row(*one, often, stream=1) for one in _counted(doubtful)]
    every_kind, grid_targets, grid_figures = grid(quick)
    title = (
        f"Coverage of 95 % intervals over {draws.noise:,} draws, least and most of all coefficients, "
        f"from and to where it may lie, beside the least of others; median widths"
    )
    return bench.Result(
        [
            bench.Table(title, _COLUMNS, [one.cells(alarms) for one in rows]),
            every_kind,
            bench.Table(f"Again, {often.noise:,} draws", _COLUMNS, [one.cells(alarms) for one in again]),
        ],
        [*_targets(rows, draws, alarms), *grid_targets, *([] if quick else [_drawn_again(again)])],
        {
            "grid": grid_figures,
            "rows": [_figures(one) for one in rows],
            "again": [_figures(one) for one in again],
        },
    )


def _counted(items: Sequence[tuple[Case, str]]) -> Iterator[tuple[Case, str]]:
    """Each item, named on standard error before it is worked on."""
    for number, (case, epsilon) in enumerate(items, start=1):
        print(f"{number} of {len(items)}: {case.name}, epsilon {epsilon}", file=sys.stderr, flush=True)
        yield case, epsilon


def _outside(rows: Sequence[Row]) -> int:
    """Coefficients with an observed coverage outside the claim, by chance or not."""
    return sum(int(((one.ours.coverage < LEAST) | (one.ours.coverage > MOST)).sum()) for one in rows)


def _contradicting(rows: Sequence[Row], alarms: float) -> int:
    """Coefficients with an observed coverage that the claim cannot explain."""
    count = 0
    for one in rows:
        low, high = one.bounds(alarms)
        count += int(((one.ours.coverage < low) | (one.ours.coverage > high)).sum())
    return count


def _drawn_again(again: Sequence[Row]) -> bench.Target:
    return bench.Target("coefficients outside when drawn again", _outside(again), 0, "at most")


def _targets(rows: Sequence[Row], draws: Draws, alarms: float) -> list[bench.Target]:
    contradicting, outside = float(_contradicting(rows, alarms)), _outside(rows)
    narrowest = min(float((one.ours.width / one.records.width).min()) for one in rows)
    drowned = max(one.drowned for one in rows) / draws.noise
    name = f"coefficients that contradict {LEAST} to {MOST} ({outside} lie outside by chance or not)"
    return [
        bench.Target(name, contradicting, 0, "at most"),
        bench.Target("median width beside the records", narrowest, 1.0, "at least"),
        bench.Target("drowned", drowned, 0.01, "at most", "of the draws"),
    ]


def _figures(one: Row) -> dict[str, object]:
    ways = {"ours": one.ours, "records": one.records, "blind": one.blind, "rows": one.rows}
    return {
        "analysis": one.case.name,
        "epsilon": one.epsilon,
        "drowned": one.drowned,
        "coverage": {name: way.coverage.tolist() for name, way in ways.items()},
        "width": {
            name: way.width.tolist() for name, way in (ways | {"bootstrap": one.bootstrap}).items()
        },
    }


def row(case: Case, epsilon: str, draws: Draws, stream: int = 0) -> Row:
    """One analysis at one epsilon, every way.

    Args:
        stream: Of random numbers; another one is independent of the first.
    """
    rng = np.random.default_rng([_SEED, EPSILONS.index(epsilon), *([stream] if stream else [])])
    noise = Seeded(rng)
    ends: dict[str, list[FloatArray]] = {name: [] for name in ("ours", "records", "blind", "rows")}
    wide: list[FloatArray] = []
    drowned = 0
    for draw in range(draws.noise):
        exact = case.drawn(rng=rng)
        psi = noisy(exact, laplace(epsilon, neighbouring="replace-one"), noise)
        margins = NoisyMargins.of(psi)
        ends["records"] += _ends(case, PsiMargins(exact))
        intervals = _ends(case, margins)
        drowned += not intervals
        ends["ours"] += intervals
        ends["blind"] += _ends(case, _blind(case, margins))
        if draw < draws.rows:
            ends["rows"] += _ends(case, _synthetic(case, psi, rng))
        if draw < draws.bootstraps:
            wide += _bootstrap(case, margins, draws.replicates, rng)
    judged = {name: Intervals.of(one, case.truth[case.judged]) for name, one in ends.items()}
    return Row(case, epsilon, drowned, **judged, bootstrap=Intervals.of(wide, case.truth[case.judged]))


def _ends(case: Case, margins: Margins) -> list[FloatArray]:
    """The intervals, if there is an answer."""
    try:
        coefficients = answered(case.question, margins).coefficients
    except (ComputationError, InvalidInputError):
        return []
    return [_interval(coefficients, case)] if coefficients else []


def _interval(coefficients: Coefficients, case: Case) -> FloatArray:
    return np.asarray(coefficients.conf_int()[case.judged])


def _blind(case: Case, margins: NoisyMargins) -> PsiMargins:
    """The same counts, said to be exact."""
    measurements = (Measurement(clique, margins.counts(clique)) for clique in case.cliques)
    return PsiMargins(Psi(margins.domain, tuple(measurements)))


def _synthetic(case: Case, psi: Psi, rng: np.random.Generator) -> RecordMargins:
    domain = case.coding.domain
    return RecordMargins.of(ipf().fit(psi, domain).sample(case.records, rng=rng))


def _bootstrap(
    case: Case, margins: NoisyMargins, replicates: int, rng: np.random.Generator
) -> list[FloatArray]:
    try:
        answer = bootstrapped(
            lambda drawn: plain_answer(case.question, drawn),
            margins,
            case.cliques,
            Bootstrap(rng, replicates=replicates),
        )
    except NoiseDrownsError:
        return []
    rows = dict(zip(answer.table("intervals").row_names, answer.table("intervals").values, strict=True))
    names = answer.coefficients.names if answer.coefficients else ()
    return [np.array([rows[name][2:] for name in names], dtype=np.float64)[case.judged]]


if __name__ == "__main__":
    bench.main("answers", run)
