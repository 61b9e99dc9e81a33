"""A card for people: what it says, and what to do next."""

from rich.console import RenderableType
from rich.panel import Panel

from gencard.client import html, text
from gencard.core.negotiation import CardState, Negotiation
from gencard.wire.canonical import time_text

CHANGED = "The offer differs from what was asked:"
HEADS = ("Field", "Asked", "Offered", "Why")
NEXT = {
    CardState.REQUESTED: "wait for the controller's steward, then refresh()",
    CardState.OFFERED: "accept(), counter(...) or terminate()",
    CardState.ACCEPTED: "wait for the controller's signature, then refresh()",
    CardState.AGREED: "generate(rows=...)",
    CardState.AUDITING: "wait for the audit, then refresh()",
    CardState.AUDITED: "generate(rows=...)",
    CardState.AUDIT_FAILED: "propose another generator: this one was found to leak",
    CardState.RELEASED: "generate(rows=...), replay(data) or audit()",
    CardState.EXPIRED: "propose it again",
    CardState.TERMINATED: "propose another card",
    CardState.SUSPENDED: "ask the controller's steward",
    CardState.REVOKED: "stop using what was made under it, and ask the controller's steward",
}


def next_step(card: Negotiation) -> str:
    """What to do now."""
    return NEXT[card.state] if card.name else "propose it: so far it was only priced"


def lines(card: Negotiation) -> list[tuple[str, str]]:
    """The card in names and values."""
    terms = card.proposed if card.offer is None else card.offer.terms
    found = [
        ("State", str(card.state) if card.name else "priced only"),
        ("Turn", str(card.turn)),
        ("Next", next_step(card)),
        ("Purpose", terms.purpose),
        ("Marginals", marginals_text(terms.marginals)),
        ("Measured", str(terms.privacy.mechanism)),
        ("Generator", terms.generator),
        ("Rows", f"at most {terms.rows:,} in one release"),
    ]
    if card.offer is not None:
        found += [
            ("Price", html.price_text(card.offer.price)),
            ("Valid until", time_text(card.offer.expire_time)),
            ("SHA-256", card.offer.digest),
        ]
    return found


def marginals_text(cliques: tuple[tuple[str, ...], ...]) -> str:
    """The cliques, the first few by name."""
    shown = "; ".join(" × ".join(clique) for clique in cliques[:6])
    return shown if len(cliques) <= 6 else f"{shown}; … ({len(cliques):,} in all)"


def page(card: Negotiation) -> str:
    """The card as HTML for a notebook."""
    parts = [html.facts(lines(card))]
    if diff := changes(card):
        parts += [html.paragraph(CHANGED), html.grid(HEADS, diff)]
    return html.panel(card.name or "Card, priced only", *parts)


def rich(card: Negotiation) -> Panel:
    """The card for a terminal."""
    parts: list[RenderableType] = [text.facts(lines(card))]
    if diff := changes(card):
        parts += [CHANGED, text.grid(HEADS, diff)]
    return text.panel(card.name or "Card, priced only", *parts)


def changes(card: Negotiation) -> list[tuple[str, str, str, str]]:
    """How the offer differs from what was asked."""
    found = () if card.offer is None else card.offer.changes
    return [(change.field, change.old, change.new or "left out", change.reason) for change in found]
