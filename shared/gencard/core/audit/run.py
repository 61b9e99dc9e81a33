"""The audit: whether a black box uses more of its dataset than Phi."""

from collections.abc import Callable, Sequence

import numpy as np

from gencard.core.audit.direction import Basis
from gencard.core.audit.exploration import Findings, Sample, explore
from gencard.core.audit.extremal_pair import ExtremalPair, Moves, extremal_pair, statistics_digest
from gencard.core.audit.moves import basis_of
from gencard.core.audit.plan import AuditPlan, AuditStep, Runner, Side
from gencard.core.audit.report import AuditReport, Check, PairProof
from gencard.core.audit.trial import Scores, Trial, effect_of, pair_checks, recognised_of, trial
from gencard.core.audit.uniques import PlantedArm, Presence, own_uniques, uniques_check
from gencard.core.blackbox import BlackBox
from gencard.core.card.terms import LEAST_RUNS
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidNumberError
from gencard.core.types import Progress, ignore_progress


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
    findings = _look(basis, first, runner)
    second = _second_pair(first, findings, dataset, moves, rng=rng, progress=progress)
    test = trial(findings, dataset, second)
    scores, presence = _test(test, runner, second, dataset)
    of_uniques, uniques = uniques_check(presence, plan.level)
    of_planted, planted = arm.checks(runner, plan)
    low, high, original = (tuple(scores[side].values.tolist()) for side in Side)
    progress("report", 1.0)
    return AuditReport(
        plan=plan,
        domain=dataset.domain,
        records=len(dataset),
        checks=tuple(
            sorted((*pair_checks(scores), of_uniques, *of_planted), key=lambda one: _ORDER[one.check])
        ),
        effect=effect_of(scores, test, plan),
        blocks=findings.strongest_first,
        tested=test.tested,
        g_low=low,
        g_high=high,
        g_original=original,
        pairs=tuple(_proof(step, dataset, pair, digest_key) for step, pair in ((1, first), (2, second))),
        versions=tuple(versions),
        planted=planted,
        uniques=uniques,
        recognised=recognised_of(scores, test, plan),
    )


def _look(basis: Basis, pair: ExtremalPair, runner: Runner) -> Findings:
    low = Sample.of(basis, runner.outputs(AuditStep.LOOK, Side.LOW, pair.low))
    high = Sample.of(basis, runner.outputs(AuditStep.LOOK, Side.HIGH, pair.high))
    difference = basis.difference(pair.low, pair.high)
    for side, sample in ((Side.LOW, low), (Side.HIGH, high)):
        runner.weigh(AuditStep.LOOK, side, sample.projections(basis, difference))
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
        runner.weigh(AuditStep.TEST, side, np.column_stack([*scores[side].columns, counts]))
    return scores, presence


def _proof(step: int, dataset: Dataset, pair: ExtremalPair, key: bytes) -> PairProof:
    original, low, high = (
        statistics_digest(side, pair.cliques, pair.linear, key=key)
        for side in (dataset, pair.low, pair.high)
    )
    return PairProof(step, original, low, high, pair.moved)
