"""init, check, serve: set up, check and run a controller."""

import secrets
import shlex
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.status import Status

from gencard.controller.backup import is_served
from gencard.controller.base import logs
from gencard.controller.base.disk import reserve_warning
from gencard.controller.base.files import toml_text
from gencard.controller.base.listening import listened_on
from gencard.controller.drafting.folder import ADDRESS, Draft, draft
from gencard.controller.drafting.undeclared import undeclared_values
from gencard.controller.people.enrolment import PROJECT, read_identities
from gencard.controller.people.enrolment import demo_people as demo_people_in
from gencard.controller.policy.statistics import allowed_pairs
from gencard.controller.records.catalogue import PREFIX, Catalogue
from gencard.controller.records.records import SmallCells, check_records, check_rights
from gencard.controller.records.schema_file import read_schema
from gencard.controller.records.source import NOT_COVERED
from gencard.controller.records.table_address import records_at
from gencard.controller.settings import DatasetTable, Settings
from gencard.controller.shell import say_error
from gencard.controller.shell.schema import (
    MostRecords,
    Person,
    Weights,
    say_columns,
    say_weights,
    settling,
)
from gencard.controller.shell.terminal import (
    AHEAD_ADVICE,
    HERE,
    ConfigFile,
    SheetName,
    SkippedRows,
    ahead_text,
    console,
    controller_state,
    say,
    say_in_force,
    table,
)
from gencard.controller.state.log import ahead_of
from gencard.controller.stewards.effects import reachable
from gencard.controller.wiring.opening import RefusedDataset, Reload, SettingsWatch, digest_of
from gencard.controller.wiring.readiness import (
    check_apart,
    check_caps,
    check_cells,
    check_evaluations,
    check_policies,
)
from gencard.controller.wiring.serving import Controller, lead, report, report_refused, tls_files
from gencard.controller.wiring.serving import serve as serve_settings
from gencard.core.card.privacy import AS_COUNTED, Mechanism
from gencard.core.card.terms import NO_ANALYSES
from gencard.core.errors import (
    DatasetError,
    GencardError,
    InvalidInputError,
    NotLeadingError,
    UndeclaredLevelError,
)
from gencard.core.scale import Adjustments
from gencard.wire.keys import Role

_TRIAL = "Trials only: also create the keys of this {} here. Repeatable."


def init(
    folder: Annotated[Path, typer.Argument(help="New folder to create for the controller.")],
    data: Annotated[
        str,
        typer.Option(
            "--data",
            help="The records: a file (.csv, .parquet, .xlsx, .dta, .sav and others), a folder of "
            "Parquet files, or the address of a database table.",
        ),
    ],
    sheet: SheetName = "",
    skip: SkippedRows = 0,
    demo_people: Annotated[
        bool,
        typer.Option(
            "--demo-people",
            help="Demonstrations only: create keys for ana, aud and sam here, so that the controller's "
            "operator could sign in their names.",
        ),
    ] = False,
    analyst: Annotated[list[str] | None, typer.Option(help=_TRIAL.format("analyst"))] = None,
    auditor: Annotated[list[str] | None, typer.Option(help=_TRIAL.format("auditor"))] = None,
    steward: Annotated[list[str] | None, typer.Option(help=_TRIAL.format("steward"))] = None,
    project: Annotated[str, typer.Option(help="Project of these people.")] = PROJECT,
    person: Person = None,
    most_records: MostRecords = None,
    weight: Weights = None,
    address: Annotated[
        str,
        typer.Option(
            help="host:port at which the service listens and people connect; in the settings, the "
            "certificate and each connection.toml."
        ),
    ] = ADDRESS,
    authority_key: Annotated[
        Path | None,
        typer.Option(
            help="New file, for example on another disk, for the private key that enrols people. "
            "The service does not need it."
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Offer exact counts, histograms and sums, too: for records that are public or made up.",
        ),
    ] = False,
) -> None:
    """Draft settings, schema, certificates and keys. Overwrites nothing."""
    records = records_at(data, "--data")
    roles = {Role.ANALYST: analyst, Role.AUDITOR: auditor, Role.STEWARD: steward}
    people = {name: role for role, names in roles.items() for name in names or ()}
    listened_on(address, field="--address")
    if people or demo_people:
        reachable(address)
    with console.status("Reading the records and making keys") as status:
        drafted = draft(
            folder,
            records,
            now=datetime.now(UTC),
            demo_people=demo_people,
            people=people,
            project=project,
            address=address,
            authority_key=authority_key,
            sheet=sheet,
            skip=skip,
            exact=exact,
            progress=lambda name: status.update(f"Reading {escape(name)}"),
            settled=settling(person, most_records, weight, status),
        )
    console.print(f"Made [bold]{escape(str(drafted.folder))}[/]")
    say_columns(drafted.drafted)
    _say_next_steps(drafted)


