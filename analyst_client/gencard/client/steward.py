"""The entry point of stewards: what waits, what it would release, and decisions on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

from google.protobuf.empty_pb2 import Empty

from gencard.client.catalogue import list_spends
from gencard.client.checking.checks import LogWatch
from gencard.client.common.arguments import checked, instance, optional_text
from gencard.client.common.display import Displayable, Grid, Listed, Part, named, percent
from gencard.client.connection.connection import (
    Connection,
    Party,
    ProgressDisplay,
    pages,
    progress_bar,
    result_of,
)
from gencard.client.connection.credentials import read
from gencard.client.steward_views import (
    ACCOUNT_HEADS,
    ANSWER_HEADS,
    LINE_HEADS,
    LOG_HEADS,
    PEOPLE_HEADS,
    QUEUE_HEADS,
    REFUSAL_HEADS,
    WIDEST_MAP,
    AnswerReview,
    AnswerSummary,
    BudgetAccount,
    CardReview,
    Decision,
    Failure,
    LogLine,
    Person,
    Preview,
    Waiting,
    spend_line,
)
from gencard.core.card.budget import Spend
from gencard.core.errors import GencardError, InvalidInputError, VerificationError
from gencard.measures.privacy.psi_risk import PsiRisk
from gencard.v1 import steward_pb2 as pb
from gencard.wire import steward
from gencard.wire.canonical import json_bytes, time_text
from gencard.wire.codec import message_of, value_of
from gencard.wire.keys import LARGEST, request_of_document
from gencard.wire.log import LogEntry
from gencard.wire.steward import Action, kind_of

# Messages of the stewards' service as what a steward looks at.

_FOR_STEWARDS = (
    "Numbers about records, for stewards only. They decide nothing; the log records who looked."
)


@dataclass(frozen=True, slots=True, repr=False)
class RiskReview(steward.RiskReview, Displayable):
    """Risk of psi: small counts, attributes that follow for certain, confident guesses."""

    @property
    def examined(self) -> tuple[PsiRisk, datetime]:
        """The report and its time; raises VerificationError if there is none."""
        if self.report is None or self.time is None:
            raise VerificationError(problem="the controller sent no report of risk")
        return self.report, self.time

    def document(self) -> dict[str, Any]:
        """The report as an object of JSON types."""
        report, time = self.examined
        about = {"card": self.card, "togetherWith": list(self.cards)}
        return {**about, "time": time_text(time), **report.json()}

    def _panel(self) -> tuple[str, Sequence[Part]]:
        report, time = self.examined
        extent = (
            f"{report.records:,} records, {len(report.attributes)} attributes, {report.tables:,} tables"
        )
        if self.cards:
            extent += f", with the exact counts of {len(self.cards)} other cards"
        extent += f"; examined {time_text(time)}"
        parts: list[Part] = [_FOR_STEWARDS, extent, *report.failing_lines]
        parts += [*report.tail_lines, *report.histogram_lines]
        named_tables = [(named(one.clique), one) for one in report.worst_tables if one.small]
        small = [
            (name, f"{one.single:,}", f"{one.small:,}", f"{one.records:,}")
            for name, one in (("all together", report.small), *named_tables)
        ]
        few = f"Cells of fewer than {report.threshold}"
        heads: tuple[str, ...] = ("Table", "Cells of 1 record", few, "Records in them")
        parts += ["Small counts:", Grid(heads, small, numbers=True)]
        facts = [
            (f"up to {one.width}", f"{one.facts:,}", f"{one.guessed:,}", f"{one.skipped:,}")
            for one in report.facts
        ]
        heads = ("Attributes known", "Facts", "Also true of the most frequent level", "Not examined")
        parts += ["Certain: some attributes of a person determine another one."]
        parts += [Grid(heads, facts, numbers=True)]
        if self.worst:
            lines = [(one.known, one.certain, f"{one.records:,}") for one in self.worst]
            parts += ["Keys that make most records certain:"]
            parts += [Grid(("Known", "Certain", "Records"), lines)]
        guesses = [
            (
                str(one.width),
                *(f"{each:,}" for each in (one.guesses, one.right, one.held, one.unexpected)),
            )
            for one in report.guesses
        ]
        if guesses:
            heads = ("Attributes known", "Guesses", "Right", "Cells with a record", "Of them unexpected")
            parts += ["Likely: guesses above 90 % at levels that fewer than half of the records have."]
            parts += [Grid(heads, guesses, numbers=True)]
        heat_map = _heat_map(report) if len(report.attributes) <= WIDEST_MAP else []
        return f"Risk of psi: {self.card}", [*parts, *heat_map]

    def __repr__(self) -> str:
        return f"<RiskReview {self.card}: {self.examined[0].small.small:,} small counts>"


def _heat_map(report: PsiRisk) -> list[Part]:
    """One attribute known (row), another one certain (column)."""
    numbers = [str(place + 1) for place in range(len(report.attributes))]
    lines = [
        (
            f"{numbers[place]} {name}",
            *("" if other == place else _share(one) for other, one in enumerate(row)),
        )
        for place, (name, row) in enumerate(zip(report.attributes, report.certain, strict=True))
    ]
    title = "Certain from one attribute (row) about another (column), of all records:"
    return [title, Grid(("", *numbers), lines, numbers=True)]


def _share(share: float) -> str:
    """Format a share; a share above 0 is never shown as 0."""
    return "·" if not share else percent(share) if share >= 0.01 else "< 1 %"


def card_review_of(message: pb.CardReview, name: str) -> CardReview:
    """A card to be decided on; raises VerificationError if it is another one."""
    review = value_of(CardReview, message)
    if review.name != name:
        raise VerificationError(problem="the controller sent another card than requested")
    return review


def risk_of(message: pb.RiskReview, name: str) -> RiskReview:
    """The risk of a card; raises VerificationError if it is another card's, or there is no report."""
    try:
        review = value_of(RiskReview, message)
    except GencardError:
        raise VerificationError(problem="the controller sent no report of risk") from None
    if review.card != name:
        raise VerificationError(problem="the controller sent another card than requested")
    _ = review.examined
    return review


