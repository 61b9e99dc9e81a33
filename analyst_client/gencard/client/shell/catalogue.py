"""datasets, generators: what there is to ask for."""

from dataclasses import asdict
from typing import Annotated

import typer

from gencard.client.catalogue import CatalogueEntry, GeneratorEntry, Policy
from gencard.client.shell.terminal import (
    HERE,
    AsJson,
    Folder,
    connected,
    console,
    say_json,
    say_table,
)
from gencard.core.card.terms import Tier
from gencard.wire.codecs.claim_codec import claim_document
from gencard.wire.codecs.money import price_document, privacy_document
from gencard.wire.codecs.schema_codec import coding_document
from gencard.wire.codecs.transform_codec import transform_document

UNREVIEWED = "audited, not reviewed: cards that name it are refused"


def datasets(
    name: Annotated[str | None, typer.Argument(help="One dataset, whole; all where not given.")] = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """List datasets, or show one with its public schema and policy."""
    with connected(connection) as analyst:
        if name is not None:
            entry = analyst.dataset(name)
            say_json(_document(entry)) if as_json else console.print(entry)
            return
        entries = analyst.datasets()
    if as_json:
        say_json([{"name": entry.id, "title": entry.title} for entry in entries])
        return
    lines = [(entry.id, entry.title, entry.declared_by, entry.description) for entry in entries]
    say_table(("Dataset", "Title", "Declared by", "Description"), lines)


def generators(connection: Folder = HERE, as_json: AsJson = False) -> None:
    """List generators and black boxes."""
    with connected(connection) as analyst:
        entries = analyst.generators()
    if as_json:
        say_json([_generator_document(entry) for entry in entries])
        return
    lines = [
        (
            entry.name,
            _tier(entry),
            entry.description,
            entry.needs or str(entry.claim or "—"),
            _bound(entry),
            _parameters(entry),
        )
        for entry in entries
    ]
    heads = ("Name", "Tier", "Description", "Needs, or claims", "Bound", "Runs with")
    say_table(heads, lines)


def _tier(entry: GeneratorEntry) -> str:
    """The tier, and of a black box of tier audited whether a card may name it."""
    if entry.tier is not Tier.AUDITED:
        return entry.tier
    return f"{entry.tier}, reviewed by {entry.reviewed_by}" if entry.reviewed_by else UNREVIEWED


def _generator_document(entry: GeneratorEntry) -> dict[str, object]:
    return {**asdict(entry), "claim": None if entry.claim is None else claim_document(entry.claim)}


def _bound(entry: GeneratorEntry) -> str:
    """What is bounded, and the memory that a fit takes at the bound."""
    if not entry.bound:
        return "—"
    gib = entry.most_cells * entry.cell_bytes / 2**30
    return f"{entry.bound}: {entry.most_cells:,} of {entry.cell_bytes} bytes, {gib:.1f} GiB"


def _parameters(entry: GeneratorEntry) -> str:
    return ", ".join(f"{name} {value}" for name, value in entry.parameters.items()) or "—"


def _document(entry: CatalogueEntry) -> dict[str, object]:
    return {
        "name": entry.id,
        "title": entry.title,
        "description": entry.description,
        "declaredBy": entry.declared_by,
        "version": entry.version,
        "schema": coding_document(entry.coding),
        "policy": _policy_document(entry.policy),
    }


def _policy_document(policy: Policy) -> dict[str, object]:
    return {
        "largestOrder": policy.largest_order,
        "largestMarginalCells": policy.largest_marginal_cells,
        "mostMarginals": policy.most_marginals,
        "mostRows": policy.most_rows,
        "forbidden": policy.forbidden,
        "generators": policy.generators,
        "mechanisms": policy.mechanisms,
        "noise": None if policy.noise is None else privacy_document(policy.noise),
        "transform": transform_document(policy.transform),
        "moments": policy.moments,
        "highestMoment": policy.highest_moment,
        "measures": policy.measures,
        "withoutUniques": policy.without_uniques,
        "mostPerCard": price_document(policy.most_per_card),
        "automatic": policy.automatic,
        "validDays": policy.valid.days,
    }