def _say_next_steps(made: Draft) -> None:
    settings = shlex.quote(str(made.settings))
    say("\nNext:")
    say(f"  1. Check {made.schema} line by line: it is public, and its labels and edges")
    say(f"     were drafted from the records. gencard-controller schema review --config {settings}")
    say(f"  2. Read policy and caps in {made.settings}.")
    say(f"  3. gencard-controller check --config {settings}")
    say(f"  4. gencard-controller serve --config {settings}")
    if made.people:
        say("  5. For trials only: this controller made the keys of these people, and could sign in")
        say("     their names:")
        for person in made.people:
            say(f"     {person}")
        return
    say("  5. Each person runs `gencard enrol NAME` on their own machine and sends you the request:")
    say(f"     gencard-controller person add NAME --role analyst --config {settings}")


def _say_no_effect(entry: DatasetTable, catalogue: Catalogue) -> None:
    """Say which stored numbers of a table, and which runs, a policy offers that are not given."""
    policy = entry.policy
    declared, given = policy.analyses, catalogue.named(f"{PREFIX}{entry.name}").policy.analyses
    dropped = [name for name in declared.columns if name not in given.columns]
    settings = [
        *(["analyses.stored"] if declared.stored and not given.stored else []),
        *([f"analyses.columns for {', '.join(dropped)}"] if dropped else []),
    ]
    if settings:
        say(f"{entry.name}: {' and '.join(settings)} has no effect: {NOT_COVERED}.")
    if policy.transform != AS_COUNTED and declared.most != NO_ANALYSES:
        say(
            f"{entry.name}: policy.transform and policy.analyses exclude each other: cards of exact "
            "counts get no runs (READS_RECORDS_ONCE_MORE), because answers would undo checks and "
            "rounding. Only cards with noise get checked runs. Remove transform, or offer noise."
        )


def check(
    show_values: Annotated[
        bool,
        typer.Option(
            "--show-values",
            help="Show each undeclared value with the number of its records, and schema lines that "
            "declare them. For the steward only.",
        ),
    ] = False,
    config: ConfigFile = HERE,
) -> None:
    """Check settings, schemas, keys and every record."""
    settings = Settings.load(config)
    _check_files(settings)
    with controller_state(config) as state:
        check_apart(state.cards.catalogue)
        check_policies(state.cards.catalogue, state.boxes.names, state.boxes.facts)
        check_evaluations(state.cards.catalogue)
        check_cells(settings)
        with state.database.reading() as tx:
            check_caps(tx, state.ledger)
            ahead = ahead_of(tx, state.machine())
        if ahead is not None:
            say(f"The clock is behind: {ahead_text(ahead, state.machine())}. {AHEAD_ADVICE}")
        if warning := reserve_warning(settings.state.folder, settings.limits.reserve_mib):
            say(warning)
        for entry in settings.datasets:
            _say_no_effect(entry, state.cards.catalogue)
    if settings.cluster is not None and settings.cluster.notice:
        say(settings.cluster.notice)
    small = _check_all_records(settings, show_values=show_values)
    datasets = table("Datasets", "dataset", "attributes", "schema", "records")
    for entry in settings.datasets:
        schema = read_schema(entry.schema_file)
        say_weights(schema, entry.name)
        reviewed = "reviewed" if schema.reviewed else "[yellow]not reviewed: `serve` will refuse it[/]"
        datasets.add_row(entry.name, str(len(schema.coding.attributes)), reviewed, "all declared")
    console.print(datasets)
    _say_small_cells(small, settings.limits.records)
    for name in demo_people_in(config.absolute().parent):
        say(f"{name}: private keys are in this folder, for trials only; not for real records.")
    people = read_identities(settings.signing.identities).values()
    for person in (one for one in people if not one.tls_keys and not one.disabled):
        say(
            f"{person.identity.name}: the key of the certificate is not recorded, so earlier "
            "certificates are accepted too. Let the person run `gencard enrol --renew`."
        )
    if is_served(settings.state.folder):
        say_in_force(config)


def _check_all_records(
    settings: Settings, *, show_values: bool
) -> list[tuple[DatasetTable, SmallCells]]:
    """Read all records; raises DatasetError after all that is wrong has been said."""
    errors: list[DatasetError] = []
    small: list[tuple[DatasetTable, SmallCells]] = []
    for entry in settings.datasets:
        for holdout in (False, True)[: 1 + (entry.holdout is not None)]:
            try:
                with console.status(f"Reading {entry.name}") as status:
                    progress = partial(_say_records, status, entry.name)
                    checked = check_records(
                        entry, partial(allowed_pairs, entry.policy), holdout=holdout, progress=progress
                    )
                part = f"{entry.name}{' (holdout)' if holdout else ''}"
                _say_adjustments(part, checked.adjustments)
                if checked.note:
                    say(f"{part}: {checked.note}")
                small += [(entry, checked.small)] if checked.small else []
            except UndeclaredLevelError as error:
                errors.append(error)
                if show_values:
                    _say_undeclared(entry, holdout=holdout)
            except DatasetError as error:
                errors.append(error)
    for earlier in errors[:-1]:
        say_error(earlier)
    if errors:
        raise errors[-1]
    return small


