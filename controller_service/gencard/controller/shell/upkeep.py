"""backup, restore, notify, doctor: copies of the state, a test notification, needs of the service."""

import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from sqlalchemy import Connection, inspect, make_url, text

from gencard.controller.audits import RefusedWorkers
from gencard.controller.backup import (
    Restored,
    agreed_on,
    alone,
    back_up,
    clear,
    place,
    state_lock,
    take_over,
)
from gencard.controller.base.disk import StateFiles, check_space, free_bytes
from gencard.controller.base.files import secret_bytes
from gencard.controller.controller_state import utc_now
from gencard.controller.notify import TEST, DeliveryOutcome, Message, channels_of, link_of
from gencard.controller.people.keys import certificate_ends
from gencard.controller.records.records import check_rights
from gencard.controller.records.table_address import TableAddress
from gencard.controller.sandbox.analyses import check_libraries, home
from gencard.controller.sandbox.boxes import check_isolation
from gencard.controller.settings import Settings
from gencard.controller.shell.terminal import (
    AHEAD_ADVICE,
    HERE,
    AsJson,
    ConfigFile,
    Emergency,
    StewardName,
    ahead_text,
    console,
    controller_state,
    say,
    say_json,
    steward_uri,
)
from gencard.controller.state import tables
from gencard.controller.state.database import Database
from gencard.controller.state.log import EventLog, ahead_of
from gencard.controller.state.sharing import SharedFiles
from gencard.controller.wiring.opening import open_controller_state
from gencard.controller.wiring.serving import tls_files
from gencard.core.errors import GencardError, InvalidInputError, StorageError, VerificationError
from gencard.files import DOCUMENT_LIMIT, read_file
from gencard.shell import Complete, new_typer
from gencard.wire.canonical import sha256

# doctor: what the service needs of the machine.


class Health(StrEnum):
    """``WARNING``: works now, and needs something done."""

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    check: str
    state: Health
    text: str
    advice: str = ""


SOON = timedelta(days=30)
"""Time before the end of a certificate from which on it should be renewed."""


def doctor(as_json: AsJson = False, config: ConfigFile = HERE) -> None:
    """Check that this machine can run the service. Changes nothing. Exits 1 if a part is broken.

    Reads no record: `gencard-controller check` does.
    """
    findings: list[Diagnosis] = []
    try:
        settings = Settings.load(config)
    except GencardError as error:
        findings.append(Diagnosis("settings", Health.BROKEN, error.message, error.advice))
    else:
        for name, examine in EXAMINATIONS.items():
            try:
                findings.append(examine(settings))
            except GencardError as error:
                findings.append(Diagnosis(name, Health.BROKEN, error.message, error.advice))
    if as_json:
        say_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            say(f"{finding.state:<8} {finding.check:<13} {finding.text}")
            if finding.advice:
                say(f"{'':<22} \u2192 {finding.advice}")
    if any(finding.state is Health.BROKEN for finding in findings):
        raise typer.Exit(1)


def _files(settings: Settings) -> Diagnosis:
    for entry in settings.datasets:
        for path in filter(None, (entry.data, entry.schema_file, entry.holdout)):
            if isinstance(path, Path) and not os.access(path, os.R_OK):
                problem = f"there is no file {path} that this account can read"
                raise InvalidInputError(field=f"datasets/{entry.name}", problem=problem)
    return Diagnosis("settings", Health.OK, f"datasets: {len(settings.datasets)}; all files found")


def _permissions(settings: Settings) -> Diagnosis:
    signing, folder = settings.signing, settings.state.folder
    for name in ("card_key", "log_key", "version_salt"):
        secret_bytes(getattr(signing, name), f"signing.{name}")
    if not settings.server.insecure_dev:
        secret_bytes(settings.server.key, "server.key")
    if folder.is_dir() and stat.S_IMODE(folder.stat().st_mode) & 0o077:
        problem = f"other users can read {folder}; set its mode to 0700"
        raise InvalidInputError(field="state.folder", problem=problem)
    if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidInputError(field="state.folder", problem=f"this account cannot write to {folder}")
    return Diagnosis("permissions", Health.OK, "keys and state are private")


