"""Hard bounds of the service: what no negotiation even looks at, and what no generator could fit."""

import threading
from dataclasses import dataclass

from gencard.controller.policy.box_policy import is_black_box
from gencard.controller.policy.moment_policy import check_values
from gencard.core.card.terms import Proposal
from gencard.core.domain import Domain
from gencard.core.errors import TooLargeError
from gencard.core.generators.contract import LinearGenerator
from gencard.core.generators.registry import Zeros, generator_named
from gencard.core.generators.support.trial_fit import check_fittable

_ONE_TRIAL = threading.Lock()
"""A trial of a fit takes seconds of a core; one at a time leaves the others to everybody's calls."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Hard bounds of the service: over these a proposal is refused, not negotiated."""

    marginal_cells: int
    model_cells: int
    marginals: int
    rows: int
    runs: int


def check_size(proposal: Proposal, domain: Domain, limits: Limits) -> None:
    """Refuse what no negotiation should even look at.

    Raises:
        TooLargeError: Too many statistics, rows or runs, or one with too many cells.
    """
    for what, asked, limit in (
        ("The number of marginals", len(proposal.cliques), limits.marginals),
        ("The number of rows", proposal.rows, limits.rows),
        ("The number of audit runs", proposal.audit.runs, limits.runs),
    ):
        if asked > limit:
            raise TooLargeError(what=what, limit=limit)
    check_values(proposal.moments, domain)
    for clique in proposal.cliques:
        if domain.project(clique).cells > limits.marginal_cells:
            what = f"The marginal ({', '.join(clique)})"
            raise TooLargeError(what=what, limit=f"{limits.marginal_cells} cells")


def check_model(terms: Proposal, domain: Domain, limits: Limits, zeros: Zeros) -> None:
    """Refuse terms to which the generator fits no model; of a black box nothing is known beforehand.

    Generators whose fit to exact counts may end far from them are tried on made-up records.

    Raises:
        TooLargeError: The model would be too large.
        NotFittableError: The generator would miss these marginals.
        InvalidInputError: The generator needs a marginal that is not asked for.
    """
    if is_black_box(terms.generator):
        return
    generator = generator_named(terms.generator, structural_zeros=zeros, max_cells=limits.model_cells)
    covered = domain.covered_by(terms.cliques)
    generator.check(terms.marginals, covered)
    if terms.moments and isinstance(generator, LinearGenerator):
        cells = sum(domain.project(clique).cells for clique in terms.marginals)
        sums = sum(1 + moment.functions(domain) for moment in terms.moments)
        generator.check_functions(cells + sums, covered)
    if not terms.privacy.noisy:
        most = limits.model_cells
        with _ONE_TRIAL:
            check_fittable(generator, terms.marginals, covered, zeros=zeros, max_cells=most)
