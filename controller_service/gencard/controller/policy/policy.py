"""What a proposal may ask for: bounds that the controller declares, and no record in sight."""

from dataclasses import dataclass

from gencard.controller.policy.moment_policy import NO_MOMENTS, MomentPolicy
from gencard.core.card.budget import Mechanism, Price, Privacy
from gencard.core.domain import Clique
from gencard.core.transform import AS_COUNTED, Transform


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
        automatic: Offer at once; otherwise a steward looks first.
        valid_days: Life of an offer and of the card made of it.
    """

    largest_order: int
    largest_marginal_cells: int
    most_marginals: int
    most_rows: int
    generators: tuple[str, ...]
    most_per_card: Price
    mechanisms: tuple[Mechanism, ...] = (Mechanism.EXACT,)
    noise: Privacy | None = None
    transform: Transform = AS_COUNTED
    moments: MomentPolicy = NO_MOMENTS
    forbidden: tuple[Clique, ...] = ()
    measures: tuple[str, ...] = ()
    without_uniques: bool = False
    automatic: bool = True
    valid_days: int = 90

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