def _disk(settings: Settings) -> Diagnosis:
    if not settings.state.folder.is_dir():
        return Diagnosis("disk", Health.OK, "no state yet; the first `serve` creates it")
    folder, reserve = settings.state.folder, settings.limits.reserve_mib
    check_space(folder, reserve)
    return Diagnosis("disk", Health.OK, f"{free_bytes(folder) >> 20:,} MiB free, {reserve:,} in reserve")


def _certificates(settings: Settings) -> Diagnosis:
    if tls_files(settings) is None:
        return Diagnosis(
            "certificates", Health.WARNING, "none: server.insecure_dev", "For development only."
        )
    files, now = (settings.server.certificate, settings.server.authority), datetime.now(UTC)
    end, file = min((end, file) for file, end in certificate_ends(*files))
    advice = f"Run `gencard-controller renew` for it: {file}."
    if end <= now:
        return Diagnosis("certificates", Health.BROKEN, f"expired on {end:%Y-%m-%d}", advice)
    state = Health.WARNING if end - now < SOON else Health.OK
    return Diagnosis(
        "certificates", state, f"valid until {end:%Y-%m-%d}", advice if state != "ok" else ""
    )


@contextmanager
def _reading(settings: Settings) -> Iterator[Connection | None]:
    """Open the database, or yield None if it does not exist: opening a SQLite file would create it."""
    url = make_url(settings.state.database_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        yield None
        return
    database = Database(settings.state.database_url)
    try:
        with database.reading() as tx:
            yield tx if inspect(tx).has_table(tables.events.name) else None
    finally:
        database.close()


def _database(settings: Settings) -> Diagnosis:
    try:
        with _reading(settings) as tx:
            if tx is None:
                return Diagnosis("database", Health.OK, "empty; the first `serve` prepares it")
            sqlite = tx.dialect.name == "sqlite"
            problem = tx.execute(text("PRAGMA quick_check(1)")).scalar_one() if sqlite else "ok"
            last = EventLog.last(tx)
    except StorageError:
        advice = "Check state.url, its user and password, and the network; for a file, disk and rights."
        return Diagnosis("database", Health.BROKEN, "cannot be opened", advice)
    if problem != "ok":
        advice = "Stop the service, then restore the last backup."
        return Diagnosis("database", Health.BROKEN, "its file is damaged", advice)
    return Diagnosis("database", Health.OK, f"intact, {last.index + 1 if last else 0:,} log entries")


def _clock(settings: Settings) -> Diagnosis:
    """Compare the clock with the newest log entry, up to which no card, link or session lasts."""
    now = datetime.now(UTC)
    present = f"{now:%Y-%m-%d %H:%M} UTC"
    try:
        with _reading(settings) as tx:
            ahead = None if tx is None else ahead_of(tx, now)
    except StorageError:  # reported under "database"
        return Diagnosis("clock", Health.WARNING, f"{present}, compared with no log entry")
    if ahead is not None:
        return Diagnosis("clock", Health.BROKEN, ahead_text(ahead, now), AHEAD_ADVICE)
    return Diagnosis("clock", Health.OK, f"{present}, not earlier than the newest log entry")


def _sandbox(settings: Settings) -> Diagnosis:
    try:
        check_isolation(settings.cell.isolation, settings.state.folder)
    except GencardError as error:
        runs = any(entry.policy.analyses.reviewed_runs for entry in settings.datasets)
        state = Health.BROKEN if settings.black_boxes or runs else Health.WARNING
        return Diagnosis("sandbox", state, error.message, error.advice)
    return Diagnosis("sandbox", Health.OK, f"closed ({settings.cell.isolation})")


def _libraries(settings: Settings) -> Diagnosis:
    for entry in settings.datasets:
        check_libraries(entry.policy.analyses.libraries)
    there = home()
    return Diagnosis("R", Health.OK, str(there) if there else "not installed, and no policy offers it")


def _tables(settings: Settings) -> Diagnosis:
    places = (place for entry in settings.datasets for place in (entry.data, entry.holdout))
    if not any(isinstance(place, TableAddress) for place in places):
        return Diagnosis("tables", Health.OK, "not configured")
    known = [check_rights(source, settings.datasets) for source in settings.datasets]
    if not all(known):
        advice = "Allow the Spark account to read the declared tables only."
        return Diagnosis("tables", Health.WARNING, "rights on Spark cannot be queried", advice)
    return Diagnosis("tables", Health.OK, "read-only; no other tables are visible")


def _page(settings: Settings) -> Diagnosis:
    if settings.page is None:
        return Diagnosis("page", Health.OK, "not configured")
    try:
        import gencard.controller.page.server  # noqa: F401, PLC0415  # only where there is a page
    except ModuleNotFoundError:
        return Diagnosis("page", Health.BROKEN, "a library is missing", "pip install 'gencard[page]'")
    return Diagnosis("page", Health.OK, f"at {settings.page.address} when the service runs")


def _cluster(settings: Settings) -> Diagnosis:
    """Diagnose the workers; a worker that the settings refuse is not contacted."""
    if settings.cluster is None:
        return Diagnosis("cluster", Health.OK, "not configured")
    if settings.cluster.notice:
        return Diagnosis("cluster", Health.WARNING, "no worker is named", settings.cluster.notice)
    from gencard.controller.jobs.cluster.executor import examined  # noqa: PLC0415 - slow to import

    refused = _refused_workers(settings) & set(settings.cluster.workers)
    to_ask = {name: at for name, at in settings.cluster.workers.items() if name not in refused}
    members = examined(to_ask, settings.cluster.folder)
    silent = [name for name, member in members.items() if member is None]
    other = [name for name, member in members.items() if member and not member.fits]
    fitting = len(members) - len(silent) - len(other)
    start = "Start `gencard-controller worker start` there, and compare the certificates."
    install = "Install this controller's version there."
    admit = "Examine refused workers, then run `gencard-controller worker admit NAME`."
    groups = (
        ("silent", sorted(silent), start),
        ("of another version", sorted(other), install),
        ("refused", sorted(refused), admit),
    )
    wrong = [(f"{what}: {', '.join(names)}", mend) for what, names, mend in groups if names]
    text = "; ".join([f"{fitting} workers can be used", *(what for what, _ in wrong)])
    if fitting and not wrong:
        return Diagnosis("cluster", Health.OK, text)
    advice = " ".join(mend for _, mend in wrong)
    return Diagnosis("cluster", Health.WARNING if fitting else Health.BROKEN, text, advice)


def _refused_workers(settings: Settings) -> frozenset[str]:
    folder = settings.state.folder
    if not settings.state.shared:
        return RefusedWorkers(StateFiles(folder)).names()
    with _reading(settings) as tx:
        if tx is None:
            return frozenset()
    database = Database(settings.state.database_url)
    try:
        return RefusedWorkers(SharedFiles(database, folder)).names()
    finally:
        database.close()


EXAMINATIONS: dict[str, Callable[[Settings], Diagnosis]] = {
    "settings": _files,
    "permissions": _permissions,
    "clock": _clock,
    "disk": _disk,
    "certificates": _certificates,
    "sandbox": _sandbox,
    "database": _database,
    "tables": _tables,
    "R": _libraries,
    "page": _page,
    "cluster": _cluster,
}


# backup, restore, notify: copies of the state, and a test notification.


def backup(
    folder: Annotated[Path, typer.Argument(help="New folder to create, readable by you only.")],
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Copy ledger, log, cards, psi and rows while the service runs. Keys are not included."""
    with controller_state(config) as state, console.status("Copying"):
        backup_list = back_up(state, folder, steward_uri(state.settings, steward))
    console.print(f"Made [bold]{escape(str(folder))}[/]; log entries: {backup_list.entries:,}.")
    console.print("[dim]The backup is not encrypted and contains no keys: see docs/controllers.md.[/]")


def restore(
    folder: Annotated[
        Path | None, typer.Argument(help="Backup folder. Omit it if the state is already in place.")
    ] = None,
    checkpoint: Annotated[
        list[Path] | None, typer.Option(help="Saved checkpoint of the log. Repeatable.")
    ] = None,
    complete: Complete = False,
    approval: Annotated[
        list[Path] | None,
        typer.Option(help="Approval made by `gencard steward approve-restore`. Repeatable."),
    ] = None,
    emergency: Emergency = False,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Restore a backup. Remaining budgets are blocked until you know what was lost.

    If the settings require two stewards ([stewards] two = ["restore"]), both approve the backup
    first, with `gencard steward approve-restore`.
    """
    settings = Settings.load(config)
    known = [_read(path, "--checkpoint") for path in checkpoint or ()]
    approvals = [_read(path, "--approval") for path in approval or ()]
    agreement = agreed_on(settings, folder, approvals, complete=complete, emergency=emergency)
    with state_lock(settings.state.folder), console.status("Reading the whole backup"):
        placed = None if folder is None else place(folder, settings.state)
        try:
            if placed is not None and sha256(placed.encoded()) != agreement["digest"]:
                raise VerificationError(problem="the backup was changed in the meantime")
            restored = _taken_over(settings, steward, known, agreement, complete=complete)
        except BaseException:
            if folder is not None:
                clear(settings.state)
            raise
    console.print(f"[green]Verified:[/] {restored.entries} log entries, the ledger, all rows.")
    if restored.known > restored.entries:
        lost = restored.known - restored.entries
        console.print(f"[bold red]Lost:[/] at least {lost} decisions after the backup.")
    if complete:
        return
    console.print(f"Cancelled: {restored.ended} operations. Settled: {restored.settled} reservations.")
    for line in restored.held:
        line_text = f"line {line.line}, the remaining budget of {line.dataset}: {line.price}"
        console.print(f"[bold]Blocked:[/] {line_text}", soft_wrap=True)
    console.print(
        "Find out what was released since the backup, lower the caps by it, then run "
        "`gencard-controller emergency ledger void LINE`."
    )
    console.print(
        "[dim]Repeat revocations and removals made since the backup: see docs/controllers.md.[/]"
    )


def _taken_over(
    settings: Settings,
    steward: str | None,
    known: list[bytes],
    agreed: Mapping[str, str],
    *,
    complete: bool,
) -> Restored:
    with alone(settings.state) as leadership:
        state = open_controller_state(settings, fence=leadership.fence if leadership else None)
        try:
            state.files.begin()
            uri = steward_uri(settings, steward)
            restored = take_over(state, uri, known, complete=complete, agreed=agreed)
        finally:
            state.database.close()
        if leadership is not None:
            leadership.restored()
        return restored


def _read(path: Path, option: str) -> bytes:
    return read_file(path, option, DOCUMENT_LIMIT)


notify_app = new_typer(help="Test notifications to stewards by webhook and mail.")

_ADVICE = {
    "webhook": "Check url, secret_file and authority of [notify.webhook].",
    "mail": "Check host, port, security, user and password_file of [notify.mail].",
}


@notify_app.callback()
def commands() -> None:
    """Test notifications to stewards by webhook and mail."""


@notify_app.command("test")
def try_out(config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """Send a test message by each configured channel. Shows whether it was accepted.

    The message contains fixed text and the trust domain. Nothing is retried. Exits 1 if a receiver
    did not accept it, or no channel is configured.
    """
    settings = Settings.load(config)
    channels = channels_of(settings.notify)
    if not channels:
        say("No notifications are configured: add [notify.webhook] or [notify.mail] to the settings.")
        raise typer.Exit(1)
    outcomes: dict[str, str] = {}
    for channel in channels:
        now, name = utc_now(), f"word_{secrets.token_hex(12)}"
        message = Message(name, (TEST,), settings.identity.trust_domain, link_of(settings), now)
        with console.status(f"Sending by {channel.name}"):
            attempt = channel.send(message, now)
        outcomes[channel.name] = "" if attempt.outcome is DeliveryOutcome.TAKEN else attempt.problem
    if as_json:
        say_json(
            {name: {"taken": not problem, "problem": problem} for name, problem in outcomes.items()}
        )
    else:
        for name, problem in outcomes.items():
            say(f"{name}: not accepted ({problem}). {_ADVICE[name]}" if problem else f"{name}: accepted")
    raise typer.Exit(int(any(outcomes.values())))
