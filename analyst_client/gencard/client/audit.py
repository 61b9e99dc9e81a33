"""Audits, at the controller or here: runs, verdicts, and the full report if our role may see it."""

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

from gencard.client.agreement import Agreement
from gencard.client.common.arguments import Where, checked, checked_number, checked_rows, checked_seed
from gencard.client.common.display import Displayable, Facts, Grid, Part, WrittenAsPage, page_module
from gencard.client.connection.connection import ProgressDisplay, pages, progress_bar, result_of
from gencard.client.connection.tables import RemoteBox
from gencard.core.audit.plan import AuditPlan, calls
from gencard.core.audit.report import AuditReport, Verdict
from gencard.core.audit.run import audit as run_audit
from gencard.core.audit.uniques import made_up
from gencard.core.audit.wording import report_of_json_object, report_to_json_object, summary
from gencard.core.card.budget import Neighbouring
from gencard.core.card.terms import LEAST_RUNS, Proposal
from gencard.core.coding import Edges
from gencard.core.dataset import Dataset
from gencard.core.errors import (
    GencardError,
    InvalidInputError,
    InvalidNumberError,
    PermissionDeniedError,
    VerificationError,
)
from gencard.core.generators.contract import rng_of
from gencard.core.statistics.linear import statistics_of
from gencard.core.types import Progress, ignore_progress
from gencard.files import REPORT_LIMIT, read_file
from gencard.measures.privacy.canaries import FEWEST, plant
from gencard.measures.privacy.canary_findings import CanaryFindings, CanaryPlan, canary_findings
from gencard.v1 import audit_pb2 as pb
from gencard.wire.canonical import Document, document_of, integer_of, sha256
from gencard.wire.codec import part_of
from gencard.wire.dsse import VERDICT, predicate_of, subject_digest
from gencard.wire.keys import Role


@dataclass(frozen=True, slots=True, repr=False)
class Audit(Displayable):
    """Result of an audit. "No evidence of leakage" is not a proof of safety.

    Args:
        card: datasets/{dataset}/cards/{card}.
        where: Based on made-up records, or on the real ones at the controller.
        wording: The verdict in words, with what it does not prove.
        attempt: Number of this attempt for the black box on the dataset, by any submitter; 1 for
            made-up records.
        level: Significance level of the pooled evidence of all attempts, a decimal.
        findings: The full report, if our role may see it.
        attestation: The controller's signed verdict; empty for made-up records.
    """

    card: str
    black_box: str
    where: Where
    verdict: Verdict
    wording: str
    attempt: int
    level: str
    findings: AuditReport | None = None
    attestation: bytes = b""

    @property
    def report(self) -> "Report":
        """The full report, as a page and as JSON.

        Raises:
            PermissionDeniedError: Its numbers depend on records, and our role may not see them.
        """

        if self.findings is None:
            raise PermissionDeniedError
        # An earlier audit may have found the same box to leak: then the signed verdict stands.
        note = self.wording if self.verdict is not self.findings.verdict else ""
        return Report(self.findings, self.card, self.black_box, str(self.where), note)

    def lines(self) -> list[tuple[str, str]]:
        """The audit in names and values."""
        more = "" if self.findings is None else summary(self.findings).removeprefix(self.wording).strip()
        return [
            ("Verdict", self.wording),
            *([("Found", more)] if more else []),
            ("Black box", self.black_box),
            ("Records", "made up" if self.where is Where.MADE_UP else "the real records of the card"),
            ("Level", f"{float(self.level):.3g} (attempt {self.attempt} for this black box)"),
            ("Card", self.card),
        ]

    def __repr__(self) -> str:
        return f"<Audit of {self.black_box}: {self.wording}>"

    def _panel(self) -> tuple[str, Sequence[Part]]:
        return "Audit", [Facts(self.lines())]


