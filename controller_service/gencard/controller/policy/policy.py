"""What a proposal may ask for: bounds that the controller declares. No record is read."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gencard.core.card.analyses import NO_ANALYSES, Analyses
from gencard.core.card.budget import Price
from gencard.core.card.card import Change
from gencard.core.card.mechanism import AS_COUNTED, Transform
from gencard.core.card.noise import AddedNoise, Mechanism
from gencard.core.card.terms import Proposal
from gencard.core.domain import Clique, Domain
from gencard.core.errors import TooLargeError
from gencard.core.moment import Moment, MomentKind
from gencard.core.output_checks.rules import USUAL_RULES, Rules
from gencard.core.statistics.marginals import dimension

MOMENT = "MOMENT_NOT_OFFERED"
ORDER = "ORDER_TOO_HIGH"
NUMBER = "TOO_MANY_MARGINALS"
PRICE = "PRICE_TOO_HIGH"

MOST_VALUES = 100_000
"""Values of all functions of one card together: they travel with psi."""


@dataclass(frozen=True, slots=True)
class MomentPolicy:
    """Linear statistics on offer.

    Exact sums tell more than their number says where declared numbers lie far apart (a sum of 1, 1,000
    and 1,000,000 tells three counts): whoever offers exact moments looks at the numbers first.

    Args:
        kinds: Those that may be asked for.
        highest: Highest order of the kind that has one.
    """

    kinds: tuple[MomentKind, ...] = ()
    highest: int = 2

    def offered(
        self,
        moments: Sequence[Moment],
        forbidden: Callable[[Clique], str | None],
        *others: str | None,
    ) -> tuple[list[Moment], list[Change]]:
        """Moments to which there is no objection, and a change for each other one.

        Args:
            forbidden: Why a marginal on the attributes is not acceptable; None where it is.
            others: What stands against every moment of the card; None where nothing does.
        """

        def objection(moment: Moment) -> str | None:
            order = ORDER if moment.order > self.highest else None
            own = order if moment.kind in self.kinds else MOMENT
            return next(filter(None, (own, forbidden(moment.attributes), *others)), None)

        return _sorted_out(moments, objection)


NO_MOMENTS = MomentPolicy()


@dataclass(frozen=True, slots=True)
class AnalysesPolicy:
    """Runs on the records that a card may grant.

    Args:
        most: Kinds and libraries on offer, most runs and numbers of a card; it names no program.
        steward: Answers of checked runs wait for a steward, as those of reviewed runs always do.
        rules: By which every number of a checked run is judged.
        stored: Means and quantiles may be those of numbers as they are stored, not by levels.
    """

    most: Analyses = NO_ANALYSES
    steward: bool = False
    rules: Rules = USUAL_RULES
    stored: bool = False


RUNS_NOTHING = AnalysesPolicy()


class TwoStewards(StrEnum):
    """Decisions on cards that two stewards may have to take."""

    EXACT_COUNTS = "exact-counts"
    REVIEWED_RUNS = "reviewed-runs"
    REVOCATION = "revocation"


def affordable(
    terms: Proposal, cliques: Sequence[Clique], domain: Domain, most: int, statistics: int
) -> tuple[list[Moment], list[Change]]:
    """Keep moments while number and price allow, after the marginals on the cliques.

    Args:
        most: Moments in one card.
        statistics: Cap on the price of exact counts.
    """
    left = statistics - dimension(domain, cliques)
    moments: list[Moment] = []

    def objection(moment: Moment) -> str | None:
        if len(moments) == most:
            return NUMBER
        if not terms.privacy.noisy and sums_price(cliques, [*moments, moment], domain) > left:
            return PRICE
        moments.append(moment)
        return None

    return _sorted_out(terms.moments, objection)


def check_values(moments: Sequence[Moment], domain: Domain) -> None:
    """Raises TooLargeError where the functions together have too many values."""
    if sum(moment.values(domain) for moment in moments) > MOST_VALUES:
        raise TooLargeError(what="The number of values of the moments", limit=MOST_VALUES)


def sums_price(cliques: Sequence[Clique], moments: Sequence[Moment], domain: Domain) -> int:
    """Most independent statistics that exact moments add to marginals on the cliques.

    Each adds its sums, or what the marginal on its attributes would add, whichever is less; without
    any marginal, the number of records too.
    """
    count = 1 if moments and not cliques else 0
    known = dimension(domain, cliques) + count
    prices = (
        min(moment.functions(domain), dimension(domain, [*cliques, moment.attributes]) - known)
        for moment in moments
    )
    return sum(prices) + count


def _sorted_out(
    moments: Sequence[Moment], objection: Callable[[Moment], str | None]
) -> tuple[list[Moment], list[Change]]:
    """Moments without objection, and a change for each other one."""
    reasons = {moment: objection(moment) for moment in moments}
    changes = [Change("moments", str(moment), "", why) for moment, why in reasons.items() if why]
    return [moment for moment, why in reasons.items() if why is None], changes


@dataclass(frozen=True, slots=True)
class Policy:
    """Bounds on a card, declared by the controller.

    Args:
        largest_order: Attributes in one marginal.
        largest_marginal_cells: Cells in one marginal.
        most_marginals: Marginals in one card.
        most_rows: Rows in one release, in records.
        generators: Names allowed; the first is offered in place of one that is not.
        mechanisms: Ways to measure that are offered.
        noise: Offered in place of a mechanism that is not; all noisy cards have its neighbouring
            relation.
        transform: What happens to exact counts before they are psi; where anything does, there are no
            exact moments.
        moments: Linear statistics that may be asked for besides marginals.
        most_per_card: Cap on the price of one card.
        forbidden: Attribute sets that no marginal may hold together.
        measures: Of releases, that a card may let its analyst have, though they read records.
        without_uniques: A card may ask for a release without replicated uniques.
        analyses: That a card may have run on the records.
        automatic: Offer at once; otherwise a steward looks first.
        valid_days: Life of an offer and of the card made of it.
        stewards: 2 where two stewards take every decision that gives something.
        two_stewards: Names of single kinds of decisions that two stewards take.
        most_records: Of one person that count, by the schema; ``noise`` then protects the person. 0
            where each record stands for itself.
    """

    largest_order: int
    largest_marginal_cells: int
    most_marginals: int
    most_rows: int
    generators: tuple[str, ...]
    most_per_card: Price
    mechanisms: tuple[Mechanism, ...] = (Mechanism.EXACT,)
    noise: AddedNoise | None = None
    transform: Transform = AS_COUNTED
    moments: MomentPolicy = NO_MOMENTS
    forbidden: tuple[Clique, ...] = ()
    measures: tuple[str, ...] = ()
    without_uniques: bool = False
    analyses: AnalysesPolicy = RUNS_NOTHING
    automatic: bool = True
    valid_days: int = 90
    stewards: int = 1
    two_stewards: tuple[TwoStewards, ...] = ()
    most_records: int = 0

    def for_persons(self, most_records: int) -> "Policy":
        """The same for a dataset of which at most so many records of a person count."""
        noise = self.noise and replace(self.noise, most_records=most_records or None)
        return replace(self, noise=noise, most_records=most_records)

    def without_numbers(self) -> "Policy":
        """The same for records whose version does not cover their numbers: levels alone are given."""
        most = replace(self.analyses.most, columns=())
        return replace(self, analyses=replace(self.analyses, stored=False, most=most))

    @property
    def decided_by_two(self) -> tuple[TwoStewards, ...]:
        """Kinds of decisions that two stewards take; all of them where every one does."""
        return tuple(TwoStewards) if self.stewards > 1 else self.two_stewards

    def kept_apart(self, attributes: Iterable[str]) -> Clique | None:
        """The first forbidden set that the attributes hold together; None where they hold none."""
        present = set(attributes)
        return next((clique for clique in self.forbidden if present.issuperset(clique)), None)

    @property
    def summary(self) -> str:
        """The sentence that a card carries as its reason to be safe."""
        forbidden = "; ".join(" with ".join(clique) for clique in self.forbidden) or "none"
        moments = f"; moments: {', '.join(self.moments.kinds)}" if self.moments.kinds else ""
        return (
            f"marginals of at most {self.largest_order} attributes and "
            f"{self.largest_marginal_cells} cells, at most {self.most_marginals} of them and "
            f"{self.most_per_card.statistics} independent statistics; forbidden together: {forbidden}; "
            f"measured {' or '.join(self.mechanisms)}; exact counts {self.transform}{moments}"
        )
