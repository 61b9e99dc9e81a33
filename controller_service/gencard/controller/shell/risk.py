"""risk: what the exact counts of a card reveal about the records, for the steward alone."""

from collections.abc import Sequence

from rich.markup import escape

from gencard.controller.controller_state import ControllerState
from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.records.catalogue import DatasetEntry, dataset_of
from gencard.controller.shell.cards import CardName
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    StewardName,
    console,
    controller_state,
    say,
    say_json,
    steward_uri,
    table,
)
from gencard.controller.stewards.risk import ExactTables, worst_of
from gencard.measures.psi_risk.risk import PsiRisk
from gencard.wire.steward import CertainKey

WIDEST_HEAT_MAP = 16
"""Attributes beyond which the table of pairs would not fit a terminal."""


def risk(
    name: CardName, config: ConfigFile = HERE, steward: StewardName = None, as_json: AsJson = False
) -> None:
    """Show what the exact counts of a card would reveal about records.

    All exact counts granted before are included. Reads the records and prints numbers about them, for
    the steward only. Decides nothing; the log records who looked. Statistics with noise are not
    examined: their budget bounds what they reveal.
    """
    with controller_state(config) as state:
        dataset_entry = state.cards.catalogue.named(dataset_of(name))
        with state.database.transaction() as tx:
            tables = state.desk().risks.tables(tx, state.cards.card(tx, name))
            state.desk().risks.log(tx, steward_uri(state.settings, steward), name)
        report = _look(state, dataset_entry, tables)
    if as_json:
        say_json({"card": name, "together_with": list(tables.cards), **report.json()})
        return
    others = f", with the exact counts of {len(tables.cards)} other cards" if tables.cards else ""
    say(f"{name}{others} (for the steward only)\n")
    _say(report, worst_of(report, dataset_entry.schema.coding))


def _look(opened: ControllerState, dataset_entry: DatasetEntry, tables: ExactTables) -> PsiRisk:
    limits = opened.settings.limits
    jobs = Descriptions(opened.salt, limits.model_cells, limits.records)
    with console.status("Reading the records") as status:
        return tasks.LOOK(
            tables.job(jobs, dataset_entry),
            progress=lambda step, share: status.update(f"Examining {step}: {share:.0%}"),
        ).risk


def _say(report: PsiRisk, worst: Sequence[CertainKey]) -> None:
    small = report.small
    say(f"{report.records:,} records, {len(report.attributes)} attributes, {report.tables:,} tables")
    for line in (*report.failing_lines, *report.tail_lines, *report.histogram_lines):
        say(line)
    few = f"cells of fewer than {report.threshold}"
    cells = table("Small counts", "table", "cells of 1 record", few, "records in them")
    numbers = (f"{small.single:,}", f"{small.small:,}", f"{small.records:,}")
    cells.add_row("[bold]all together[/]", *numbers)
    for one in report.worst_tables:
        if one.small:
            numbers = (f"{one.single:,}", f"{one.small:,}", f"{one.records:,}")
            cells.add_row(escape(" × ".join(one.clique)), *numbers)
    console.print(cells)
    _say_facts(report, worst)
    _say_guesses(report)
    if len(report.attributes) <= WIDEST_HEAT_MAP:
        _say_certain(report)


def _say_facts(report: PsiRisk, worst: Sequence[CertainKey]) -> None:
    title = "Certain: some attributes of a person determine another one"
    facts = table(title, "attributes known", "facts", "also true of the most frequent level")
    for one in report.facts:
        known = "1" if one.width == 1 else f"up to {one.width}"
        facts.add_row(known, f"{one.facts:,}", f"{one.guessed:,}")
    console.print(facts)
    if worst:
        keys = table("Keys that make most records certain", "known", "certain", "records")
        for key in worst:
            keys.add_row(escape(key.known), escape(key.certain), f"{key.records:,}")
        console.print(keys)


def _say_guesses(report: PsiRisk) -> None:
    title = "Likely: guesses above 90 % at levels that fewer than half of the records have"
    guesses = table(
        title, "attributes known", "guesses", "right", "cells that certainly contain a record"
    )
    for one in report.guesses:
        held_text = f"{one.held:,}, {one.unexpected:,} of them unexpected"
        guesses.add_row(str(one.width), f"{one.guesses:,}", f"{one.right:,}", held_text)
    if report.wide.tables:
        held_text = (
            f"{report.wide.held + report.wide.cells:,}, {report.wide.unexpected:,} of them unexpected"
        )
        guesses.add_row("3", "not examined", "", held_text)
    console.print(guesses)
    for sentence in report.not_covered:
        say(sentence)


def _say_certain(report: PsiRisk) -> None:
    """Print the heat map: attribute known (row), attribute certain (column), in % of the records."""
    title = "Certain from one attribute (row) about another (column), % of records"
    numbers = [str(place + 1) for place in range(len(report.attributes))]
    heat = table(title, "", "", *numbers)
    for place, (name, shares) in enumerate(zip(report.attributes, report.certain, strict=True)):
        cells = ("" if other == place else _percent(share) for other, share in enumerate(shares))
        heat.add_row(numbers[place], escape(name), *cells)
    console.print(heat)


def _percent(share: float) -> str:
    """0 is a dot, so that the rest stands out; what is not 0 is never shown as 0."""
    if not share:
        return "[dim]·[/]"
    text = "<1" if share < 0.01 else f"{100 * share:.0f}"
    return f"[red]{text}[/]" if share >= 0.1 else f"[yellow]{text}[/]"