@dataclass(frozen=True)
class Report(WrittenAsPage):
    """The full report of an audit.

    Args:
        facts: The numbers, which depend on the audited records.
        where: "made-up" or "card".
        note: Shown above the verdict, such as an earlier verdict.
    """

    facts: AuditReport
    card: str = ""
    black_box: str = ""
    where: str = ""
    note: str = ""

    @classmethod
    @checked()
    def of_json(cls, path: str | Path) -> "Report":
        """A report that ``save_json`` wrote.

        Raises:
            InvalidInputError: The file cannot be read, or is not a report.
        """
        data = read_file(Path(path), "report", REPORT_LIMIT)
        return cls(report_of_json_object(document_of(data, "report")))

    def _page(self) -> str:
        return str(page_module().audit_page(self))

    def document(self) -> dict[str, Any]:
        """All numbers as an object of JSON types."""
        return report_to_json_object(self.facts)

    def _repr_html_(self) -> str:
        return (
            '<iframe title="Audit report" sandbox style="width:100%;height:48em;border:0" '
            f'srcdoc="{escape(self.html)}"></iframe>'
        )


# Run an audit, which tests whether a generator uses more of the records than its card states. At made-up
# records the audit runs here, on a lent black box: one that the controller runs on datasets of its
# callers. At the real records it runs at the controller. ``Audit`` is the result of both.

MADE_UP_RECORDS = 20_000
"""Number of made-up records of an audit, and the most rows of each run."""


def audit(
    agreement: Agreement,
    black_box: str,
    where: str,
    *,
    seed: int,
    runs: int | None,
    records: Dataset | None,
    resume: str,
    progress: ProgressDisplay,
) -> Audit:
    """Audit a black box; the arguments are those of ``Card.audit``.

    On the real records, at the controller, an audit counts as an attempt and has a price.
    """
    if where == Where.MADE_UP and not resume:
        return _at_made_up_records(
            agreement, black_box, seed=seed, runs=runs, records=records, progress=progress
        )
    if where != Where.CARD or runs is not None or records is not None:
        problem = "must be 'made-up', or 'card' without runs and records, which the card fixes"
        raise InvalidInputError(field="where", problem=problem)
    connection = agreement.connection
    request = pb.RunAuditRequest(
        card=agreement.card.name,
        black_box=black_box,
        seed=checked_seed(seed),
        resume=resume,
        request_id=str(uuid4()),
    )
    with progress_bar("Auditing", progress) as display:
        clock = AuditProgress(display, is_shown=not callable(progress))
        if not resume:
            box, terms = RemoteBox(connection, request.card, black_box), agreement.card.terms
            clock.expect(
                calls(terms.audit.sufficient.runs),
                lambda: box(_made_up(agreement, seed), _rows_of(terms), seed=seed),
            )
        operation = connection.call(connection.audit.RunAudit, request)
        try:
            message = result_of(connection, operation, pb.Audit, clock)
        except KeyboardInterrupt as stopped:
            arguments = f"{request.card} --black-box {black_box} --where card --resume {operation.name}"
            stopped.add_note(
                "A cancelled audit is refunded, and can be resumed once as the same attempt: call it "
                f"again with the operation to resume, {operation.name}, or use the shell:"
            )
            stopped.add_note(f"  gencard audit {arguments}")
            raise
    return _audit_of(agreement, message, black_box)


def _at_made_up_records(
    agreement: Agreement,
    black_box: str,
    *,
    seed: int,
    runs: int | None,
    records: Dataset | None,
    progress: ProgressDisplay,
) -> Audit:
    """Audit on records made up here; reads no real record and is free."""
    terms = agreement.card.terms
    if runs is not None and runs < LEAST_RUNS:
        raise InvalidNumberError(field="runs", expected=f"at least {LEAST_RUNS}")
    audit_terms = terms.audit.sufficient if runs is None else replace(terms.audit, runs=runs)
    rows = _rows_of(terms)
    linear = statistics_of(terms.moments, agreement.coding)
    zeros = agreement.structural_zeros
    plan = AuditPlan(terms.marginals, rows, seed, audit_terms, linear=linear, structural_zeros=zeros)
    with progress_bar("Auditing", progress) as display:
        begin, clock = time.monotonic(), AuditProgress(display, is_shown=not callable(progress))
        box = NoticedBox(RemoteBox(agreement.connection, agreement.card.name, black_box), clock.notice)
        if records is None:
            records = _made_up(agreement, seed)
        try:
            clock.expect(calls(audit_terms.runs), partial(box, records, rows, seed=seed))
            versions = tuple((name, version(name)) for name in ("gencard", "numpy", "scipy"))
            report = run_audit(box, records, plan, versions=versions, progress=clock)
        except KeyboardInterrupt as stopped:
            stopped.add_note(f"The audit was stopped at: {clock.stage}. Nothing was stored or charged.")
            raise
    findings = replace(report, seconds=time.monotonic() - begin)
    return Audit(
        card=agreement.card.name,
        black_box=black_box,
        where=Where.MADE_UP,
        verdict=findings.verdict,
        wording=summary(findings),
        attempt=plan.attempt,
        level=str(plan.level),
        findings=findings,
    )


