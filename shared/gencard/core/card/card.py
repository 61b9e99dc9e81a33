"""A card and how it came to be: states, turns, offers, steps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum

from gencard.core.card.budget import FREE, Price
from gencard.core.card.terms import Analyses, AuditTerms, Proposal
from gencard.core.json_codecs import written


class CardState(StrEnum):
    """State of a card.

    REQUESTED <-> OFFERED -> ACCEPTED -> AGREED -> [AUDITING -> AUDITED | AUDIT_FAILED] -> RELEASED
    -> EXPIRED; TERMINATED from any open state; SUSPENDED and REVOKED by the controller.
    """

    REQUESTED = "requested"
    OFFERED = "offered"
    ACCEPTED = "accepted"
    AGREED = "agreed"
    AUDITING = "auditing"
    AUDITED = "audited"
    AUDIT_FAILED = "audit-failed"
    RELEASED = "released"
    EXPIRED = "expired"
    TERMINATED = "terminated"
    SUSPENDED = "suspended"
    REVOKED = "revoked"


class Turn(StrEnum):
    """Party that has to act next."""

    NOBODY = "nobody"
    ANALYST = "analyst"
    CONTROLLER = "controller"


OPEN = frozenset({CardState.REQUESTED, CardState.OFFERED, CardState.ACCEPTED})
"""States in which a card is still talked about."""

WAITING = frozenset({CardState.REQUESTED, CardState.ACCEPTED})
"""States in which the controller has to answer."""

USABLE = frozenset({CardState.AGREED, CardState.AUDITED, CardState.RELEASED})
"""States in which rows may be generated."""

AUDITABLE = USABLE | {CardState.AUDITING}
"""States in which audits may run."""


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a typed diff: field, what was asked, what is offered, reason code."""

    field: str
    old: str
    new: str
    reason: str


@dataclass(frozen=True, slots=True)
class CounterOffer:
    """The nearest acceptable terms, how they differ, and their price. No change: accepted as asked."""

    terms: Proposal
    changes: tuple[Change, ...]
    price: Price


@dataclass(frozen=True, slots=True)
class Refusal:
    """No acceptable terms are near; the reasons are codes of the policy."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Offer(CounterOffer):
    """The controller's offer; immutable.

    Args:
        statement: Statement that both parties sign: in-toto, as RFC 8785 JSON bytes.
        digest: SHA-256, in hex, of the statement's predicate.
        measures_price: Price of all measures that the terms name, for one release, besides ``price``.
        held_by: Cards of the analyst that hold some of these statistics; ``price`` is of the others.
        analyses_price: Most that all runs on the records may cost, besides ``price``.
    """

    statement: bytes
    digest: str
    expire_time: datetime
    measures_price: Price = FREE
    held_by: tuple[str, ...] = ()
    analyses_price: Price = field(default=FREE, metadata=written(omit=True))


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a negotiation."""

    actor: str
    action: str
    remark: str
    time: datetime


@dataclass(frozen=True, slots=True)
class CardRecord:
    """A card as both sides see it.

    Args:
        name: datasets/{dataset}/cards/{card}; empty where the proposal was only priced.
        envelope: The DSSE envelope signed by both; empty before agreement.
        attestations: Later signed facts, oldest first.
        encoded: The card as it is stored, once it was encoded or read; a changed card has none yet.
    """

    name: str
    state: CardState
    turn: Turn
    etag: str
    analyst: str
    proposed: Proposal
    offer: Offer | None = None
    history: tuple[Step, ...] = ()
    envelope: bytes = b""
    attestations: tuple[bytes, ...] = ()
    encoded: bytes = field(default=b"", init=False, compare=False, repr=False)


# Differences between the terms of an offer and the requested terms, whichever side made the offer.
#
# Controller and analyst compute the same differences from the same two terms. So the differences that an
# analyst sees before signing do not depend on what the controller says of them; only the reasons do.

STEWARD = "STEWARD_DECISION"
"""Reason of a change that a steward made and that no rule of the policy asks for."""

NOT_EXPLAINED = "NOT_EXPLAINED"
"""Reason of a change for which the controller gave none."""


def changes_between(
    requested: Proposal,
    offered: Proposal,
    explained: Sequence[Change] = (),
    otherwise: str = NOT_EXPLAINED,
) -> tuple[Change, ...]:
    """Every difference between two terms, each once; empty only where they mean the same.

    Single values first, so that a long list of marginals hides none of them.

    Args:
        requested, offered: In any order of their statistics; order is no difference.
        explained: Changes with reasons, such as those of a policy. Only their reasons are used.
        otherwise: Reason of a difference that ``explained`` does not hold.
    """
    differences = (
        *_values(requested, offered),
        *_weights(requested, offered),
        *_listed("measures", requested.measures, offered.measures),
        *_listed("moments", requested.moments, offered.moments),
        *_listed("histograms", requested.histograms, offered.histograms),
        *_listed("sums", requested.sums, offered.sums),
        *_marginals(requested, offered),
    )
    return tuple(
        Change(field, old, new, _reason(field, old, explained) or otherwise)
        for field, old, new in differences
    )


