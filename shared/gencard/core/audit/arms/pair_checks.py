"""The tests of the extremal pair, and how small an effect they would have found."""

from gencard.core.audit.arms.comparison import Comparison, brown_forsythe, welch
from gencard.core.audit.arms.runs import Side
from gencard.core.audit.arms.trial import Scores, Trial
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import LARGEST_EFFECT, LEVEL_SHARES, Check, CheckResult, Effect


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
    """How much of the strongest block's difference came out again, and the smallest effect found."""
    low, high = scores[Side.LOW], scores[Side.HIGH]
    followed, mean = welch(low.followed, high.followed), welch(low.values, high.values)
    below, above = followed.interval()
    gap = test.followed_gap
    return Effect(
        test.strongest,
        followed.gap / gap,
        below / gap,
        above / gap,
        _smallest(mean, Check.MEAN, test.input_gap, plan),
    )


def recognised_of(scores: dict[Side, Scores], test: Trial, plan: AuditPlan) -> float:
    """The smallest part of the dataset's own difference from the high side that is found."""
    compared = welch(scores[Side.HIGH].recognition, scores[Side.ORIGINAL].recognition)
    return _smallest(compared, Check.RECOGNITION, test.recognised_gap, plan)


def _smallest(compared: Comparison, check: Check, input_gap: float, plan: AuditPlan) -> float:
    """The smallest effect found in 8 of 10 audits, as a part of what the inputs themselves differ by."""
    if not input_gap:
        return LARGEST_EFFECT
    return min(
        LARGEST_EFFECT, compared.smallest_found(LEVEL_SHARES[check] * plan.level) / abs(input_gap)
    )