def _say_records(status: Status, dataset: str, records: int) -> None:
    status.update(f"Reading {escape(dataset)}: {records:,} records")


def _say_adjustments(dataset: str, adjustments: Mapping[str, Adjustments]) -> None:
    """Say how many values count otherwise than they are stored; for the steward alone."""
    for name, one in adjustments.items():
        parts = {
            "are rounded to a multiple of the step": one.rounded,
            "above the last edge count as it": one.above,
            "below the first edge count as it": one.below,
            "are times without a zone, and are read as UTC (texts: as written)": one.timed,
            "are texts that are compared as numbers, so that 01 and 1 are one label (to compare them as "
            f"texts: gencard-controller schema set {shlex.quote(name)} --text)": one.texts,
        }
        if changed := [f"{number:,} {what}" for what, number in parts.items() if number]:
            say(f"{dataset}: of the values of {name}, {', '.join(changed)}.")


def _say_undeclared(entry: DatasetTable, *, holdout: bool) -> None:
    """Print values of records to standard output, which only the steward reads."""
    undeclared = undeclared_values(entry, read_schema(entry.schema_file), holdout=holdout)
    part = f"{entry.name}: {'holdout' if holdout else 'data'}"
    values = table(
        f"Undeclared values of {escape(part)} (for the steward only)", "attribute", "value", "records"
    )
    for one in undeclared:
        for text, count in one.counts.items():
            values.add_row(escape(one.attribute), escape(text) or "[dim]empty[/]", f"{count:,}")
    console.print(values)
    say(f"To declare them, replace these keys in {entry.schema_file}, or correct the records:")
    for one in undeclared:
        say(f"\n# {one.attribute}")
        for name, value in one.mended.items():
            say(f"{name} = {toml_text(value)}")
        for note in one.notes:
            say(f"# {note}")


def _check_files(settings: Settings) -> None:
    for entry in settings.datasets:
        for key, place in (("data", entry.data), ("holdout", entry.holdout)):
            if isinstance(place, Path):
                field = f"datasets/{entry.name}: {key}"
                if not (place.is_file() or place.is_dir()):
                    raise InvalidInputError(field=field, problem=f"there is no file or folder {place}")
    tls_files(settings)
    read_identities(settings.signing.identities)
    for entry in settings.datasets:
        if not check_rights(entry, settings.datasets):
            say(
                f"{entry.name}: Spark does not report what its account may do besides reading "
                "these tables."
            )


def _say_small_cells(small: Sequence[tuple[DatasetTable, SmallCells]], most: int) -> None:
    """Print the small cells that exact counts would show, and which datasets have too many records."""
    heads = ("dataset", "pairs", "cells of 1 record", "small cells", "below", "occupied cells")
    title = "Small cells in the exact counts of all pairs (for the steward only)"
    cells = table(title, *heads, "exact counts")
    for entry, counted in small:
        numbers = (counted.pairs, counted.single, counted.few, counted.threshold, counted.occupied)
        offered = "offered" if Mechanism.EXACT in entry.policy.mechanisms else "not offered"
        cells.add_row(entry.name, *(f"{number:,}" for number in numbers), offered)
    console.print(cells)
    for entry, counted in small:
        if counted.tables:
            _say_small_tables(entry, counted)
        for one in counted.tails:
            say(f"{entry.name}: {one}")
    for entry, counted in small:
        if counted.records > most:  # said before an analyst's card fails
            say(
                f"{entry.name}: more records than limits.records, {most:,}. Statistics can be "
                "measured; black boxes, audits, evaluations and runs on the records are refused."
            )


MOST_TABLES = 20
"""Tables with small cells that ``check`` names for each dataset."""


def _say_small_tables(entry: DatasetTable, counted: SmallCells) -> None:
    title = f"{entry.name}: tables with cells of fewer than {counted.threshold} (for the steward only)"
    tables = table(escape(title), "table", "small cells", "fewest records in")
    for one in counted.tables[:MOST_TABLES]:
        fewest = "; ".join(f"{', '.join(levels)}: {records}" for levels, records in one.fewest)
        tables.add_row(escape(one.name), f"{one.few:,}", escape(fewest))
    console.print(tables)
    if len(counted.tables) > MOST_TABLES:
        say(f"And {len(counted.tables) - MOST_TABLES:,} more.")
    if entry.policy.transform.checks and Mechanism.EXACT in entry.policy.mechanisms:
        say(
            f"{entry.name}: a card with one of these tables in exact counts is refused at the records. "
            "Merge the levels in the schema, forbid the pair in the policy, or offer noise."
        )


