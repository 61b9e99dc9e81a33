"""Views of registers: releases and audits, budgets, people, the log."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from starlette.requests import Request

from gencard.controller.page.charts import (
    Gauge,
    Lane,
    SpendingCurve,
    bar,
    curve,
    gauge,
    in_words,
    lanes,
    number,
)
from gencard.controller.page.security import Form
from gencard.controller.page.views import ChangeResult, Context, FormAction, View
from gencard.controller.records.catalogue import PREFIX
from gencard.controller.state.database import Page
from gencard.controller.state.ledger import Account, Scope
from gencard.controller.state.log import Event
from gencard.controller.stewards.archive import Course, amounts, courses
from gencard.controller.stewards.desk import Desk
from gencard.controller.stewards.effects import LINE
from gencard.controller.stewards.waiting import SOON
from gencard.core.audit.exploration import BlockEvidence
from gencard.core.audit.report import AuditReport, CheckResult, Verdict
from gencard.core.audit.wording import QUESTIONS, effect_sentence, limits, opening, p_value_text
from gencard.core.errors import InvalidInputError, InvalidNumberError, NotFoundError
from gencard.core.types import UNDEFINED
from gencard.wire.documents import Receipt
from gencard.wire.keys import CARDS, LOG, PERSONS, Identity, grouped
from gencard.wire.log import log_entry_document
from gencard.wire.steward import Kind, Person

# Releases and audits: receipts with their signatures, verdicts with their evidence.

_MOST_BLOCKS = 20


def _releases(request: Request, desk: Desk, who: Identity) -> Context:
    archive, query = desk.archive(who), request.query_params
    dataset = request.path_params.get("name") or None
    evidence = [one for one in archive.evidence() if dataset in (None, one.dataset)]
    return {
        "firsts": [one for one in desk.first_decisions(who) if one.kind == Kind.CLEAR_AUDITS],
        "datasets": archive.datasets,
        "dataset": dataset,
        "address": f"/releases/of/{dataset}" if dataset else "/releases",
        "releases": archive.releases(dataset, query.get("before", "")),
        "audits": archive.audits(dataset, query.get("audits-before", "")),
        "evidence": [
            {
                "box": one,
                # the digest for a decision to clear the evidence
                "shown": desk.preview(
                    who, Kind.CLEAR_AUDITS, one.dataset, {"black_box": one.black_box}
                ).shown,
            }
            for one in evidence
        ],
    }


def _release(request: Request, desk: Desk, who: Identity) -> Context:
    view = desk.archive(who).release(request.path_params["name"])
    return {
        "title": f"Release {view.row.name.rpartition('/')[2]}",
        "view": view,
        "facts": list(_facts(view.receipt)),
        "document": view.row.receipt.decode(),
    }


def _facts(receipt: Receipt) -> Iterator[tuple[str, str]]:
    yield "Rows", f"{receipt.rows:,}"
    yield "Made", receipt.time
    if receipt.seed is not None:
        yield "Seed", str(receipt.seed)
    yield "Replicated uniques", "removed and redrawn" if receipt.without_uniques else "as drawn"
    yield "Software", ", ".join(f"{name} {version}" for name, version in receipt.versions)
    digests = {
        "Rows' SHA-256": receipt.rows_digest,
        "Card's SHA-256": receipt.card_digest,
        "psi's SHA-256": receipt.psi_digest,
        "Private box's SHA-256": receipt.private_box,
        "Black box's SHA-256": receipt.audited.digest if receipt.audited else "",
        "Verdict's SHA-256": receipt.audited.verdict_digest if receipt.audited else "",
    }
    yield from ((name, digest) for name, digest in digests.items() if digest)


def _audit(request: Request, desk: Desk, who: Identity) -> Context:
    view = desk.archive(who).audit(request.path_params["name"])
    report = view.report
    return {
        "title": f"Audit of {view.row.black_box}",
        "view": view,
        "leaked": view.row.verdict is Verdict.LEAKAGE,
        "report": None if report is None else _drawn(report),
    }


def _drawn(report: AuditReport) -> Mapping[str, Any]:
    blocks = report.blocks[:_MOST_BLOCKS]
    largest = max((one.strength for one in blocks), default=0.0)
    return {
        "opening": opening(report),
        "effect": effect_sentence(report),
        "limits": limits(report),
        "sides": lanes(
            (("low side", report.g_low), ("high side", report.g_high), ("dataset", report.g_original))
        ),
        "planted": _planted(report),
        "uniques": _uniques(report),
        "checks": [_check(result, report) for result in report.checks],
        "blocks": [_block(one, largest, report.plan.level) for one in blocks],
        "more": len(report.blocks) - len(blocks),
        "p_value": p_value_text(report.p_value),
        "level": f"{report.plan.level:.2g}",
        "settings": list(_settings(report)),
    }


def _planted(report: AuditReport) -> tuple[Lane, ...]:
    if report.planted is None:
        return ()
    sides = (("even side", report.planted.even), ("odd side", report.planted.odd))
    return lanes(
        [
            (f"{side}: planted {where}", [float(value) for value in values])
            for side, runs in sides
            for where, values in (("there", runs.own), ("on the other side", runs.other))
        ]
    )


def _uniques(report: AuditReport) -> tuple[Lane, ...]:
    if report.uniques is None:
        return ()
    groups = (("on the dataset", report.uniques.original), ("on its twins", report.uniques.twins))
    return lanes([(name, [float(value) for value in values]) for name, values in groups])


def _check(result: CheckResult, report: AuditReport) -> Mapping[str, Any]:
    bound = result.share * report.plan.level
    return {
        "question": QUESTIONS[result.check],
        "name": str(result.check),
        "p_value": "–" if result.not_run else p_value_text(result.p_value).removeprefix("p ="),
        "bound": f"{bound:.2g}",
        "differs": result.p_value <= bound and not result.not_run,
        "not_run": result.not_run,
    }


def _block(block: BlockEvidence, largest: float, level: float) -> Mapping[str, Any]:
    return {
        "names": " × ".join(block.clique),
        "length": bar(block.strength, largest),
        "strength": f"{block.strength:.1f}",
        "strong": block.p_value <= level,
        "reproduced": UNDEFINED
        if block.reproduced is None
        else f"{100 * block.reproduced:.3g} %".replace("-", "\N{MINUS SIGN}"),
        "p_value": f"{block.p_value:.2g}",
    }


def _settings(report: AuditReport) -> Iterator[tuple[str, str]]:
    plan = report.plan
    yield "Rows in each run", f"{plan.rows:,}"
    yield "Runs on each side of each step", str(plan.terms.runs)
    yield "Interactions", f"up to {plan.terms.order} attributes"
    yield "This attempt", f"number {plan.attempt}, at level {plan.level:.2g}"
    yield "Earlier tries pooled", str(len(report.earlier))
    yield "Seed", str(plan.seed)
    yield "Time", f"{report.seconds:.1f} s"
    yield "Software", ", ".join(f"{name} {version}" for name, version in report.versions)


# Budgets: every account as a gauge and over time, and the lines that it was spent on.

_TITLES = {Scope.DATASET: "All together", Scope.PROJECT: "Projects", Scope.ANALYST: "Analysts"}
_LINES = 50


@dataclass(frozen=True, slots=True)
class Shown:
    """One currency of one account, formatted for the page; of the whole dataset without names."""

    holder: str
    project: str
    course: Course
    gauge: Gauge
    curve: SpendingCurve | None
    forecast: str

    @property
    def spent(self) -> str:
        return number(self.course.amount.spent)

    @property
    def reserved(self) -> str:
        return number(self.course.amount.reserved) if self.course.amount.reserved else ""

    @property
    def cap(self) -> str:
        return "" if self.course.amount.cap is None else number(self.course.amount.cap)

    @property
    def left(self) -> str:
        amount = self.course.amount
        return "" if amount.cap is None else number(max(amount.cap - amount.spent, Decimal(0)))


def _budget(request: Request, desk: Desk, who: Identity) -> Context:
    archive = desk.archive(who)
    dataset = request.path_params.get("name") or next(iter(archive.datasets), "")
    if dataset not in archive.datasets:
        raise NotFoundError(what=f"dataset '{dataset.removeprefix(PREFIX)}'")
    accounts, now = desk.accounts(who, dataset), desk.clock()
    days = archive.days(dataset)
    gauges: dict[Scope, list[Shown]] = {scope: [] for scope in Scope}
    for one in accounts:
        spending = days.get(Account(Scope(one.scope), dataset, one.holder), {})
        course = courses(amounts(one.spent, one.reserved, one.cap), spending, now)
        *path, holder = one.holder.split("/")
        project = path[-2] if one.scope == Scope.ANALYST and len(path) > 1 else ""
        for currency in course:
            bar = gauge(currency.amount, holder or "all together")
            line, forecast = curve(currency, now), in_words(currency)
            gauges[Scope(one.scope)].append(Shown(holder, project, currency, bar, line, forecast))
    page = desk.lines(who, dataset, _LINES, request.query_params.get("before", ""))
    return {
        "firsts": [one for one in desk.first_decisions(who) if one.resource.startswith(LINE)],
        "datasets": archive.datasets,
        "dataset": dataset,
        "whole": gauges[Scope.DATASET],
        "holders": [(_TITLES[scope], gauges[scope]) for scope in (Scope.PROJECT, Scope.ANALYST)],
        "lines": page,
        "card_of": card_of,
    }


def card_of(resource: str) -> str:
    """Return the card that a resource belongs to; empty if there is none.

    >>> card_of("datasets/fair/cards/c1/audits/a1")
    'datasets/fair/cards/c1'
    """
    parts = resource.split("/")
    return "/".join(parts[:4]) if len(parts) >= 4 and parts[2] == "cards" else ""


# People: their roles and certificates; enrol from a request, disable, enable.

_EFFECTS = {
    "new": "A new person.",
    "renewed": "Already enrolled: the certificate is renewed, and the keys stay the same.",
    "replaced": "Already enrolled: the keys are replaced. The old signing key can no longer sign; what "
    "it signed stays valid. Passkeys are removed, and sessions end.",
}
_ORDER = {"steward": 0, "auditor": 1, "analyst": 2}


@dataclass(frozen=True, slots=True)
class PersonRow:
    """A row of the table of enrolled people."""

    person: Person
    state: str
    tone: str


def _people(request: Request, desk: Desk, who: Identity) -> Context:  # noqa: ARG001
    people = sorted(
        desk.people(who),
        key=lambda person: (_ORDER.get(person.identity.role, len(_ORDER)), person.identity.name),
    )
    firsts = [one for one in desk.first_decisions(who) if one.resource.startswith(("people/", "keys/"))]
    return {
        "rows": list(_rows(people, desk.clock())),
        "firsts": firsts,
        "two": desk.preview(who, Kind.DISABLE, f"people/{who.name}", {}).two,
        "keys": {use: desk.preview(who, Kind.ROTATE, f"keys/{use}", {}) for use in (CARDS, LOG)},
        "roles": PERSONS,
        "grouped": grouped,
    }


def _rows(people: list[Person], now: datetime) -> Iterator[PersonRow]:
    for person in people:
        until = person.certificate_until
        if person.disabled:
            yield PersonRow(person, "disabled", "bad")
        elif until is not None and until < now:
            yield PersonRow(person, "certificate expired", "bad")
        elif until is not None and until < now + SOON:
            yield PersonRow(person, "certificate expires soon", "warn")
        else:
            yield PersonRow(person, "enabled", "good")


def _request(form: Form, desk: Desk, who: Identity) -> ChangeResult:
    """Show the effect of enrolling from a request, with the fingerprint to compare."""
    texts = {name: form.text(name) for name in ("request", "role", "project")}
    if not texts["request"]:
        raise InvalidInputError(field="request", problem="is empty; choose the file or paste its text")
    arguments: dict[str, Any] = {name: text for name, text in texts.items() if text}
    if form.text("again"):
        arguments["again"] = True
    view = desk.request(who, arguments)
    context = {
        "title": f"Enrol {view.name}",
        "request": view,
        "arguments": arguments,
        "effect": _EFFECTS[view.kind],
        "grouped": grouped,
    }
    return ChangeResult("/people", template="request.html", context=context)


# The log: search, and single entries with their proof.

_ENTRIES = 100


def _log(request: Request, desk: Desk, who: Identity) -> Context:  # noqa: ARG001
    return _entries(desk, who, "", "")


def _search(form: Form, desk: Desk, who: Identity) -> ChangeResult:
    """Return the matching entries; by POST, so that no address contains a search text."""
    query = form.text("q")
    context = _entries(desk, who, query, form.text("before"))
    return ChangeResult("/log", template="log.html", context=context)


def _entries(desk: Desk, who: Identity, query: str, token: str) -> Context:
    page: Page[Event] = Page((), "")
    problem = ""
    try:
        page = desk.search_log(who, query, _ENTRIES, token)
    except InvalidInputError as error:  # shown beside the field: half a day is typed on the way to one
        problem = error.message
    return {
        "title": "Log",
        "query": query,
        "problem": problem,
        "later": bool(token),
        "entries": [
            {"event": event, "link": link_of(event.resource), "details": list(_details(event))}
            for event in page.rows
        ],
        "next_token": page.next_token,
    }


def _details(event: Event) -> Iterator[tuple[str, str]]:
    """Yield the details as people read them: a changed rule as before and after, digests in short."""
    details = dict(sorted(event.details.items()))
    if "field" in details:
        yield details.pop("field"), f"{details.pop('before', '')} → {details.pop('after', '')}"
    for name, text in details.items():
        yield name.replace("_", " "), f"{text[:12]}…" if len(text) == 64 else text


def link_of(resource: str) -> str:
    """Return the page's address of a resource; empty if no page shows it.

    >>> link_of("datasets/fair/cards/c1/audits/a1")
    '/audits/datasets/fair/cards/c1/audits/a1'
    """
    parts = resource.split("/")
    if len(parts) == 6 and parts[4] in ("audits", "releases"):
        return f"/{parts[4]}/{resource}"
    if card := card_of(resource):
        return f"/cards/{card}"
    return {"people": "/people", "datasets": f"/budget/{resource}"}.get(parts[0], "")


def _entry(request: Request, desk: Desk, who: Identity) -> Context:
    archive = desk.archive(who)
    proof = archive.proof(_index(request.path_params["index"]))
    event = proof.event
    return {
        "title": f"Log entry {event.index}",
        "event": event,
        "link": link_of(event.resource),
        "proof": proof,
        "document": log_entry_document(proof.entry).decode(),
        "checkpoint": proof.checkpoint.decode(),
        "size": proof.entry.size,
    }


def _verified(request: Request, desk: Desk, who: Identity) -> Context:
    archive = desk.archive(who)
    steps = archive.steps(archive.proof(_index(request.path_params["index"])))
    return {"steps": steps, "holds": all(step.holds for step in steps)}


def _index(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidNumberError(field="index", expected="the number of an entry of the log")
    return int(text)


VIEWS = (
    View("/releases", "releases.html", _releases, "Releases and audits", label="Releases", key="r"),
    View("/releases/of/{name:path}", "releases.html", _releases, "Releases", under="/releases"),
    View("/releases/{name:path}", "release.html", _release, "Release", under="/releases"),
    View("/audits/{name:path}", "audit.html", _audit, "Audit", under="/releases"),
    View("/budget", "budget.html", _budget, "Budget", label="Budget", key="b"),
    View("/budget/{name:path}", "budget.html", _budget, "Budget", under="/budget"),
    View("/people", "people.html", _people, "People", label="People", key="p"),
    View("/log", "log.html", _log, "Log", label="Log", key="l"),
    View("/log/{index}", "log_entry.html", _entry, "Log entry", under="/log"),
    View("/log/{index}/verified", "log_verified.html", _verified, "Proof", under="/log"),
)
CHANGES = (FormAction("/people/request", _request), FormAction("/log", _search))
