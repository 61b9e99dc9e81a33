"""What an audit looks at: known from plan and domain, before any record is read."""

from gencard.core.audit.pairs.blocks import outside
from gencard.core.audit.pairs.direction import Basis
from gencard.core.audit.pairs.linear_part import outside_linear
from gencard.core.audit.plan import AuditPlan
from gencard.core.domain import Domain


def basis_of(domain: Domain, plan: AuditPlan) -> Basis:
    """What Phi leaves unsaid of the interactions up to the plan's order.

    Raises:
        NoExtremalPairError: Phi leaves nothing unsaid.
        TooLargeError: More blocks than an audit may hold.
        InvalidCliqueError, UnknownAttributeError: Phi does not fit the domain.
    """
    cliques = [domain.canonical(clique) for clique in plan.cliques]
    return outside_linear(domain, outside(domain, cliques, plan.terms.order), plan.linear)
