"""verify, replay: offline checks of saved files."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gencard.client.analyst import Analyst
from gencard.client.checking.bundle import (
    OWN_KEY,
    AnsweredOnline,
    Bundle,
    Keys,
    Outcome,
    evidence_time,
    rebuild,
    with_fingerprint,
)
from gencard.client.checking.bundle import verify as verify_bundle
from gencard.client.checking.checks import Replayed, card_of_statement, check_delivered_file, places_by
from gencard.client.common.display import WrittenAsPage, plain
from gencard.client.common.formats import make_folder, usual_form
from gencard.client.common.rows import (
    BY_VALUES,
    ReadRows,
    is_by_values,
    read_numbered,
    read_rows,
    unread_columns,
)
from gencard.client.connection.credentials import Credentials, known_history, public_key
from gencard.client.findings.fidelity import FidelityReport, UtilityOptions, utility_report
from gencard.client.shell.terminal import (
    HERE,
    AsJson,
    Folder,
    HtmlFile,
    JsonFile,
    console,
    say,
    say_json,
    say_table,
)
from gencard.core.card.card import CardState
from gencard.core.card.terms import CardTerms
from gencard.core.errors import (
    DomainMismatchError,
    GencardError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    VerificationError,
)
from gencard.core.statistics.formula import Analysis, analysis_of
from gencard.measures.utility.fidelity import GapWords
from gencard.measures.utility.fidelity import fidelity as fidelity_to
from gencard.measures.utility.numbers import compare_with_records
from gencard.shell import visible
from gencard.wire import dsse
from gencard.wire.keys import CARDS, LOG, KeyHistory

# fidelity, report, utility: the quality and the risk of rows.


def fidelity(
    target: Annotated[str, typer.Argument(help="A saved release folder, or a card.")],
    data: Annotated[
        Path | None,
        typer.Option(help="A file of rows. Default: those in the folder, or the newest release."),
    ] = None,
    page: HtmlFile = None,
    report: JsonFile = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Compare rows with psi, the released statistics, allowing for sampling error. Always exits 0."""
    folder = Path(target)
    if folder.is_dir():
        # offline: that psi and rows belong to the card is what ``gencard verify`` checks
        bundle = Bundle.of([folder])
        coding, released = bundle.schema(), bundle.psi()
        domain = released.fitted.domain
        if coding.domain.project(domain.attributes) != domain:
            problem = "psi does not have the attributes that the schema declares"
            raise DomainMismatchError(problem=problem)
        file = data or bundle.one("rows").path
        rows = read_numbered(file, coding, domain)
        _say_read(file, rows, as_json=as_json)
        facts = fidelity_to(released, rows.dataset, coding=coding, numbers=rows.numbers)
        compared = FidelityReport(facts, coding, str(file))
    else:
        with Analyst.connect(folder=connection) as analyst:
            agreement = analyst.card(target).agreement
            if data is None:
                receipt = next(agreement.receipts(), None)
                if receipt is None:
                    problem = "is required, because the card has no release yet"
                    raise InvalidInputError(field="data", problem=problem)
                compared = agreement.fidelity(agreement.fetch(receipt.name, progress=True))
            else:
                rows = read_numbered(data, agreement.coding, agreement.domain)
                _say_read(data, rows, as_json=as_json)
                compared = agreement.fidelity(rows)
    _shown(compared, page, report, as_json=as_json)


def _shown(findings: WrittenAsPage, page: Path | None, report: Path | None, *, as_json: bool) -> None:
    say_json(findings.document()) if as_json else console.print(findings)
    if page is not None:
        findings.save_html(page)
    if report is not None:
        findings.save_json(report)
    paths = [str(path) for path in (page, report) if path is not None]
    if paths and not as_json:
        say(f"Written: {', '.join(paths)}")