def _made_up(agreement: Agreement, seed: int) -> Dataset:
    return made_up(agreement.domain, MADE_UP_RECORDS, zeros=agreement.structural_zeros, rng=rng_of(seed))


def _rows_of(terms: Proposal) -> int:
    return max(2, min(terms.rows, MADE_UP_RECORDS))


PATIENCE = 10.0
"""Seconds without an answer of a lent black box until ``WAITS`` is shown to the person."""

WAITS = "no answer yet: the black box is slow, or waits until jobs at the records have ended"
"""Reason for a long wait: lent boxes and jobs at the records never run at the same time."""


@dataclass(frozen=True, slots=True)
class NoticedBox:
    """A lent black box; ``notice`` gets a sentence when a run has not answered for ``PATIENCE``."""

    box: RemoteBox
    notice: Callable[[str], object]

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        timer = threading.Timer(PATIENCE, self.notice, (WAITS,))
        timer.daemon = True
        timer.start()
        try:
            return self.box(dataset, rows, seed=seed)
        finally:
            timer.cancel()


_RUN = re.compile(r"run (\d+) of (\d+)")
"""Number of a run, and of all runs, in a stage as ``core.audit.plan`` names it."""


@dataclass(slots=True)
class AuditProgress:
    """Function that reports the progress of an audit with an estimate of the time left.

    Args:
        report: Called with the stage, followed by the time left, and with the share done.
        is_shown: Whether a person reads the stage; a caller's function gets it as it is.
        now: A clock, in seconds.
    """

    report: Progress
    is_shown: bool = True
    now: Callable[[], float] = time.monotonic
    stage: str = "begin"
    _first: tuple[int, float] | None = None
    _share: float = 0.0

    def notice(self, text: str) -> None:
        """Show a person a remark beside the present stage."""
        if self.is_shown:
            self.report(f"{self.stage}; {text}", self._share)

    def __call__(self, stage: str, share: float) -> None:
        self.stage, self._share = stage, share
        numbers, left = _RUN.search(stage), ""
        if numbers and self.is_shown:
            # the time left, by the pace since the first reported run, pauses included
            run, runs, now = int(numbers[1]), int(numbers[2]), self.now()
            first, since = self._first = self._first or (run, now)
            if run != first:
                left = f", about {spoken((now - since) / (run - first) * (runs - run + 1))} left"
        self.report(stage + left, share)

    def expect(self, runs: int, rehearsal: Callable[[], object]) -> None:
        """Report, before the first run, about how long all runs will take.

        Args:
            rehearsal: Runs the black box once, to measure the time; its rows are not used. If it
                fails there is no estimate, and the audit itself raises the error.
        """
        if not self.is_shown or self.report is ignore_progress:
            return
        begin = self.now()
        with suppress(GencardError):
            rehearsal()
            self.report(f"{runs} runs, about {spoken(runs * (self.now() - begin))}", 0.0)