GRACE_SECONDS = 10.0
WATCH_SECONDS = 1.0
SWITCH_SECONDS = 0.0005
"""Seconds for which one thread may hold the interpreter while others wait for it.

A call gives it up at each statement of the database. With Python's 5 ms, a proposal of 20 statements
waits up to 0.1 s for calls that compute, and holds the lock of the writers meanwhile.
"""


def serve(
    config: ConfigFile = HERE,
    unreviewed: Annotated[
        bool, typer.Option("--unreviewed", help="Serve drafted schemas too; trials only.")
    ] = False,
) -> None:
    """Run the service until interrupted. Unfinished operations resume at the next start.

    Changed caps and policies and new datasets are read within seconds, or on SIGHUP. If another
    controller serves the same PostgreSQL database, this one stays on standby and takes over when the
    other one stops. Exits 3 if another controller has taken over from this one.
    """
    logs.configure()
    sys.setswitchinterval(SWITCH_SECONDS)
    is_over = threading.Event()
    reload_asked = threading.Event()
    # closing the terminal ends the service; under a service manager the signal means "read again"
    hung_up = is_over if sys.stdin.isatty() else reload_asked
    for number, event in ((signal.SIGINT, is_over), (signal.SIGTERM, is_over), (signal.SIGHUP, hung_up)):
        signal.signal(number, lambda *_, event=event: event.set())
    settings = Settings.load(config)
    watch = SettingsWatch(config.absolute(), settings)
    leading = lead(settings, is_over, partial(say, "On standby: another controller is the leader."))
    if is_over.is_set():
        return
    with console.status("Starting"):
        controller = serve_settings(settings, unreviewed=unreviewed, leading=leading)
    controller.state_in_force(Reload(), digest_of(config, settings))
    _say_what_is_served(controller, settings)
    console.print("[dim]Press Ctrl-C to stop.[/]")
    while not is_over.wait(WATCH_SECONDS):
        if watch.changed() or reload_asked.is_set():
            reload_asked.clear()
            _reload(controller, watch, config)
        with suppress(GencardError):  # the state cannot be read now: at the next turn
            controller.controller_state.drop_ended_fits()
    if not controller.leads:
        controller.stop(0.0)
        raise NotLeadingError(
            advice="Start it again: it stays on standby until the other controller stops."
        )
    with console.status("Waiting for running calls to finish"):
        controller.stop(GRACE_SECONDS)
    console.print("Stopped.")


def _say_what_is_served(controller: Controller, settings: Settings) -> None:
    if controller.ahead is not None:
        ahead = ahead_text(controller.ahead, controller.controller_state.machine())
        say(f"The clock is behind: {ahead}. {AHEAD_ADVICE}")
    host = settings.server.address.rpartition(":")[0]
    console.print(f"Serving on [bold]{host}:{controller.port}[/]")
    if controller.page is not None:
        console.print(f"The stewards' page: {controller.page.origin}", soft_wrap=True)
    if controller.metrics is not None:
        console.print(f"Metrics: port {controller.metrics.port}, /metrics")
    if settings.cluster is not None and settings.cluster.notice:
        say(settings.cluster.notice)
    for dataset_entry in controller.controller_state.cards.catalogue:
        console.print(f"  {dataset_entry.name}  {dataset_entry.schema.title}")


def _reload(controller: Controller, watch: SettingsWatch, config: Path) -> None:
    """Read the settings again, print what is not in force and why; settings before that stay."""
    settings, digest = None, ""
    try:
        digest = digest_of(config, settings)
        settings = Settings.load(config)
        watch.follow(settings)
        digest = digest_of(config, settings)
        outcome = controller.reload(settings, digest)
    except GencardError as error:
        report_refused(error)
        with suppress(GencardError):
            controller.state_in_force(Reload(refused=(RefusedDataset(config.name, error),)), digest)
        say(f"Settings refused; the previous settings stay in force: {error}")
        return
    except Exception as error:  # whatever it is, the service goes on
        report("settings", secrets.token_hex(8), type(error).__name__)
        return
    if outcome == Reload():
        say("Settings reloaded; nothing has changed.")
    for place in outcome.changed:
        say(f"Settings reloaded: {place}")
    for refused in outcome.refused:
        say(f"Settings refused; the previous settings stay in force: {refused.text}")
    for place in outcome.waiting:
        say(f"Needs a restart: {place}")