def _say_read(path: Path, rows: ReadRows, *, as_json: bool) -> None:
    """Say how a file was read, if not as usual, and which columns are not compared.

    Beside JSON, on standard error.
    """
    texts = []
    if rows.form != usual_form(path) and str(rows.form):
        texts.append(f"Read as: {rows.form} ({path}).")
    if names := unread_columns(path, rows):
        problem = "Not compared, since the schema has no such attribute"
        texts.append(f"{problem}: {', '.join(names)} ({path}).")
    for text in texts:
        typer.echo(visible(text), err=True) if as_json else say(text)


def report(
    name: Annotated[str, typer.Argument(help="A card, or one of its releases.", metavar="CARD|RELEASE")],
    answer: Annotated[
        list[str] | None,
        typer.Option(
            help="Analysis of psi to include, such as 'health ~ age' or 'linear: income ~ age'. "
            "Repeatable."
        ),
    ] = None,
    page: HtmlFile = None,
    file: JsonFile = None,
    measure: Annotated[
        bool,
        typer.Option(
            help="Run missing evaluations on the records; each number costs one statistic, once per "
            "card."
        ),
    ] = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Report a release: fidelity, risk, utility and audits, as far as your role may see them.

    Always exits 0. With --html, the JSON report is written beside the page unless --report is given.
    """
    card, _, release = name.partition("/releases/")
    if page is not None and file is None:
        file = page.with_suffix(".json")
    if page is not None and page == file:
        raise InvalidInputError(field="report", problem="must differ from the file of the page")
    for path in (page, file):
        if path is not None:
            make_folder(path.parent)
    with Analyst.connect(folder=connection) as analyst:
        reported = analyst.card(card)
        answers = []
        for text in answer or ():
            kind, colon, formula = text.partition(":")
            if colon and "~" not in kind:  # what stands before a colon on the left of '~' is the kind
                answers.append(reported.answer(formula.strip(), analysis_of(kind.strip())))
            else:
                answers.append(reported.answer(text, Analysis.LOGISTIC))
        card_report = reported.report(name if release else None, answers=answers, measure=measure)
    _shown(card_report, page, file, as_json=as_json)


def utility(
    synthetic: Annotated[Path, typer.Argument(help="A saved release folder, or a file of rows.")],
    records: Annotated[Path, typer.Argument(help="File of records to compare with.")],
    schema: Annotated[
        Path | None, typer.Option(help="schema.json; required if the rows are a single file.")
    ] = None,
    target: Annotated[str, typer.Option(help="Attribute to predict.")] = "",
    predictor: Annotated[
        list[str] | None, typer.Option("--from", help="Predictor. Default: all other attributes.")
    ] = None,
    marginal: Annotated[
        list[str] | None, typer.Option(help="Marginal whose error to compute: a,b,c.")
    ] = None,
    gap: Annotated[str, typer.Option(help="Two groups to compare, such as sex=men,women.")] = "",
    within: Annotated[
        str, typer.Option(help="Attribute whose shares are compared between the groups.")
    ] = "",
    among: Annotated[str, typer.Option(help="Only these records, such as work=full,part.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the permutations.")] = 0,
    page: HtmlFile = None,
    report: JsonFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare rows with records that you have: numbers, tables, propensity, predictions. Offline."""
    if synthetic.is_dir():
        bundle = Bundle.of([synthetic])
        rows, coding, domain = bundle.one("rows").path, bundle.schema(), bundle.domain()
    elif schema is not None:
        coding = Bundle.of([schema]).schema()
        rows, domain = synthetic, coding.domain
    else:
        problem = "is required when the rows are a file without a release"
        raise InvalidInputError(field="schema", problem=problem)
    ours, theirs = read_numbered(rows, coding, domain), read_numbered(records, coding, domain)
    for file, read in ((rows, ours), (records, theirs)):
        _say_read(file, read, as_json=as_json)
    difference = None
    if gap or within or among:
        attribute, _, groups = gap.partition("=")
        levels = groups.split(",")
        if len(levels) != 2 or not within:
            problem = "needs two levels, such as sex=men,women, and --within"
            raise InvalidInputError(field="gap", problem=problem)
        part, _, kept = among.partition("=")
        chosen = tuple(kept.split(",")) if among else ()
        difference = GapWords(attribute, levels[0], levels[1], within, part, chosen)
    comparison = utility_report(
        ours.dataset,
        theirs.dataset,
        coding,
        UtilityOptions(
            target,
            tuple(predictor or ()),
            tuple(tuple(names.split(",")) for names in marginal or ()),
            difference,
        ),
        rng=np.random.Generator(np.random.PCG64(seed)),
        about=f"{rows} beside {records}",
        numbers=compare_with_records(coding, domain.attributes, ours.numbers, theirs.numbers),
    )
    _shown(comparison, page, report, as_json=as_json)


ControllerKey = Annotated[
    Path | None,
    typer.Option(help="The controller's public key for cards. Default: from the connection folder."),
]
AnalystKey = Annotated[
    Path | None, typer.Option(help="The public key of the analyst on the card. Default: your own.")
]
AnalystFingerprint = Annotated[
    str | None,
    typer.Option(help="Fingerprint of the analyst's key, as the analyst gave it to you, to be checked."),
]
LogKey = Annotated[
    Path | None, typer.Option(help="The log's public key. Default: from the connection folder.")
]
_NO_CONTROLLER_KEY = (
    "name your connection folder with -c or GENCARD_CONNECTION, "
    "or the controller's public key for cards with --controller-key FILE"
)
_MARK = {Outcome.PASSED: "✓", Outcome.FAILED: "✗", Outcome.NOTED: "·", Outcome.NOT_CHECKED: "?"}


def verify(
    paths: Annotated[list[Path], typer.Argument(help="Saved folders or files.")],
    controller_key: ControllerKey = None,
    analyst_key: AnalystKey = None,
    analyst_fingerprint: AnalystFingerprint = None,
    log_key: LogKey = None,
    online: Annotated[
        bool,
        typer.Option("--online", help="Also ask the controller whether the card was revoked since."),
    ] = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Verify signatures and digests of card, schema, psi, receipts, rows, answers, log. Offline.

    A revocation is seen if its file is there, or with --online. Exits 1 if the card was revoked.
    """
    bundle = Bundle.of(paths)
    answered = _asked(connection, bundle) if online else None  # first: it may bring new keys
    keys = _keys(connection, bundle, controller_key, analyst_key, log_key)
    if analyst_fingerprint is not None:
        keys = with_fingerprint(keys, analyst_fingerprint)
    checks = verify_bundle(bundle, keys, datetime.now(UTC), answered)
    if as_json:
        say_json([{"what": c.what, "outcome": c.outcome, "detail": c.detail} for c in checks])
    else:
        lines = [(f"{_MARK[one.outcome]} {one.outcome}", one.what, one.detail) for one in checks]
        say_table(("", "What", "Result"), lines)
        failed, left = (
            ", ".join(one.what for one in checks if one.outcome is outcome)
            for outcome in (Outcome.FAILED, Outcome.NOT_CHECKED)
        )
        if failed:
            console.print(f"[bold red]Do not use these data:[/] {plain(failed)}.")
        elif left:
            console.print(f"[bold]All files present agree.[/] Not checked: {plain(left)}.")
        else:
            console.print("[bold green]Everything agrees.[/]")
        if answered is None and not bundle.all("revocation"):
            time = evidence_time(bundle, keys)
            until = f" after {time}" if time else ""
            say(
                f"A revocation of the card{until} is not seen offline; with --online the controller "
                "is asked."
            )
    if any(check.outcome is Outcome.FAILED for check in checks):
        raise typer.Exit(1)


def _asked(folder: Path, bundle: Bundle) -> AnsweredOnline:
    name = _card_in(bundle).name
    with Analyst.connect(folder=folder) as caller:
        try:
            card = caller.card(name)
        except (NotFoundError, PermissionDeniedError):
            return AnsweredOnline(problem="the controller does not show this card to you")
        caller.log.checkpoint()
        return AnsweredOnline(tuple(card.negotiation.attestations), card.state == CardState.REVOKED)


def replay(
    paths: Annotated[list[Path] | None, typer.Argument(help="A saved release folder.")] = None,
    card: Annotated[Path | None, typer.Option(help="The signed card.")] = None,
    psi: Annotated[Path | None, typer.Option(help="The released psi.")] = None,
    receipt: Annotated[Path | None, typer.Option(help="The signed receipt.")] = None,
    schema: Annotated[Path | None, typer.Option(help="The schema. Default: beside the card.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="File of rows to compare. Default: those in the folder.")
    ] = None,
    controller_key: ControllerKey = None,
    analyst_key: AnalystKey = None,
    connection: Folder = HERE,
) -> None:
    """Recompute a release from psi, card and seed, and compare every byte with the saved rows."""
    beside = None if card is None else schema or card.parent / "schema.json"
    files = [file for file in (*(paths or ()), card, psi, receipt, beside, data) if file is not None]
    if not files:
        raise InvalidInputError(field="paths", problem="name a folder, or --card, --psi and --receipt")
    bundle = Bundle.of(files)
    if bundle.damaged:
        raise VerificationError(problem=f"{bundle.damaged[0].name} is damaged")
    keys = _keys(connection, bundle, controller_key, analyst_key, None)
    with console.status("Replaying"):
        release, dataset, coding = rebuild(bundle, keys)
        places = places_by(_card_in(bundle), bundle.psi, coding)
        for file in bundle.all("rows"):
            if read_rows(file.path, coding, dataset.domain).digest() != release.rows_digest:
                problem = f"the rows in {file.path.name} do not match the receipt"
                raise VerificationError(problem=problem)
            check_delivered_file(file.path, dataset, coding, [release.drawing_seed], places)
    say(str(Replayed.of(release)))
    for file in bundle.all("rows"):
        if is_by_values(file.path):
            say(f"{file.path.name} was {BY_VALUES}: it holds the time at which it was written, too.")
    if not bundle.all("rows"):
        say("No rows were compared; name a file with --data.")
    if bundle.all("revocation"):
        say("A file says that the card was revoked: see `gencard verify`.")


def _card_in(bundle: Bundle) -> CardTerms:
    """The card; its signatures are for others to check."""
    return card_of_statement(dsse.opened(bundle.one("card").content)[0])


def _keys(
    folder: Path, bundle: Bundle, controller: Path | None, analyst: Path | None, log: Path | None
) -> Keys:
    """The named keys; for those not named, the connection folder's keys and their successors.

    The folder's own signing keys count as the analyst's only if the card names its owner as analyst.
    """
    is_connection = (folder / "certificate.pem").is_file()
    if controller is None and not is_connection:
        raise InvalidInputError(field="connection", problem=_NO_CONTROLLER_KEY)
    controller_keys = _history(controller, "controller_key", CARDS, folder)
    if analyst is not None:
        analyst_keys: tuple[Ed25519PublicKey, ...] = (public_key(analyst, "analyst_key"),)
    elif is_connection:
        # the holder's own keys, where a card names the holder as its analyst; nothing is verified here
        credentials = Credentials.of_folder(folder)
        own, analysts = credentials.identity().uri, set()
        for file in bundle.all("card"):
            with suppress(GencardError):
                analysts.add(card_of_statement(dsse.opened(file.content)[0]).analyst)
        analyst_keys = credentials.public_signing_keys() if own in analysts else ()
    else:
        analyst_keys = ()
    return Keys(
        controller_keys,
        analyst_keys,
        _history(log, "log_key", LOG, folder) if log or is_connection else None,
        f"from {analyst.name}, as trustworthy as the source of that file" if analyst else OWN_KEY,
    )


def _history(file: Path | None, field: str, use: str, folder: Path) -> KeyHistory:
    """The named key; without a name, the controller's keys as the connection folder knows them."""
    if file is None:
        return known_history(Credentials.of_folder(folder), use)
    return KeyHistory(public_key(file, field), use)
