"""The page of a card report: release, fidelity, risk, utility and audits, each with a figure."""

import io
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from gencard.client.answers.answer import Answer, CoefficientPlot, grids
from gencard.client.card_report import CardReport
from gencard.client.common.display import named, number, percent
from gencard.client.findings import plots
from gencard.client.findings.findings import EXPLANATIONS, result_sentence
from gencard.client.findings.pages import numbers_section, rendered
from gencard.client.findings.plots import HIGH, INK, STYLE, WIDTH, shortened, svg
from gencard.core.audit.report import Verdict
from gencard.core.card.terms import Tier
from gencard.measures.evaluation.evaluation import Finding, Group
from gencard.measures.evaluation.registry import REPORTED
from gencard.measures.evaluation.tables import TablesFinding

_ON_WHITE = {INK: "#1b1b1b", HIGH: "#0b5fa5"}
"""Colours of a file, which no page gives."""


def answer_section(answer: Answer) -> dict[str, object]:
    """An answer in a card's page: figure, tables, what it rests on."""
    plot = None if answer.estimates.coefficients is None else answer.plot()
    return {
        "title": answer.formula,
        "sentence": f"{answer.kind}, of {answer.nobs:,.6g} records; {answer.estimates.noise}",
        "plot": figure_svg(plot) if plot is not None and plot.shown else "",
        "tables": [
            {"title": title, "heads": grid.heads, "lines": list(grid.lines)}
            for title, grid in grids(answer.estimates)
        ],
        "lines": answer.lines(),
    }


