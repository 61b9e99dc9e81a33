"""The views of releases and audits: receipts with their signatures, verdicts with their evidence."""

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request

from gencard.controller.page.charts import Lane, bar, lanes
from gencard.controller.page.views import Context, FormAction, View
from gencard.controller.stewards.desk import Desk
from gencard.core.audit.exploration import BlockEvidence
from gencard.core.audit.report import AuditReport, CheckResult, Verdict
from gencard.core.audit.wording import QUESTIONS, effect_sentence, limits, opening, p_value_text
from gencard.core.types import UNDEFINED
from gencard.wire.documents import Receipt
from gencard.wire.keys import Identity
from gencard.wire.steward import Kind

_MOST_BLOCKS = 20


def _releases(request: Request, desk: Desk, who: Identity) -> Context:
    """Return releases and audits of the path's dataset, which may be withdrawn, or of all datasets."""
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
            (
                ("low side", report.g_low),
                ("high side", report.g_high),
                ("dataset", report.g_original),
            )
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


VIEWS = (
    View("/releases", "releases.html", _releases, "Releases and audits", label="Releases", key="r"),
    View("/releases/of/{name:path}", "releases.html", _releases, "Releases", under="/releases"),
    View("/releases/{name:path}", "release.html", _release, "Release", under="/releases"),
    View("/audits/{name:path}", "audit.html", _audit, "Audit", under="/releases"),
)
CHANGES: tuple[FormAction, ...] = ()
