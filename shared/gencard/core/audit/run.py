"""The audit: whether a black box uses more of its dataset than Phi, by fresh runs and fixed weights."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gencard.core.audit.direction import Basis, Direction
from gencard.core.audit.exploration import (
    Comparison,
    Findings,
    Sample,
    brown_forsythe,
    explore,
    inverse_variance,
    neighbour_shares,
    welch,
    within_blocks,
)
from gencard.core.audit.extremal_pair import ExtremalPair, Moves, extremal_pair, statistics_digest
from gencard.core.audit.moves import basis_of
from gencard.core.audit.plan import AuditPlan, AuditStep, Runner, Side
from gencard.core.audit.report import (
    LARGEST_EFFECT,
    LEVEL_SHARES,
    AuditReport,
    Check,
    CheckResult,
    Effect,
    PairProof,
)
from gencard.core.audit.uniques import PlantedArm, Presence, own_uniques, uniques_check
from gencard.core.blackbox import BlackBox
from gencard.core.card.terms import LEAST_RUNS
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import InvalidNumberError
from gencard.core.statistics.marginals import maximal
from gencard.core.types import FloatArray, Progress, ignore_progress

# Step 2: measurements on fresh runs, with every weight fixed before the first of them.


class Scores(NamedTuple):
    """Five numbers for each run of the box on one dataset, shape ``(runs,)`` each.

    Args:
        values: ``g = <beta*, table of the output>``.
        followed: How far the output follows the inputs' difference in the strongest block alone.
        scatter: Squared distance of the output from the centre of step 1's, outside Phi.
        order: How far neighbouring rows look like those of the high side in step 1.
        recognition: How far the output lies towards ``D*`` itself.
    """

    values: FloatArray
    followed: FloatArray
    scatter: FloatArray
    order: FloatArray
    recognition: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """The weights of the five numbers, and what the inputs themselves would give.

    Args:
        tested: The blocks that ``beta*`` weighs, the heaviest first.
        strongest: The strongest block of step 1 among those that the pair differs in.
        following: Weights on the coordinates, 0 outside that block.
        input_gap: ``g`` of the high side minus ``g`` of the low side.
        followed_gap: The same of ``followed``.
        recognised_gap: ``recognition`` of the dataset itself minus that of the high side.
    """

    findings: Findings
    beta: Direction
    tested: tuple[Clique, ...]
    strongest: Clique
    following: FloatArray
    towards_original: Direction
    input_gap: float
    followed_gap: float
    recognised_gap: float

    def scores(self, outputs: Iterable[Dataset]) -> Scores:
        basis, rows = self.findings.basis, []
        for output in outputs:
            shares = basis.shares(output)
            coordinates = basis.coordinates(shares)
            distance = coordinates - self.findings.centre
            marginals = dict(zip(basis.cliques, shares, strict=True))
            numbers = (
                self.beta.product(marginals),
                float(self.following @ coordinates),
                float(distance @ distance),
                float(self.findings.neighbours @ neighbour_shares(output)),
                self.towards_original.product(marginals),
            )
            rows.append(numbers)
        return Scores(*np.array(rows).T)


def trial(findings: Findings, dataset: Dataset, pair: ExtremalPair) -> Trial:
    """Weights for fresh runs on a pair and on ``D*`` itself, from step 1 and the inputs alone.

    ``beta*`` is the difference that step 1 leads one to expect, every cell weighted by its inverse
    variance: the linear score that tells the two sides apart best.
    """
    basis = findings.basis
    low, high, original = (basis.shares(side) for side in (pair.low, pair.high, dataset))
    difference = basis.coordinates(high) - basis.coordinates(low)
    # Mixes in the inputs by what is copied: a cell that only this pair fills would weigh too much.
    copied = min(1.0, float(np.abs(findings.response).max()))
    spread = _mixed(findings.shares, _mixed(low, high, 0.5), copied / (1 + copied))
    # The coordinates of the difference that a linear box with step 1's responses would make.
    expected = np.zeros_like(difference)
    along = _along(difference, findings.difference)
    for block, response in zip(basis.parts, findings.response, strict=True):
        before, now = findings.difference[block], difference[block]
        again = _along(now, before) if before.any() else along
        expected[block] = response * now + again * findings.aside[block]
    beta = _weighted(basis, expected, spread)
    # The strongest block of step 1 among those in which the inputs differ now.
    pairs = zip(findings.blocks, basis.parts, strict=True)
    strengths = [block.strength if difference[part].any() else -1.0 for block, part in pairs]
    strongest = int(np.argmax(strengths))
    part, following = basis.parts[strongest], np.zeros_like(difference)
    following[part] = within_blocks(basis, difference, spread)[part]
    recognised = basis.coordinates(original) - findings.centre
    towards_original = _weighted(basis, recognised, _mixed(findings.shares, original, 0.5))
    return Trial(
        findings,
        beta,
        _heaviest_first(basis, expected),
        basis.cliques[strongest],
        following,
        towards_original,
        beta.value(pair.high) - beta.value(pair.low),
        float(following @ difference),
        towards_original.value(dataset) - towards_original.value(pair.high),
    )


def _along(now: FloatArray, before: FloatArray) -> float:
    """Return the component of a difference along an earlier one, as a multiple of the earlier one."""
    return float(now @ before) / float(before @ before)


def _weighted(basis: Basis, vector: FloatArray, spread: Sequence[FloatArray]) -> Direction:
    """Each cell divided by its expected share, to which the variance of its count is proportional.

    On the largest cliques only: their marginals hold those of the smaller ones.
    """
    cliques = maximal(_heaviest_first(basis, vector))
    shares = dict(zip(basis.cliques, spread, strict=True))
    tables = zip(cliques, basis.marginals(vector, cliques), strict=True)
    weights = tuple(inverse_variance(table, shares[clique]) for clique, table in tables)
    return Direction(basis.domain, cliques, weights)


def _mixed(one: Sequence[FloatArray], other: Sequence[FloatArray], share: float) -> list[FloatArray]:
    return [(1 - share) * left + share * right for left, right in zip(one, other, strict=True)]


def _heaviest_first(basis: Basis, vector: FloatArray) -> tuple[Clique, ...]:
    lengths = [float(np.linalg.norm(vector[part])) for part in basis.parts]
    order = sorted(range(len(lengths)), key=lambda block: -lengths[block])
    return tuple(basis.cliques[block] for block in order if lengths[block] > 0)


def pair_checks(scores: dict[Side, Scores]) -> tuple[CheckResult, ...]:
    """The tests of step 2 on both sides of the pair and on the dataset itself."""
    low, high, original = (scores[side] for side in Side)
    directed = {
        Check.MEAN: welch(low.values, high.values),
        Check.ORDER: welch(low.order, high.order),
        Check.RECOGNITION: welch(high.recognition, original.recognition),
    }
    undirected = {
        Check.SPREAD: brown_forsythe(low.values, high.values),
        Check.SCATTER: welch(low.scatter, high.scatter).p_value,
    }
    p_values = undirected | {check: test.p_value for check, test in directed.items()}
    directions = {check: test.direction for check, test in directed.items()}
    return tuple(
        CheckResult(check, LEVEL_SHARES[check], p_values[check], directions.get(check, 0))
        for check in p_values
    )


def effect_of(scores: dict[Side, Scores], test: Trial, plan: AuditPlan) -> Effect:
    """Share of the strongest block's difference that came out again, and the least effect detected."""
    low, high = scores[Side.LOW], scores[Side.HIGH]
    followed, mean = welch(low.followed, high.followed), welch(low.values, high.values)
    below, above = followed.interval()
    gap = test.followed_gap
    smallest = _smallest(mean, Check.MEAN, test.input_gap, plan)
    return Effect(test.strongest, followed.gap / gap, below / gap, above / gap, smallest)