def spoken(seconds: float) -> str:
    """Return a duration in words, rounded.

    >>> spoken(8), spoken(72), spoken(3_700)
    ('8 s', '1 min 10 s', '1 h 2 min')
    """
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    if seconds < 3_600:
        tens = round(seconds / 10) * 10
        return f"{tens // 60} min {tens % 60} s" if tens % 60 else f"{tens // 60} min"
    return f"{int(seconds // 3_600)} h {int(seconds % 3_600 // 60)} min"


def known_audits(agreement: Agreement) -> Iterator[Audit]:
    """Yield the verified audits of a card at the records that our role may see, newest first."""
    connection = agreement.connection
    request = pb.ListAuditsRequest(parent=agreement.card.name)
    for page in pages(connection, connection.audit.ListAudits, request):
        for message in page.audits:
            yield _audit_of(agreement, message, message.black_box)


def _audit_of(agreement: Agreement, message: pb.Audit, black_box: str) -> Audit:
    """Return the audit that a signed verdict of this card and box states, and the message too."""
    payload = agreement.connection.keys.cards(message.attestation).payload_of(message.attestation)
    signed, expected = predicate_of(payload, VERDICT), None
    message.DiscardUnknownFields()  # a newer controller may say more than is compared here
    with suppress(KeyError, TypeError, ValueError):
        audit = Audit(
            card=agreement.card.name,
            black_box=signed["blackBox"],
            where=Where.CARD,
            verdict=Verdict(signed["verdict"]),
            wording=signed["wording"],
            attempt=integer_of(signed["attempt"]),
            level=signed["level"],
            attestation=message.attestation,
        )
        expected = part_of(audit, pb.Audit, name=message.name, create_time=message.create_time)
    # the message itself is not signed: it must equal the one that the verdict makes
    differs = expected != message or message.black_box != black_box
    if differs or subject_digest(payload) != agreement.digest:
        raise VerificationError(problem="the signed verdict differs from the reported one")
    return replace(audit, findings=_findings(agreement, message, signed))


def _findings(agreement: Agreement, message: pb.Audit, signed: Document) -> AuditReport | None:
    """Return the full report, which the signed verdict names; None if our role may not see it."""
    connection = agreement.connection
    if connection.credentials.identity().role not in (Role.AUDITOR, Role.STEWARD):
        return None
    request = pb.GetAuditReportRequest(name=message.name)
    answer = connection.call(connection.audit.GetAuditReport, request)
    # verdicts of earlier versions name no report, and stay valid
    if signed.get("report", {"sha256": sha256(answer.report)}) != {"sha256": sha256(answer.report)}:
        raise VerificationError(problem="the report does not match the signed verdict")
    return report_of_json_object(document_of(answer.report, "report"))


# Canary audits: insert made-up records into a black box, and bound epsilon by those reproduced. All
# records are made up, so the audit is free. The canaries are drawn here and are not sent separately: the
# bounds hold only if the party that runs the box does not know which records are canaries.

MEANING = (
    "With probability {sure}, all bounds hold simultaneously, each for the claim beside it. A bound of 0"
    " proves nothing: canaries detect copying, and miss small leaks."
)

MOST = 1_000_000
"""Canaries, and other records."""

_HEADS = ("Statistic", "Observed", "Epsilon at least", "Claim")


@dataclass(frozen=True, slots=True)
class CanaryTerms:
    """Settings of a canary audit, fixed before the run.

    Args:
        canaries: Number of canaries; each is inserted with probability 1/2.
        records: Number of other, made-up records.
        rows: Number of rows to generate; default: as many as records.
        radius: Number of attributes in which a row may differ from a canary that it matches.
        guesses: Number of canaries guessed as inserted; default: a tenth.
        beta: Probability, 0 to 1/2, that any bound is too high.

    Raises:
        InvalidNumberError: A number is out of range.
    """

    neighbouring: Neighbouring
    canaries: int = 400
    records: int = 400
    rows: int | None = None
    delta: float = 1e-6
    radius: int = 0
    guesses: int | None = None
    beta: float = 0.05

    def __post_init__(self) -> None:
        checked_number("canaries", self.canaries, FEWEST, MOST)
        checked_number("records", self.records, 1, MOST)
        if self.rows is not None:
            checked_rows(self.rows)


