"""datasets, generators, budget, log, enrol: what a controller offers and was spent; certificates."""

import shlex
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from gencard.client.analyst import Analyst
from gencard.client.catalogue import CatalogueEntry
from gencard.client.common.display import Facts
from gencard.client.connection.credentials import (
    install_answer,
    new_request,
    read_answer,
    renewal_request,
)
from gencard.client.shell.terminal import (
    HERE,
    AsJson,
    Folder,
    console,
    say,
    say_json,
    say_next,
    say_table,
)
from gencard.core.card.budget import decimal_text
from gencard.core.card.terms import NO_ANALYSES, Tier
from gencard.core.errors import InvalidInputError
from gencard.core.policy import NumbersOffer
from gencard.core.statistics.noise import USUAL_DELTA
from gencard.wire.canonical import time_text
from gencard.wire.documents import claim_document, json_of
from gencard.wire.keys import PERSONS, answer_of_document, grouped
from gencard.wire.psi import coding_document

# enrol: makes keys and a request for the steward, and installs the steward's answer.


def enrol(
    name: Annotated[
        str, typer.Argument(help="Your name at this controller: a-z, 0-9, '.', '_' and '-'.")
    ] = "",
    answer: Annotated[Path | None, typer.Option(help="Install the answer from the steward.")] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Request a new certificate for your present keys.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Replace your keys with new ones.")] = False,
    role: Annotated[
        str, typer.Option(help=f"Requested role: {', '.join(PERSONS)}. The steward decides.")
    ] = "",
    project: Annotated[str, typer.Option(help="Requested project.")] = "",
    connection: Folder = HERE,
) -> None:
    """Enrol at a controller: create keys and a request, then install the steward's answer.

    Private keys stay in your connection folder (-c; default: a folder of your name).
    """
    person = name if answer is None else answer_of_document(read_answer(answer)).identity.name
    folder = Path(person) if connection == HERE else connection
    if answer is not None:
        installed = install_answer(folder, answer)
        identity = installed.identity
        say(f"You are {identity.name}, {identity.role} in project {identity.project}.")
        say(f"The controller is at {installed.address}.")
        if installed.first:
            console.print()
            say("From now on this folder trusts this controller. Compare this fingerprint, over another")
            say("channel, with the one that the steward sees. If they differ, delete the folder:")
            say(f"  {grouped(installed.fingerprint)}")
        say_next(f"export GENCARD_CONNECTION={shlex.quote(str(folder))}; gencard datasets")
        return
    if renew:
        request = renewal_request(folder)
    elif name:
        request = new_request(folder, name, role=role, project=project, again=again)
    else:
        problem = "is missing: give your name, or --answer FILE, or --renew"
        raise InvalidInputError(field="NAME", problem=problem)
    say(f"Your private keys are in {folder}. Do not send them to anybody, not even to the steward.")
    console.print()
    say("Next:")
    say(f"  1. Send {request.file} to the controller's steward.")
    say("  2. Give the steward this fingerprint over another channel, for instance by telephone:")
    say(f"     {grouped(request.fingerprint)}")
    say("  3. Install the answer that the steward sends back:")
    say(f"     gencard enrol --answer FILE -c {shlex.quote(str(folder))}")


_UNREVIEWED = ", not reviewed (cards that name it are refused)"


