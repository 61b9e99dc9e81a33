"""Views of registers: releases and audits, budgets, people, the log."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from math import ceil
from typing import Any

from starlette.requests import Request

from gencard.controller.page.security import Form
from gencard.controller.page.views import ChangeResult, Context, FormAction, View
from gencard.controller.records.catalogue import PREFIX
from gencard.controller.state.database import Page
from gencard.controller.state.ledger import Account, Scope
from gencard.controller.state.log import Event
from gencard.controller.stewards.archive import Amount, Course, amounts, courses
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

# Geometry of the page's figures, which templates draw as SVG; no text passes through here unescaped.
#
# The browser stretches a figure to the width of its place: x goes from 0 to ``WIDTH`` and y from 0, at
# the top, to ``HEIGHT``. Lines therefore have a stroke that does not scale; labels are outside the SVG.


WIDTH, HEIGHT = 1000.0, 200.0

_FLAT = Decimal("0.2")
"""Below this part of its cap, spending would be a flat line under the cap: the cap is left out then."""

_ROOM = 1.08
"""Upper end of the scale as a multiple of the largest value, so that no line lies on the upper edge."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """A bar of the spent share of a cap.

    Args:
        label: Text for readers who do not see the bar.
        settled, reserved: Lengths; together at most ``WIDTH``.
        percent: Spent share of the cap, rounded up to a whole per cent; None without a cap.
        over: Whether more is spent than the cap allows, because the cap was lowered.
    """

    label: str
    settled: float
    reserved: float
    percent: int | None
    over: bool


def gauge(amount: Amount, whose: str) -> Gauge:
    """Return the bar of one currency of an account.

    >>> gauge(Amount("epsilon", Decimal(3), Decimal(1), Decimal(8)), "all").label
    'all: epsilon 3 of 8 spent, 1 of it reserved'
    """
    whole = max(amount.spent, amount.cap or amount.spent)
    settled_width, reserved = (
        float(part / whole) * WIDTH if whole else 0.0
        for part in (amount.spent - amount.reserved, amount.reserved)
    )
    of_cap = "" if amount.cap is None else f" of {number(amount.cap)}"
    reserved_text = f", {number(amount.reserved)} of it reserved" if amount.reserved else ""
    label = f"{whose}: {amount.currency} {number(amount.spent)}{of_cap} spent{reserved_text}"
    over = amount.cap is not None and amount.spent > amount.cap
    percent = ceil(100 * amount.spent / amount.cap) if amount.cap else None
    return Gauge(label, round(settled_width, 2), round(reserved, 2), percent, over)


@dataclass(frozen=True, slots=True)
class SpendingCurve:
    """Spending over time, as a line of steps.

    Args:
        label: Text for readers who do not see the line.
        spent, forecast: Points in the notation of SVG; ``forecast`` is empty if there is none.
        cap: y of the cap's line; None if the cap is far above.
        today: x of today.
        first, last, top: Labels of the axes; ``top`` is the value at the upper edge.
    """

    label: str
    spent: str
    forecast: str
    cap: float | None
    today: float
    first: str
    last: str
    top: str


def curve(course: Course, now: datetime) -> SpendingCurve | None:
    """Return the line of one currency of an account; None if nothing was ever spent."""
    if not course.days:
        return None
    today = now.astimezone(UTC)
    start = datetime.combine(course.days[0][0], time(), UTC)
    passed = max(today - start, timedelta(days=1))
    end = today + max(passed / 3, timedelta(days=7))
    ahead = _ahead(course, today, end)
    largest = max(value for _, value in (*course.days, *ahead))
    cap = course.amount.cap
    shown_cap = None if cap is None or largest < _FLAT * cap else cap
    top = float(largest if shown_cap is None else max(largest, shown_cap)) * _ROOM

    def across(when: datetime) -> float:
        return round((when - start) / (end - start) * WIDTH, 2)

    def up(value: Decimal) -> float:
        return round(HEIGHT - float(value) / top * HEIGHT, 2)

    steps = [(0.0, up(Decimal(0)))]
    for day, value in course.days:
        place = across(min(datetime.combine(day, time(12), UTC), today))
        steps += [(place, steps[-1][1]), (place, up(value))]
    steps.append((across(today), steps[-1][1]))
    first, total = course.days[0][0], course.days[-1][1]
    total_text = f"{course.amount.currency}: {number(total)} spent since {first:%Y-%m-%d}"
    return SpendingCurve(
        label=f"{total_text}; {in_words(course)}",
        spent=_points(steps),
        forecast=_points([(across(when), up(value)) for when, value in ahead]),
        cap=None if shown_cap is None else up(shown_cap),
        today=across(today),
        first=f"{start:%Y-%m-%d}",
        last=f"{end:%Y-%m-%d}",
        top=number(_rounded(largest)) if shown_cap is None else f"the cap, {number(shown_cap)}",
    )


def _ahead(course: Course, today: datetime, end: datetime) -> list[tuple[datetime, Decimal]]:
    """Return the points of the forecast until the end of the figure, at most up to the cap."""
    plan = course.forecast
    if plan is None:
        return []
    until = end if plan.ends is None else min(end, plan.ends)
    days = Decimal((until - today) / timedelta(days=1))
    spent = course.amount.spent
    return [(today, spent), (until, spent + max(days, Decimal(0)) * plan.daily)]


def in_words(course: Course) -> str:
    plan, cap = course.forecast, course.amount.cap
    if plan is None and course.young:
        end = "; the cap is reached" if cap is not None and course.amount.spent >= cap else ""
        return f"no rate yet: spending began on {course.days[0][0]:%Y-%m-%d}{end}"
    if plan is None:
        return "nothing spent in the last four weeks"
    rate = f"about {number(_rounded(plan.daily))} a day"
    if cap is None:
        return rate
    if course.amount.spent >= cap:
        return f"{rate}; the cap is reached"
    if plan.ends is None:
        return f"{rate}; the cap is more than ten years away"
    return f"{rate}; the cap is reached on {plan.ends:%Y-%m-%d}"


@dataclass(frozen=True, slots=True)
class Lane:
    """Runs of one group on a common scale: x of each run, and of their mean."""

    name: str
    label: str
    marks: tuple[float, ...]
    mean: float


def lanes(groups: Sequence[tuple[str, Sequence[float]]]) -> tuple[Lane, ...]:
    """Return a lane for each group that has runs, all on the same scale."""
    filled = [(name, values) for name, values in groups if values]
    low = min((min(values) for _, values in filled), default=0.0)
    high = max((max(values) for _, values in filled), default=0.0)
    room = 0.04 * (high - low) or 1.0

    def place(value: float) -> float:
        return round((value - low + room) / (high - low + 2 * room) * WIDTH, 2)

    drawn = []
    for name, values in filled:
        mean = sum(values) / len(values)
        span = f"from {min(values):.4g} to {max(values):.4g}"
        label = f"{name}: {len(values)} runs, mean {mean:.4g}, {span}"
        drawn.append(Lane(name, label, tuple(map(place, values)), place(mean)))
    return tuple(drawn)


def bar(value: float, largest: float) -> float:
    """Length of a bar among others, of which the longest fills the figure."""
    return round(min(max(value / largest, 0.0), 1.0) * WIDTH, 2) if largest > 0 else 0.0


def number(amount: Decimal) -> str:
    """Digits in groups, no exponent, no trailing zeros.

    >>> number(Decimal("12345.50"))
    '12,345.5'
    """
    text = f"{amount:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _rounded(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal(1).scaleb(min(amount.adjusted() - 2, 0)))


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


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
    planted, uniques = report.planted, report.uniques
    sides = () if planted is None else (("even side", planted.even), ("odd side", planted.odd))
    planted_runs = [
        (f"{side}: planted {where}", [float(value) for value in values])
        for side, runs in sides
        for where, values in (("there", runs.own), ("on the other side", runs.other))
    ]
    twins = []
    if uniques is not None:
        twins = [("on the dataset", uniques.original), ("on its twins", uniques.twins)]
    blocks = report.blocks[:_MOST_BLOCKS]
    largest = max((one.strength for one in blocks), default=0.0)
    return {
        "opening": opening(report),
        "effect": effect_sentence(report),
        "limits": limits(report),
        "sides": lanes(
            (("low side", report.g_low), ("high side", report.g_high), ("dataset", report.g_original))
        ),
        "planted": lanes(planted_runs),
        "uniques": lanes([(name, [float(value) for value in values]) for name, values in twins]),
        "checks": [_check(result, report) for result in report.checks],
        "blocks": [_block(one, largest, report.plan.level) for one in blocks],
        "more": len(report.blocks) - len(blocks),
        "p_value": p_value_text(report.p_value),
        "level": f"{report.plan.level:.2g}",
        "settings": list(_settings(report)),
    }


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


def _budget(request: Request, desk: Desk, who: Identity) -> Context:
    archive = desk.archive(who)
    dataset = request.path_params.get("name") or next(iter(archive.datasets), "")
    if dataset not in archive.datasets:
        raise NotFoundError(what=f"dataset '{dataset.removeprefix(PREFIX)}'")
    accounts, now = desk.accounts(who, dataset), desk.clock()
    days = archive.days(dataset)
    gauges: dict[Scope, list[Mapping[str, Any]]] = {scope: [] for scope in Scope}
    for one in accounts:
        spending = days.get(Account(Scope(one.scope), dataset, one.holder), {})
        course = courses(amounts(one.spent, one.reserved, one.cap), spending, now)
        *path, holder = one.holder.split("/")
        project = path[-2] if one.scope == Scope.ANALYST and len(path) > 1 else ""
        for currency in course:  # of the whole dataset without names
            amount = currency.amount
            left = None if amount.cap is None else max(amount.cap - amount.spent, Decimal(0))
            gauges[Scope(one.scope)].append(
                {
                    "holder": holder,
                    "project": project,
                    "course": currency,
                    "gauge": gauge(amount, holder or "all together"),
                    "curve": curve(currency, now),
                    "forecast": in_words(currency),
                    "spent": number(amount.spent),
                    "reserved": number(amount.reserved) if amount.reserved else "",
                    "cap": "" if amount.cap is None else number(amount.cap),
                    "left": "" if left is None else number(left),
                }
            )
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


def _people(request: Request, desk: Desk, who: Identity) -> Context:  # noqa: ARG001
    people = sorted(
        desk.people(who),
        key=lambda person: (_ORDER.get(person.identity.role, len(_ORDER)), person.identity.name),
    )
    firsts = [one for one in desk.first_decisions(who) if one.resource.startswith(("people/", "keys/"))]
    return {
        "rows": [{"person": one, **_state_of(one, desk.clock())} for one in people],
        "firsts": firsts,
        "two": desk.preview(who, Kind.DISABLE, f"people/{who.name}", {}).two,
        "keys": {use: desk.preview(who, Kind.ROTATE, f"keys/{use}", {}) for use in (CARDS, LOG)},
        "roles": PERSONS,
        "grouped": grouped,
    }


def _state_of(person: Person, now: datetime) -> Mapping[str, str]:
    until = person.certificate_until
    if person.disabled:
        return {"state": "disabled", "tone": "bad"}
    if until is not None and until < now:
        return {"state": "certificate expired", "tone": "bad"}
    if until is not None and until < now + SOON:
        return {"state": "certificate expires soon", "tone": "warn"}
    return {"state": "enabled", "tone": "good"}


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


def _search(form: Form, desk: Desk, who: Identity) -> ChangeResult:
    """Return the matching entries; by POST, so that no address contains a search text."""
    context = _log(form, desk, who, form.text("q"), form.text("before"))
    return ChangeResult("/log", template="log.html", context=context)


def _log(_: Form | Request, desk: Desk, who: Identity, query: str = "", token: str = "") -> Context:
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