@dataclass(frozen=True, slots=True)
class CanaryAudit(Displayable):
    """Result of a canary audit.

    Args:
        black_box: Empty for the card's own generator.
        beta: Probability, at most, that any bound is too high.
    """

    card: str
    black_box: str
    findings: CanaryFindings
    beta: float

    @property
    def meaning(self) -> str:
        """Sentence that explains the bounds."""
        return MEANING.format(sure=f"{1 - self.beta:g}")

    def lines(self) -> list[tuple[str, str, str, str]]:
        """Lines under ``_HEADS``; the last one is a statistic without a bound."""
        low, high = self.findings.membership.interval()
        area_text = (
            f"area {self.findings.membership.area:.3f} ({low:.3f} to {high:.3f}); random guessing: 0.5"
        )
        lines = []
        for one in self.findings.findings:
            bound, claim = f"refused: {one.refusal}", "none"
            if one.bound is not None:
                bound = f"{one.bound.epsilon:.3f}"
                claim = f"(epsilon, {one.bound.delta:g})" if one.bound.delta else "pure epsilon"
                claim += f", {one.bound.neighbouring}"
            lines.append((one.statistic, one.seen, bound, claim))
        return [*lines, ("membership by distance", area_text, "no bound", "none")]

    def facts(self) -> list[tuple[str, str]]:
        """Card, black box, and numbers of canaries and rows."""
        findings = self.findings
        return [
            ("Card", self.card),
            ("Black box", self.black_box or "the card's own generator"),
            ("Canaries", f"{findings.put_in} inserted, {findings.canaries - findings.put_in} left out"),
            ("Rows", f"{findings.rows:,}"),
        ]

    def document(self) -> dict[str, object]:
        """The result as an object of JSON types."""
        bounds = [
            {
                "statistic": each.statistic,
                "seen": each.seen,
                "refusal": each.refusal,
                "epsilon": each.bound and str(each.bound.epsilon),
                "delta": each.bound and str(each.bound.delta),
                "neighbouring": each.bound and str(each.bound.neighbouring),
            }
            for each in self.findings.findings
        ]
        facts = {name.lower(): value for name, value in self.facts()}
        return facts | {
            "bounds": bounds,
            "membership": self.findings.membership.area,
            "meaning": self.meaning,
        }

    def _panel(self) -> tuple[str, Sequence[Part]]:
        return "Canaries", [Facts(self.facts()), Grid(_HEADS, self.lines()), self.meaning]


def canary_audit(
    agreement: Agreement,
    black_box: str,
    terms: CanaryTerms,
    *,
    seed: int | None = None,
    progress: ProgressDisplay = True,
) -> CanaryAudit:
    """Insert canaries into made-up records, run a black box once, and look for them.

    Args:
        black_box: Its name in the catalogue; empty for the card's own generator.
        seed: For tests only. The bounds are void if the controller can guess the seed.
    """
    rng = rng_of(secrets.randbits(64) if seed is None else seed)
    codings = {name: agreement.coding.attribute(name).coding for name in agreement.domain.attributes}
    plan = CanaryPlan(
        terms.beta,
        terms.delta,
        terms.radius,
        terms.guesses or max(1, terms.canaries // 10),
        # numeric attributes, whose codes are in the order of their intervals
        tuple(name for name, coding in codings.items() if isinstance(coding, Edges)),
    )
    others = made_up(agreement.domain, terms.records, rng=rng)
    planted = plant(others, terms.canaries, neighbouring=terms.neighbouring, rng=rng)
    remote = RemoteBox(agreement.connection, agreement.card.name, black_box)
    with progress_bar("Looking for canaries", progress) as reported:
        box = NoticedBox(remote, lambda text: reported(text, 0.0))
        rows = len(planted.dataset) if terms.rows is None else terms.rows
        synthetic: Dataset = box(planted.dataset, rows, seed=int(rng.integers(2**63)))
        findings = canary_findings(planted, synthetic, plan, rng=rng)
    return CanaryAudit(agreement.card.name, black_box, findings, terms.beta)
