"""Terms from the words of whoever asks: of a new proposal, and of an answer to an offer."""

from dataclasses import replace
from typing import Any

from gencard.client.catalogue import CatalogueEntry
from gencard.client.measuring import (
    Measured,
    measures_said,
    privacy_said,
    weights_said,
    without_uniques_said,
)
from gencard.client.workload import Marginals, phi_of
from gencard.core.card.budget import EXACT
from gencard.core.card.terms import AuditTerms, Proposal
from gencard.core.domain import Domain
from gencard.core.transform import AS_COUNTED


def proposed(
    entry: CatalogueEntry,
    marginals: Marginals,
    measured: Measured,
    *,
    purpose: str,
    generator: str,
    rows: int | None,
    audit: AuditTerms,
) -> Proposal:
    """A proposal for a dataset; as many rows as its policy allows where not given.

    Raises:
        InvalidInputError, InvalidNumberError, UnknownAttributeError: What is wrong with the words.
    """
    domain = entry.coding.domain
    cliques, moments = phi_of(marginals, domain)
    asked = Proposal(
        dataset=entry.name,
        purpose=purpose,
        marginals=cliques,
        generator=generator,
        rows=entry.policy.most_rows if rows is None else rows,
        privacy=privacy_said(measured) or EXACT,
        audit=audit,
        weights=weights_said(measured, cliques, moments),
        moments=moments,
        measures=measures_said(measured),
        without_uniques=without_uniques_said(measured),
    )
    return asked.in_order_of(domain)


def countered(
    now: Proposal, domain: Domain, marginals: Marginals | None, measured: Measured, **others: Any
) -> Proposal:
    """Terms that take the place of those on offer; what is not given, or None, stays.

    Measures, and a release without replicated uniques, stay only where counts are exact.

    Args:
        others: Fields of the terms.

    Raises:
        InvalidInputError, InvalidNumberError, UnknownAttributeError: What is wrong with the words.
    """
    phi = (now.marginals, now.moments) if marginals is None else phi_of(marginals, domain)
    privacy = privacy_said(measured) or now.privacy
    before = None if privacy.noisy else now
    kept = now.weights if marginals is None and privacy.noisy else ()
    asked = replace(
        now,
        marginals=phi[0],
        moments=phi[1],
        privacy=privacy,
        weights=weights_said(measured, *phi) or kept,
        transform=AS_COUNTED if privacy.noisy else now.transform,
        measures=measures_said(measured, before),
        without_uniques=without_uniques_said(measured, before),
        **{field: value for field, value in others.items() if value is not None},
    )
    return asked.in_order_of(domain)
