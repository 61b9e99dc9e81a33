"""Linear statistics to ask for besides marginals, by the names that people use."""

from gencard.core.moment import Moment, MomentKind


def mean(attribute: str) -> Moment:
    """The sum of an attribute's declared numbers."""
    return Moment(MomentKind.MEAN, (attribute,))


def variance(attribute: str) -> Moment:
    """The sums of its numbers and of their squares."""
    return Moment(MomentKind.VARIANCE, (attribute,))


def moment(attribute: str, order: int) -> Moment:
    """The sum of its numbers to the power of the order, from 1 to 8."""
    return Moment(MomentKind.MOMENT, (attribute,), order)


def covariance(one: str, other: str) -> Moment:
    """The sums of two attributes' numbers, and of their products."""
    return Moment(MomentKind.COVARIANCE, (one, other))


def group_sums(attribute: str, *, by: str) -> Moment:
    """The sum of an attribute's numbers for each level of a group."""
    return Moment(MomentKind.GROUP_SUMS, (by, attribute))


def group_means(attribute: str, *, by: str) -> Moment:
    """The same, with the number of records of each level."""
    return Moment(MomentKind.GROUP_MEANS, (by, attribute))