def datasets(
    name: Annotated[
        str | None, typer.Argument(help="Dataset to show in full; default: list all.")
    ] = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """List datasets, or show one with its public schema and policy."""
    with Analyst.connect(folder=connection) as analyst:
        if name is not None:
            entry = analyst.dataset(name)
            say_json(_document(entry)) if as_json else console.print(entry)
            return
        entries = analyst.datasets()
    if as_json:
        say_json([{"name": one.id, "title": one.title} for one in entries])
        return
    lines = [(one.id, one.title, one.records_text, one.declared_by, one.description) for one in entries]
    say_table(("Dataset", "Title", "Records", "Declared by", "Description"), lines)


def generators(connection: Folder = HERE, as_json: AsJson = False) -> None:
    """List generators and black boxes."""
    with Analyst.connect(folder=connection) as analyst:
        entries = analyst.generators()
    if as_json:
        claims = [None if one.claim is None else claim_document(one.claim) for one in entries]
        say_json([asdict(one) | {"claim": claim} for one, claim in zip(entries, claims, strict=True)])
        return
    lines = []
    for entry in entries:
        tier, bound = str(entry.tier), "—"
        if entry.tier is Tier.AUDITED:
            tier += f", reviewed by {entry.reviewed_by}" if entry.reviewed_by else _UNREVIEWED
        if entry.bound:
            gib = entry.most_cells * entry.cell_bytes / 2**30
            bound = f"{entry.bound}: {entry.most_cells:,} of {entry.cell_bytes} bytes, {gib:.1f} GiB"
        needs = entry.needs or str(entry.claim or "—")
        parameters = ", ".join(f"{name} {value}" for name, value in entry.parameters.items()) or "—"
        lines.append((entry.name, tier, entry.description, needs, bound, parameters))
    heads = ("Name", "Tier", "Description", "Needs or claim", "Largest model", "Parameters")
    say_table(heads, lines)


def _document(entry: CatalogueEntry) -> dict[str, object]:
    readings = {}
    for one in entry.attributes:
        reading: dict[str, object] = json_of(one.reading) | {"groups": one.groups}
        texts = {name: str(value) for name, value in reading.items() if isinstance(value, date)}
        if stated := {name: value for name, value in (reading | texts).items() if value}:
            readings[one.name] = stated
    # all public fields of the policy; runs on the records only where any are on offer
    policy, analyses = entry.policy, entry.policy.analyses
    public: dict[str, object] = json_of(policy)
    public |= {"moments": policy.moments.kinds, "highestMoment": policy.moments.highest}
    for name in ("histograms", "sums"):
        if getattr(policy, name) is NumbersOffer.NEVER:
            del public[name]
    if policy.largest_order_exact is None:
        del public["largestOrderExact"]
    if analyses.most == NO_ANALYSES:
        del public["analyses"], public["twoStewards"]
    else:
        public |= {"analyses": json_of(analyses.most), "stewardReleases": analyses.by_steward}
    return {
        "name": entry.id,
        **json_of(entry, "title", "description", "declared_by", "version"),
        **({} if entry.records is None else {"records": entry.records}),
        **({"readings": readings} if readings else {}),
        "schema": coding_document(entry.coding),
        "policy": public,
    }


def budget(
    dataset: Annotated[
        str | None, typer.Argument(help="Dataset whose remaining budget to show.")
    ] = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show spending, newest first, and the remaining budget on a dataset."""
    with Analyst.connect(folder=connection) as analyst:
        left = None if dataset is None else analyst.budget(dataset)
        spends = analyst.spends()
    if as_json:
        caps: dict[str, object] = {}
        if left is not None:
            together = {"delta": decimal_text(USUAL_DELTA), "epsilon": decimal_text(left.together())}
            caps = {**json_of(left, "cap", "spent"), "together": together}
        names = ("line", "dataset", "kind", "price", "state", "resource")
        paid = [{**json_of(one, *names), "time": time_text(one.created)} for one in spends]
        say_json({**caps, "lines": paid})
        return
    lines = [
        (str(s.line), time_text(s.created), s.kind, str(s.price), str(s.state), s.resource)
        for s in spends
    ]
    say_table(("Line", "Time", "For", "Price", "State", "Resource"), lines)
    if left is not None:
        console.print(left)


def log(
    entry: Annotated[int | None, typer.Option(help="Prove that this entry is in the log.")] = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Verify the log's newest checkpoint, and that it extends the last one seen."""
    with Analyst.connect(folder=connection) as analyst:
        checkpoint = analyst.checkpoint()
        leaf = None if entry is None else analyst.log.check_entry(entry, checkpoint)
    if as_json:
        say_json(
            {"size": checkpoint.size, "root": checkpoint.root, "time": checkpoint.time, "leaf": leaf}
        )
        return
    say("The log extends the last checkpoint seen.")
    console.print(Facts(checkpoint.lines()).rich())
    if leaf is not None:
        say(f"Entry {entry} is in the log: {leaf}")