def _smallest(compared: Comparison, check: Check, input_gap: float, plan: AuditPlan) -> float:
    """The smallest effect found in 8 of 10 audits, as a part of what the inputs themselves differ by."""
    if not input_gap:
        return LARGEST_EFFECT
    smallest = compared.smallest_detectable(LEVEL_SHARES[check] * plan.level)
    return min(LARGEST_EFFECT, smallest / abs(input_gap))


def part(progress: Progress, stage: str, begin: float, end: float) -> Callable[[float], None]:
    """Progress within one stage, which is the share ``begin`` to ``end`` of the whole.

    >>> part(lambda stage, share: print(stage, share), "look", 0.2, 0.4)(0.5)
    look 0.3
    """
    return lambda share: progress(stage, round(begin + (end - begin) * share, 4))


_ORDER = {check: position for position, check in enumerate(Check)}


def audit(
    box: BlackBox,
    dataset: Dataset,
    plan: AuditPlan,
    *,
    versions: Sequence[tuple[str, str]] = (),
    digest_key: bytes = b"",
    progress: Progress = ignore_progress,
) -> AuditReport:
    """Audit a black box on a dataset.

    Args:
        box: Called ``calls(runs)`` times, ``7 * runs``: on both sides of a first pair, on both sides
            of a second one, on the dataset itself, and on two datasets with planted unique records,
            where any can be planted.
        dataset: ``D*``: real records, or made up. Its domain is that of the box's output.
        plan: With ``box`` and ``dataset`` it fixes every number of the report.
        versions: Names and versions of what runs, to be written into the report.
        digest_key: Key of the report's digests of marginals; secret where the dataset is real.
        progress: Called before every run and every kind of move; may raise to cancel.

    Raises:
        NoExtremalPairError: No block could be tested.
        BlackBoxError: An output is not what the contract of the box says.
        TooLargeError: More blocks than an audit may hold, or a table too large for an audit of linear
            statistics.
        InvalidNumberError: Fewer than ``LEAST_RUNS`` runs.
        InvalidCliqueError, InvalidInputError, UnknownAttributeError: Phi does not fit the domain.
    """
    if plan.terms.runs < LEAST_RUNS:
        raise InvalidNumberError(field="audit.runs", expected=f"at least {LEAST_RUNS}")
    basis = basis_of(dataset.domain, plan)
    arm = PlantedArm.of(dataset, plan)
    cliques = [dataset.domain.canonical(clique) for clique in plan.cliques]
    moves = Moves.of(cliques, basis.cliques, plan.linear, plan.structural_zeros)
    rng = np.random.Generator(np.random.PCG64(plan.seed))
    runner = Runner(box, plan, progress)
    beta = basis.random_direction(rng=rng)
    first = extremal_pair(dataset, moves, beta, rng=rng, progress=part(progress, "pair", 0.0, 0.2))
    samples = [
        Sample.of(basis, runner.outputs(AuditStep.LOOK, side, records))
        for side, records in ((Side.LOW, first.low), (Side.HIGH, first.high))
    ]
    difference = basis.difference(first.low, first.high)
    for side, sample in zip((Side.LOW, Side.HIGH), samples, strict=True):
        runner.weigh(AuditStep.LOOK, side, sample.projections(basis, difference))
    findings = explore(basis, first, *samples)
    second = _second_pair(first, findings, dataset, moves, rng=rng, progress=progress)
    test = trial(findings, dataset, second)
    scores, presence = _test(test, runner, second, dataset)
    of_uniques, uniques = uniques_check(presence, plan.level)
    of_planted, planted = arm.checks(runner, plan)
    low, high, original = (tuple(scores[side].values.tolist()) for side in Side)
    recognition = welch(scores[Side.HIGH].recognition, scores[Side.ORIGINAL].recognition)
    progress("report", 1.0)
    return AuditReport(
        plan=plan,
        domain=dataset.domain,
        records=len(dataset),
        checks=tuple(
            sorted((*pair_checks(scores), of_uniques, *of_planted), key=lambda one: _ORDER[one.check])
        ),
        effect=effect_of(scores, test, plan),
        blocks=tuple(sorted(findings.blocks, key=lambda block: -block.strength)),
        tested=test.tested,
        g_low=low,
        g_high=high,
        g_original=original,
        pairs=tuple(_proof(step, dataset, pair, digest_key) for step, pair in ((1, first), (2, second))),
        versions=tuple(versions),
        planted=planted,
        uniques=uniques,
        recognised=_smallest(recognition, Check.RECOGNITION, test.recognised_gap, plan),
    )