def figure_svg(plot: CoefficientPlot) -> str:
    """The figure in the colours of the page."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": plot.title}):
        first = plot.shown[0] if plot.shown else None
        description = "nothing to draw" if first is None else f"{first.name} {first.estimate:.3g}"
        return svg(_figure(plot, INK, HIGH), f"Coefficients of {plot.title}", description)


def figure_bytes(plot: CoefficientPlot, kind: str) -> bytes:
    """The figure as a file of its own.

    Args:
        kind: "svg", "png" or "pdf".
    """
    file = io.BytesIO()
    ink, mark = _ON_WHITE[INK], _ON_WHITE[HIGH]
    colours = {name: ink for name, colour in STYLE.items() if colour == INK}
    with mpl.rc_context({**STYLE, **colours, "svg.hashsalt": plot.title}):
        # without the time of the day, the same answer gives the same bytes
        metadata: dict[str, Any] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
        figure = _figure(plot, ink, mark)
        figure.savefig(file, format=kind, dpi=200, facecolor="white", metadata=metadata[kind])
    return file.getvalue()


def _figure(plot: CoefficientPlot, ink: str, mark: str) -> Figure:
    """One line for each interval, the first on top, and a line at zero."""
    shown = plot.shown[::-1]
    figure = Figure(figsize=(WIDTH, 1.0 + 0.26 * len(shown)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color=ink, linewidth=0.8, linestyle=(0, (2, 2)))
    for place, one in enumerate(shown):
        axes.plot([one.low, one.high], [place, place], color=mark, linewidth=1.6)
    axes.plot([one.estimate for one in shown], range(len(shown)), "o", color=mark, markersize=4.5)
    axes.set_yticks(range(len(shown)), [shortened(one.name) for one in shown])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.tick_params(axis="y", length=0)
    label = f"coefficient, with its {100 * plot.level:.3g} % interval"
    axes.set_xlabel(label if not plot.note else f"{label}\n{plot.note}")
    return figure


_GROUPS = {
    Group.FIDELITY: ("Fidelity", "Do the rows match psi, the statistics measured for the card?"),
    Group.RISK: ("Risk", "What do the rows reveal about the people in the records?"),
    Group.UTILITY: ("Utility", "Do analyses of the rows and of the records agree?"),
}
_TABLE_MEASURES = ("S_pMSE", "SPECKS", "JSD", "PO50", "G")
_MOST_MARGINALS = 12
_PLAIN = ("S_pMSE", "pMSE", "JSD", "PO50", "5th percentile", "Similarity", "Cramér")


def card_page(report: CardReport) -> str:
    """The page as HTML. All external text is escaped."""
    return rendered(
        "card.html.j2",
        title=report.card.dataset_title or report.card.terms.dataset,
        wording=report.wording,
        alarmed=bool(report.standing_out or report.leaked),
        lines=report.lines(),
        released=list(_released(report)),
        groups=[_group(group, report) for group in Group],
        answers=[answer_section(one) for one in report.answers],
        audits=[
            {
                "box": one.black_box,
                "leaked": one.verdict is Verdict.LEAKAGE,
                "wording": one.wording,
                "attempt": one.attempt,
            }
            for one in report.audits
        ],
        sides=_sides(report),
        left_out=[one for one in report.left_out if one.group is None],
    )


def _released(report: CardReport) -> Iterator[tuple[str, str]]:
    card, receipt = report.card, report.receipt
    terms = card.terms
    yield from terms.about
    yield "Dataset", f"{card.dataset_title} ({terms.dataset}), declared by {card.declared_by}"
    shown = [named(clique) for clique in terms.marginals[:_MOST_MARGINALS]]
    more = len(terms.marginals) - len(shown)
    shown += [f"and {more:,} more"] if more > 0 else []
    phi = "; ".join([*shown, *map(str, (*terms.moments, *terms.numbers))])
    yield "Workload" if card.tier is Tier.PRIVATE else "Phi", phi
    measured = str(terms.privacy) if terms.privacy.noisy else f"exact, {terms.transform}"
    fit = f"no psi; one fit of the {terms.privacy}"
    yield "Measured", fit if card.tier is Tier.PRIVATE else measured
    yield "Generator", f"{terms.generator}, {card.tier}"
    yield "Reliable for", card.tier.holds_against
    if card.reviewed_by:
        yield "Reviewed by", card.reviewed_by
    if card.claim is not None:
        yield "Claims", str(card.claim)
    yield "Rows", f"{receipt.rows:,} of at most {terms.rows:,} in one release"
    if terms.without_uniques:
        yield "Replicated uniques", "removed and redrawn"
    yield "Price", str(card.price)
    yield "Analyst", card.analyst
    yield "Made", receipt.time
    yield "Rows' SHA-256", receipt.rows_digest
    yield "Card's SHA-256", report.digest


def _group(group: Group, report: CardReport) -> dict[str, object]:
    title, question = _GROUPS[group]
    findings = report.available.items()
    sections = [_section(name, one) for name, one in findings if REPORTED[name].group is group]
    left_out = [one for one in report.left_out if one.group is group]
    numbers = numbers_section(report.numbers, "h3") if group is Group.FIDELITY else None
    parts = {"sections": sections, "left_out": left_out, "numbers": numbers}
    return {"id": str(group), "title": title, "question": question, **parts}


def _section(name: str, finding: Finding) -> dict[str, object]:
    explanation = EXPLANATIONS[name]
    return {
        "id": name,
        "explanation": explanation,
        "finding": finding,
        "sentence": result_sentence(finding).replace(" %", "\N{NO-BREAK SPACE}%"),
        "plot": plots.drawn(finding, explanation.title),
        "lines": [
            (label, number(value) if label.startswith(_PLAIN) else percent(value))
            for label, value in finding.lines
        ],
        "tables": _tables(finding),
    }


def _tables(finding: Finding) -> dict[str, object] | None:
    """The worst tables of each width."""
    if not isinstance(finding, TablesFinding):
        return None
    rows = [
        (named(one.clique), [number(dict(one.measures)[name]) for name in _TABLE_MEASURES])
        for table in finding.widths
        for one in table.worst[:5]
    ]
    return {"heads": _TABLE_MEASURES, "rows": rows}


def _sides(report: CardReport) -> dict[str, str] | None:
    """The figure of one audit that this reader may see in full.

    Preferred: the card's own generator, then leakage, then the newest.
    """
    own = report.card.terms.generator
    order = sorted(
        report.audits, key=lambda one: (one.black_box != own, one.verdict is not Verdict.LEAKAGE)
    )
    for one in order:
        if one.findings is not None:
            return {"box": one.black_box, "plot": plots.sides(one.findings)}
    return None