_Difference = tuple[str, str, str]
"""Field, what was requested, what is offered."""

_LISTED = {"marginals", "moments", "measures", "weights", "histograms", "sums"}
_ONE_BY_ONE = {
    "moments",
    "histograms",
    "sums",
    "measures",
    *(f"analyses.{part.name}" for part in fields(Analyses) if part.default == ()),
}
"""Fields of which an explanation is about what it names, and about nothing else."""
_SINGLE = [
    name
    for name in dict.fromkeys(
        ("dataset", "purpose", "rows", "generator", "audit", *(field.name for field in fields(Proposal)))
    )
    if name not in _LISTED
]
"""Fields of terms that hold one value, in the order in which people read their changes."""

_Statistic = frozenset[str] | str
"""A marginal by its attributes, or another statistic by its name."""


def _marginals(requested: Proposal, offered: Proposal) -> Iterator[_Difference]:
    """Each marginal that is not offered with the parts of it that are; then those not requested."""
    sides = requested.marginals, offered.marginals
    before, now = ({frozenset(clique): clique for clique in cliques} for cliques in sides)
    new_cliques = {names: clique for names, clique in now.items() if names not in before}
    parts_of_any: set[frozenset[str]] = set()
    for names, clique in before.items():
        if names in now:
            continue
        parts = [part for part in new_cliques if part < names]
        parts_of_any.update(parts)
        part_texts = [", ".join(new_cliques[part]) for part in parts]
        yield "marginals", ", ".join(clique), "; ".join(part_texts)
    for names, clique in new_cliques.items():
        if names not in parts_of_any:
            yield "marginals", "", ", ".join(clique)


def _values(requested: Proposal, offered: Proposal) -> Iterator[_Difference]:
    names = [name for name in _SINGLE if getattr(requested, name) != getattr(offered, name)]
    for name in names:
        old, new = getattr(requested, name), getattr(offered, name)
        if isinstance(old, AuditTerms | Analyses):
            yield from parts_changed(name, old, new)
        else:
            yield name, _text(old), _text(new)


def parts_changed(
    name: str, old: AuditTerms | Analyses, new: AuditTerms | Analyses
) -> Iterator[_Difference]:
    """Field, old and new text of each part that differs; parts of a list one by one."""
    for part in (one.name for one in fields(old)):
        before, now = getattr(old, part), getattr(new, part)
        if isinstance(before, tuple):
            yield from _listed(f"{name}.{part}", before, now)
        elif before != now:
            yield f"{name}.{part}", str(before), str(now)


def _weights(requested: Proposal, offered: Proposal) -> Iterator[_Difference]:
    """Weights that shift the budget among statistics that both terms hold, where both add noise."""
    if not (requested.privacy.noisy and offered.privacy.noisy):
        return
    before, now = _weight_of(requested), _weight_of(offered)
    expected = {statistic: _expected_weight(statistic, before) for statistic in now}
    first = next(iter(now))
    if any(expected[one] * now[first] != now[one] * expected[first] for one in now):
        old, new = (", ".join(map(str, weights.values())) for weights in (before, now))
        yield "weights", old, new


def _expected_weight(statistic: "_Statistic", requested: dict["_Statistic", int]) -> int:
    """Return the weight that a statistic was requested with.

    A part has the weight of its heaviest whole. A statistic that was not requested has the least weight.
    """
    if statistic in requested:
        return requested[statistic]
    wholes = [
        weight
        for whole, weight in requested.items()
        if isinstance(statistic, frozenset) and isinstance(whole, frozenset) and statistic < whole
    ]
    return max(wholes, default=min(requested.values()))


def _listed(field: str, requested: Sequence[object], offered: Sequence[object]) -> Iterator[_Difference]:
    yield from ((field, str(one), "") for one in requested if one not in offered)
    yield from ((field, "", str(one)) for one in offered if one not in requested)


def _reason(field: str, old: str, explained: Sequence[Change]) -> str:
    """The codes that were given for a difference, each once; empty where none was."""
    about = [change for change in explained if change.field == field]
    if field == "marginals":  # a part of a marginal explains the whole
        names = set(old.split(", "))
        about = [change for change in about if old and set(change.old.split(", ")) <= names]
    elif field in _ONE_BY_ONE:
        about = [change for change in about if change.old == old]
    return ", ".join(dict.fromkeys(change.reason for change in about))


def _weight_of(terms: Proposal) -> dict[_Statistic, int]:
    """The weight of each statistic; 1 where the terms name none."""
    named = map(str, (*terms.moments, *terms.numbers))
    statistics: list[_Statistic] = [*map(frozenset, terms.marginals), *named]
    return dict(zip(statistics, terms.weights or (1,) * len(statistics), strict=True))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