def _second_pair(
    first: ExtremalPair,
    findings: Findings,
    dataset: Dataset,
    moves: Moves,
    *,
    rng: np.random.Generator,
    progress: Progress,
) -> ExtremalPair:
    """Refine the direction by the part of the pair's difference that the outputs reproduce.

    Moves for one block leave the smaller ones and those beside it as they are: what step 1 may have
    seen in them (an order, a scatter) is still there to be tested.
    """
    pair = first
    for begin in (0.4, 0.48):
        beta = findings.towards(findings.basis.difference(pair.low, pair.high))
        step_progress = part(progress, "pair", begin, begin + 0.08)
        pair = extremal_pair(dataset, moves, beta, rng=rng, start=pair, progress=step_progress)
    return pair


def _test(
    test: Trial, runner: Runner, pair: ExtremalPair, dataset: Dataset
) -> tuple[dict[Side, Scores], dict[Side, Presence]]:
    """Step 2: the test function in each run, and the reproduced unique records."""
    sides = {Side.LOW: pair.low, Side.HIGH: pair.high, Side.ORIGINAL: dataset}
    uniques = own_uniques(dataset, pair)
    presence = {side: Presence(uniques) for side in sides}
    scores = {
        side: test.scores(presence[side].watched(runner.outputs(AuditStep.TEST, side, records)))
        for side, records in sides.items()
    }
    for side in sides:
        counts = presence[side].table.sum(axis=1)
        runner.weigh(AuditStep.TEST, side, np.column_stack([*scores[side], counts]))
    return scores, presence


def _proof(step: int, dataset: Dataset, pair: ExtremalPair, key: bytes) -> PairProof:
    original, low, high = (
        statistics_digest(side, pair.cliques, pair.linear, key=key)
        for side in (dataset, pair.low, pair.high)
    )
    return PairProof(step, original, low, high, pair.moved)