# The entry point.

_MOST = 500
"""Entries of one page."""

_READY = "ready"
"""State of a report of risk that is of the present cards."""

_REVIEWED = instance("str", "AnswerReview", advice="Write answer=steward.answer(name).")


class Steward(Party):
    """A steward's connection to a controller. Use it in a ``with`` block, or close it.

    Each decision names the reviewed document: pass the review, or the name with ``shown``, its digest.
    If it has changed since, the decision is refused with StaleEtagError.

    with Steward.connect(folder="sam") as steward:
        review = steward.review(steward.queue()[0].resource)
        steward.approve(review, reason="Pairs of public attributes")
    """

    @checked(connection=instance("Connection", advice="Use Steward.connect(folder=...)."))
    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._watch = LogWatch(connection)

    def queue(self) -> Listed[Waiting]:
        """List the waiting items, oldest first, each with the role that must act."""
        answers = self._pages("ListQueue", pb.ListQueueRequest(page_size=_MOST))
        waiting = (value_of(Waiting, one) for page in answers for one in page.waiting)
        return Listed(waiting, "Queue", QUEUE_HEADS, Waiting.line)

    @checked()
    def review(self, name: str) -> CardReview:
        """A card: what is asked, what approving would offer, and what was decided on it.

        Raises:
            NotFoundError: No such card.
        """
        review = card_review_of(self._call("GetReview", pb.GetReviewRequest(name=name)).review, name)
        if not review.exact:
            return review
        # a look at the records, where it is done, says what they do to tables and answers
        view = self._call("GetRisk", pb.GetRiskRequest(name=name)).review
        if view.state != _READY:
            not_examined = (
                "not examined. If one cell fails, the measurement is refused and costs one statistic; "
                f"examine first: gencard steward risk {name}"
            )
            return replace(review, checks=not_examined) if review.checked else review
        report, _ = risk_of(view, name).examined
        checks = " ".join(report.failing_lines) or "all tables of this card pass"
        return replace(review, checks=checks if review.checked else "", tails=report.tail_lines)

    @checked()
    def approve(self, card: str | CardReview, *, reason: str, shown: str | None = None) -> Decision:
        """Offer what was asked, or the nearest that the policy allows, as the review shows it.

        Args:
            card: A review, or a card's name together with ``shown``.
            reason: Why, in one line; it goes into the log.
            shown: SHA-256, in hex, of what was shown.

        Raises:
            StaleEtagError: The card has changed since it was shown.
            SecondStewardError: Another steward has to decide.
            CardStateError: The card does not wait for a steward.
        """
        return self._on("approve", card, reason, shown)

    @checked()
    def counter(
        self,
        card: str | CardReview,
        *,
        reason: str,
        drop: Sequence[Sequence[str]] | None = None,
        without: Sequence[str] | None = None,
        rows: int | None = None,
        shown: str | None = None,
    ) -> Decision:
        """Offer less than was asked; raises as ``approve`` does.

        Args:
            card: A review, or a card's name together with ``shown``.
            reason: Why, in one line; it goes into the log.
            drop: Marginals to leave out, each a list of attributes.
            without: Attributes to leave out, with all statistics about them.
            rows: Most rows in one release.
            shown: SHA-256, in hex, of what was shown.
        """
        left_out = {"drop": [list(one) for one in drop or ()], "without": list(without or ())}
        return self._on("counter", card, reason, shown, **left_out, rows=rows)

    @checked()
    def reject(
        self, card: str | CardReview, *, reason: str, remark: str = "", shown: str | None = None
    ) -> Decision:
        """Reject a proposal; raises as ``approve`` does.

        Args:
            card: A review, or a card's name together with ``shown``.
            reason: Why, in one line; it goes into the log.
            remark: Shown to the analyst.
            shown: SHA-256, in hex, of what was shown.
        """
        return self._on("reject", card, reason, shown, remark=remark)

    @checked()
    def revoke(
        self, card: str | CardReview, *, reason: str, remark: str = "", shown: str | None = None
    ) -> Decision:
        """Revoke an agreed card for good, by a signed revocation; raises as ``approve`` does.

        Args:
            card: A review, or a card's name together with ``shown``.
            reason: Why, in one line; it goes into the log.
            remark: Shown to the analyst.
            shown: SHA-256, in hex, of what was shown.
        """
        return self._on("revoke", card, reason, shown, remark=remark)

    @checked()
    def answer(self, name: str) -> AnswerReview:
        """A run on the records that waits, number by number; raises NotFoundError."""
        request = pb.GetAnswerReviewRequest(name=name)
        review = value_of(AnswerReview, self._call("GetAnswerReview", request).review)
        if review.name != name:
            raise VerificationError(problem="the controller sent another answer than requested")
        return review

    @checked(answer=_REVIEWED)
    def release(
        self,
        answer: str | AnswerReview,
        *,
        reason: str,
        withhold: Sequence[str] | None = None,
        digits: int | None = None,
        red: bool = False,
        shown: str | None = None,
    ) -> Decision:
        """Release a waiting answer: green and amber numbers, unless arguments say otherwise.

        Args:
            answer: A review, or an answer's name together with ``shown``.
            reason: Why, in one line; it goes into the log.
            withhold: Numbers to hold back: OUTPUT, OUTPUT/ROW or OUTPUT/ROW/COLUMN.
            digits: Significant digits to round to.
            red: Release red numbers too.
            shown: SHA-256, in hex, of what was shown.

        Raises:
            StaleEtagError: The answer has changed since it was shown.
            SecondStewardError: Another steward has to decide.
        """
        arguments = {"withhold": list(withhold or ()), "digits": digits, "red": red}
        return self._on("release-answer", answer, reason, shown, **arguments)

    @checked(answer=_REVIEWED)
    def refuse(
        self, answer: str | AnswerReview, *, reason: str, code: str = "", shown: str | None = None
    ) -> Decision:
        """Refuse a waiting answer: no number leaves; raises as ``release`` does.

        Args:
            answer: A review, or an answer's name together with ``shown``.
            reason: Why, in one line; it goes into the log.
            code: Of the reason, which the analyst gets; default: the steward's decision.
            shown: SHA-256, in hex, of what was shown.
        """
        return self._on("refuse-answer", answer, reason, shown, code=code)

    def answers(self) -> Listed[AnswerSummary]:
        """Runs on the records that wait for a steward, oldest first."""
        answers = self._pages("ListAnswersToReview", pb.ListAnswersToReviewRequest(page_size=_MOST))
        waiting = (value_of(AnswerSummary, one) for page in answers for one in page.answers)
        return Listed(waiting, "Answers", ANSWER_HEADS, AnswerSummary.line)

    @checked(dataset=optional_text)
    def accounts(self, dataset: str = "") -> Listed[BudgetAccount]:
        """Budgets: caps, what was spent, what is reserved.

        Args:
            dataset: Name of a dataset; default: all.
        """
        name = f"datasets/{dataset.removeprefix('datasets/')}" if dataset else ""
        answers = self._pages("ListAccounts", pb.ListAccountsRequest(dataset=name, page_size=_MOST))
        accounts = (value_of(BudgetAccount, one) for page in answers for one in page.accounts)
        return Listed(accounts, "Budgets", ACCOUNT_HEADS, BudgetAccount.line)

    def ledger(self) -> Listed[Spend]:
        """Lines of the ledger, of everybody, newest first."""
        return Listed(list_spends(self._connection), "Ledger", LINE_HEADS, spend_line)

    def people(self) -> Listed[Person]:
        """List all enrolled people."""
        answers = self._pages("ListPeople", pb.ListPeopleRequest(page_size=_MOST))
        people = (value_of(Person, one) for page in answers for one in page.people)
        return Listed(people, "People", PEOPLE_HEADS, Person.line)

    def refusals(self) -> Listed[Failure]:
        """Failures at the records that count against their analysts, oldest first."""
        answers = self._pages("ListRefusals", pb.ListRefusalsRequest(page_size=_MOST))
        failures = (value_of(Failure, one) for page in answers for one in page.refusals)
        return Listed(failures, "Refusals", REFUSAL_HEADS, Failure.line)

    @checked()
    def log(self, query: str = "", *, last: int = 50) -> Listed[LogLine]:
        """Entries of the log, newest first, as the controller says them; ``entry`` proves one.

        Args:
            query: Words that each entry holds; default: every entry.
            last: Entries at most.
        """
        answers = self._pages("SearchLog", pb.SearchLogRequest(query=query, page_size=min(last, _MOST)))
        entries = (value_of(LogLine, one) for page in answers for one in page.entries)
        return Listed(islice(entries, last), "Log", LOG_HEADS, LogLine.line)

    @checked()
    def entry(self, index: int) -> LogEntry:
        """One entry, proved to be in the log's newest checkpoint, which continues the last one seen.

        Raises:
            InvalidNumberError: The log has no such entry.
            VerificationError: The proof does not hold, or the log was shortened, forked or rewritten.
        """
        answer = self._call("GetLogEntry", pb.GetLogEntryRequest(index=index))
        return self._watch.proved(answer.entry, index)[0]

    @checked()
    def risk(self, name: str, *, again: bool = False, progress: ProgressDisplay = True) -> RiskReview:
        """Examine what the exact counts of a card, with all granted before, reveal about the records.

        Reads the records once for a card, which may take minutes; the log says who looked.

        Args:
            name: datasets/{dataset}/cards/{card}.
            again: Look again, even where the newest look is of the present cards.
            progress: Whether to show a progress bar, or a function that receives the progress.

        Raises:
            InvalidInputError: There are no exact counts to look at.
            CardStateError: The card has ended.
        """
        view = self._call("GetRisk", pb.GetRiskRequest(name=name)).review
        if again or view.state != _READY:
            request = pb.RunRiskRequest(name=name, request_id=str(uuid4()))
            with progress_bar("Examining the records", progress) as reported:
                result_of(self._connection, self._call("RunRisk", request), Empty, reported)
            view = self._call("GetRisk", pb.GetRiskRequest(name=name)).review
        return risk_of(view, name)

    @checked()
    def preview(self, action: str, resource: str, arguments: Mapping[str, Any] | None = None) -> Preview:
        """Show the subject of a decision that is not on a card or an answer, with its digest.

        Args:
            action: settle, void, dismiss-refusal, clear-audits, enrol, disable, enable or rotate.
            resource: ledger/{line}, an operation, a dataset, people/{name} or keys/{use}.
            arguments: What goes with it, such as ``{"black_box": "trees"}``.
        """
        document = json_bytes(dict(arguments or {}))
        request = pb.GetPreviewRequest(kind=action, resource=resource, arguments=document)
        return value_of(Preview, self._call("GetPreview", request).preview)

    @checked()
    def decide(self, preview: Preview, *, reason: str) -> Decision:
        """Decide on what was previewed; raises StaleEtagError where it has changed since.

        Args:
            preview: From ``preview``.
            reason: Why, in one line; it goes into the log.
        """
        return self._decided(preview.kind, preview.resource, preview.arguments, reason, preview.shown)

    @checked(address=optional_text)
    def enrolment(
        self,
        request: str | Path,
        fingerprint: str,
        *,
        role: str = "",
        project: str = "",
        address: str = "",
        again: bool = False,
    ) -> Preview:
        """Show the effect of enrolling from a request; ``decide`` enrols and returns the answer to send.

        Args:
            request: The person's request, a file.
            fingerprint: As the person told it over a channel that nobody else can change.
            role: Role to give; default: that of the enrolled person.
            project: Project to give, likewise.
            address: Where the person reaches the service; default: as the settings say.
            again: The person's keys are replaced.

        Raises:
            InvalidInputError: The fingerprint is not the request's, which may have been changed.
        """
        document = read(Path(request), "request")[: LARGEST + 1]
        person = request_of_document(document)
        if "".join(fingerprint.split()).lower() != person.fingerprint:
            raise InvalidInputError(
                field="fingerprint",
                problem="does not match the request, which may have been changed in transit",
                advice="Compare what you typed with what the person gave you. If it is the same, ask "
                "the person for the request again.",
            )
        arguments = {"role": role, "project": project, "address": address, "again": again}
        own_arguments = {name: value for name, value in arguments.items() if value}
        own_arguments |= {"request": document.decode(), "fingerprint": person.fingerprint}
        return self.preview("enrol", f"people/{person.name}", own_arguments)

    @checked()
    def disable(self, name: str, *, reason: str) -> Decision:
        """Refuse a person's certificate from the next call on.

        Args:
            name: As ``people`` lists it.
            reason: Why, in one line; it goes into the log.
        """
        return self.decide(self.preview("disable", f"people/{name}"), reason=reason)

    @checked()
    def enable(self, name: str, *, reason: str) -> Decision:
        """Accept a person's certificate again.

        Args:
            name: As ``people`` lists it.
            reason: Why, in one line; it goes into the log.
        """
        return self.decide(self.preview("enable", f"people/{name}"), reason=reason)

    def _pages(self, method: str, request: Any) -> Any:
        return pages(self._connection, getattr(self._connection.steward, method), request)

    def _call(self, method: str, request: Any) -> Any:
        return self._connection.call(getattr(self._connection.steward, method), request)

    def _on(
        self,
        kind: str,
        subject: str | CardReview | AnswerReview,
        reason: str,
        shown: str | None,
        **arguments: Any,
    ) -> Decision:
        """Decide on the reviewed document; arguments that are None, false or empty are left out."""
        if isinstance(subject, str) and shown is None:
            advice = "Pass the review that you read, or its digest as shown=."
            raise InvalidInputError(field="shown", problem="is required with a name", advice=advice)
        name = subject if isinstance(subject, str) else subject.name
        digest = subject.shown if shown is None and not isinstance(subject, str) else shown or ""
        own_arguments = {
            option: value for option, value in arguments.items() if value not in (None, False, "", [])
        }
        return self._decided(kind, name, own_arguments, reason, digest)

    def _decided(
        self, kind: str, resource: str, arguments: Mapping[str, Any], reason: str, shown: str
    ) -> Decision:
        action = message_of(Action(kind_of(kind), resource, arguments, reason, shown), pb.Action)
        request = pb.DecideRequest(action=action, request_id=str(uuid4()))
        return value_of(Decision, self._call("Decide", request).decision)
