"""The audit: whether a black box uses more of its dataset than Phi."""

from collections.abc import Sequence

import numpy as np

from gencard.core.audit.basis import basis_of
from gencard.core.audit.comparison import brown_forsythe, welch
from gencard.core.audit.direction import Basis
from gencard.core.audit.exploration import Findings, Sample, explore
from gencard.core.audit.extremal_pair import ExtremalPair, Moves, extremal_pair, statistics_digest
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.progress import part
from gencard.core.audit.report import (
    LARGEST_EFFECT,
    LEVEL_SHARES,
    AuditReport,
    Check,
    CheckResult,
    Effect,
    PairProof,
)
from gencard.core.audit.runs import Runner, Side, Step
from gencard.core.audit.trial import Scores, Trial, trial
from gencard.core.blackbox.contract import BlackBox, Progress, quiet
from gencard.core.dataset import Dataset


def audit(
    box: BlackBox,
    dataset: Dataset,
    plan: AuditPlan,
    *,
    versions: Sequence[tuple[str, str]] = (),
    digest_key: bytes = b"",
    progress: Progress = quiet,
) -> AuditReport:
    """Audit a black box around a dataset.

    Args:
        box: Called ``5 * runs`` times: on both sides of a first pair, on both sides of a second one,
            and on the dataset itself.
        dataset: ``D*``: real records, or made up. Its domain is that of the box's output.
        plan: With ``box`` and ``dataset`` it fixes every number of the report.
        versions: Names and versions of what runs, to be written into the report.
        digest_key: Key of the report's digests of marginals; secret where the dataset is real.
        progress: Called before every run and every kind of move; may raise to cancel.

    Raises:
        NoExtremalPairError: Nothing could be tested.
        BlackBoxError: An output is not what the contract of the box says.
        TooLargeError: More blocks than an audit may hold, or a table too large for an audit of linear
            statistics.
        InvalidCliqueError, InvalidInputError, UnknownAttributeError: Phi does not fit the domain.
    """
    basis = basis_of(dataset.domain, plan)
    cliques = [dataset.domain.canonical(clique) for clique in plan.cliques]
    moves = Moves.of(cliques, basis.cliques, plan.linear)
    rng = np.random.Generator(np.random.PCG64(plan.seed))
    runner = Runner(box, plan, progress)
    first = _first_pair(basis, dataset, moves, rng=rng, progress=progress)
    findings = _look(basis, first, runner)
    second = _second_pair(first, findings, dataset, moves, rng=rng, progress=progress)
    test = trial(findings, dataset, second)
    scores = _scores(test, runner, second, dataset)
    low, high, original = (tuple(scores[side].values.tolist()) for side in Side)
    progress("report", 1.0)
    return AuditReport(
        plan=plan,
        domain=dataset.domain,
        records=len(dataset),
        checks=_checks(scores),
        effect=_effect(scores, test, plan),
        blocks=findings.strongest_first,
        tested=test.tested,
        g_low=low,
        g_high=high,
        g_original=original,
        pairs=tuple(_proof(step, dataset, pair, digest_key) for step, pair in ((1, first), (2, second))),
        versions=tuple(versions),
    )


def _first_pair(
    basis: Basis, dataset: Dataset, moves: Moves, *, rng: np.random.Generator, progress: Progress
) -> ExtremalPair:
    beta = basis.random_direction(rng=rng)
    return extremal_pair(dataset, moves, beta, rng=rng, progress=part(progress, "pair", 0.0, 0.2))


def _look(basis: Basis, pair: ExtremalPair, runner: Runner) -> Findings:
    low = Sample.of(basis, runner.outputs(Step.LOOK, Side.LOW, pair.low))
    high = Sample.of(basis, runner.outputs(Step.LOOK, Side.HIGH, pair.high))
    return explore(basis, pair, low, high)


def _second_pair(
    first: ExtremalPair,
    findings: Findings,
    dataset: Dataset,
    moves: Moves,
    *,
    rng: np.random.Generator,
    progress: Progress,
) -> ExtremalPair:
    """On along what comes out again of the pair's own difference, which can only grow by that.

    Moves for one block leave the smaller ones and those beside it as they are: what step 1 may have
    seen in them (an order, a scatter) is still there to be tested.
    """
    pair = first
    for begin in (0.5, 0.6):
        beta = findings.towards(findings.basis.difference(pair.low, pair.high))
        telling = part(progress, "pair", begin, begin + 0.1)
        pair = extremal_pair(dataset, moves, beta, rng=rng, start=pair, progress=telling)
    return pair


def _scores(test: Trial, runner: Runner, pair: ExtremalPair, dataset: Dataset) -> dict[Side, Scores]:
    sides = {Side.LOW: pair.low, Side.HIGH: pair.high, Side.ORIGINAL: dataset}
    return {
        side: test.scores(runner.outputs(Step.TEST, side, records)) for side, records in sides.items()
    }


def _checks(scores: dict[Side, Scores]) -> tuple[CheckResult, ...]:
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


def _effect(scores: dict[Side, Scores], test: Trial, plan: AuditPlan) -> Effect:
    low, high = scores[Side.LOW], scores[Side.HIGH]
    followed, mean = welch(low.followed, high.followed), welch(low.values, high.values)
    below, above = followed.interval()
    missed = mean.smallest_found(LEVEL_SHARES[Check.MEAN] * plan.level)
    gap = test.followed_gap
    return Effect(
        test.strongest,
        followed.gap / gap,
        below / gap,
        above / gap,
        min(LARGEST_EFFECT, missed / abs(test.input_gap)) if test.input_gap else LARGEST_EFFECT,
    )


def _proof(step: int, dataset: Dataset, pair: ExtremalPair, key: bytes) -> PairProof:
    original, low, high = (
        statistics_digest(side, pair.cliques, pair.linear, key=key)
        for side in (dataset, pair.low, pair.high)
    )
    return PairProof(step, original, low, high, pair.moved)
