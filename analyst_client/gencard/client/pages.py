"""Pages of reports as HTML: of audits, fidelity and utility, and of all that is known of a card."""

import io
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from gencard.client.answers.answer import Answer, CoefficientPlot, grids
from gencard.client.audit import Report
from gencard.client.card_report import CardReport
from gencard.client.common.display import named, number, percent
from gencard.client.findings import plots
from gencard.client.findings.fidelity import FidelityReport, UtilityReport
from gencard.client.findings.findings import EXPLANATIONS, NumberReport, is_of_psi, result_sentence
from gencard.client.findings.plots import HIGH, INK, STYLE, WIDTH, short, svg
from gencard.core.audit.plan import calls
from gencard.core.audit.report import AuditReport, Verdict
from gencard.core.audit.wording import QUESTIONS, effect_sentence, limits, opening, p_value_text, wording
from gencard.core.card.terms import Tier
from gencard.measures.evaluation.evaluation import Finding, Group
from gencard.measures.evaluation.registry import REPORTED
from gencard.measures.evaluation.utility_findings import TablesFinding
from gencard.measures.utility.fidelity import FALSE_ALARMS


def rendered(template: str, **values: object) -> str:
    """The page as HTML; raises UndefinedError if a value of the template is missing."""
    environment = Environment(
        loader=PackageLoader("gencard.client.findings", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "amount": "{:,}".format,
        "named": named,
        "percent": percent,
        "rounded": _number,
        "signed": lambda value: f"{value:.1f}".replace("-", "−"),
    }
    return environment.get_template(template).render(**values)


_TITLES = {Verdict.LEAKAGE: "Evidence of leakage", Verdict.NO_EVIDENCE: "No evidence of leakage"}
_AROUND = {
    "made-up": "made-up records; no real record was read",
    "card": "the real records, at the controller",
}
MOST_BLOCKS = 40
"""Rows of the table of blocks; the JSON report holds all."""


def audit_page(page: Report) -> str:
    """The page as HTML. All external text is escaped."""
    report = page.facts
    return rendered(
        "page.html.j2",
        title=_TITLES[report.verdict],
        leaked=report.verdict is Verdict.LEAKAGE,
        wording=wording(report),
        about=list(_about(page)),
        note=page.note,
        opening=opening(report),
        effect=effect_sentence(report),
        limits=limits(report),
        checks=[
            {
                "question": QUESTIONS[one.check],
                "name": one.check.value,
                "p_value": "" if one.not_run else p_value_text(one.p_value).removeprefix("p ="),
                "bound": _number(one.share * report.plan.level),
                "found": one.p_value <= one.share * report.plan.level,
                "not_run": one.not_run,
            }
            for one in report.checks
        ],
        level=_number(report.plan.level),
        p_value=p_value_text(report.p_value),
        blocks=report.blocks[:MOST_BLOCKS],
        more_blocks=max(0, len(report.blocks) - MOST_BLOCKS),
        pairs=report.pairs,
        settings=list(_settings(report)),
        g_plot=plots.sides(report),
        planted=report.planted,
        planted_plot=plots.planted(report.planted) if report.planted else "",
        uniques=report.uniques,
        uniques_plot=plots.uniques(report.uniques) if report.uniques else "",
        block_plot=plots.blocks(report),
    )


def _about(page: Report) -> Iterator[tuple[str, str]]:
    if page.black_box:
        yield "Black box", page.black_box
    if page.card:
        yield "Card", page.card
    if page.where in _AROUND:
        yield "Records", _AROUND[page.where]
    plan = page.facts.plan
    kinds = ((len(plan.cliques), "marginals"), (len(plan.linear), "linear statistics"))
    phi = " and ".join(f"{number} {kind}" for number, kind in kinds if number)
    yield "Claim tested", f"the rows use no more of the records than Phi: {phi}"


def _settings(report: AuditReport) -> Iterator[tuple[str, str]]:
    plan, terms = report.plan, report.plan.terms
    functions = [function.name for statistic in plan.linear for function in statistic.functions[1:]]
    yield "Phi", "; ".join([*map(named, plan.cliques), *(f"sum of {name}" for name in functions)])
    sizes = zip(report.domain.attributes, report.domain.sizes, strict=True)
    yield "Attributes (levels)", ", ".join(f"{name} ({size})" for name, size in sizes)
    yield "Records of the dataset", f"{report.records:,}"
    yield "Rows in each run", f"{plan.rows:,}"
    yield "Runs on each side of each step", str(terms.runs)
    if report.looks_at_uniques:
        yield "Total runs of the box", f"at most {calls(terms.runs)}"
    yield "Order of the interactions", f"up to {terms.order} attributes"
    yield "Level over all attempts", terms.alpha
    yield "This attempt", f"number {plan.attempt}, at level {_number(plan.level)}"
    yield "Seed", str(plan.seed)
    yield "Time", f"{report.seconds:.1f} s"
    yield "Versions", ", ".join(f"{name} {version}" for name, version in report.versions) or "not stated"


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}"


MOST_MARGINALS = 40
"""Rows of the table; the JSON holds all."""


def fidelity_page(report: FidelityReport) -> str:
    ordered = report.ordered()
    return rendered(
        "fidelity.html.j2",
        about=report.about,
        wording=report.wording,
        unseen=report.unseen,
        beyond=any(marginal.beyond_chance for marginal in ordered),
        lines=report.about_rows(),
        numbers=numbers_section(report.numbers),
        false_alarms=percent(FALSE_ALARMS),
        marginals=ordered[:MOST_MARGINALS],
        levels=report.levels,
        more=max(0, len(ordered) - MOST_MARGINALS),
        plot=plots.fidelity(ordered),
        most_bars=plots.MOST_BARS,
    )


def utility_page(report: UtilityReport) -> str:
    return rendered(
        "utility.html.j2",
        about=report.about,
        lines=report.lines(),
        grid=report.grid(),
        numbers=numbers_section(report.numbers),
    )


MOST_FIGURES = 300
"""Rows of the table of numbers; the JSON holds all."""


def numbers_section(report: NumberReport | None, heading: str = "h2") -> dict[str, object] | None:
    if report is None or not report.table.figures:
        return None
    return {
        "heading": heading,
        "heads": report.heads,
        "lines": list(report.lines(MOST_FIGURES)),
        "plot": plots.numbers(report),
        "most": plots.MOST_FIGURES,
        "of_psi": is_of_psi(report.table),
    }


# The page of a card: release, fidelity, risk, utility and audits, each with a figure.

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
    """The figure as a file of its own, of kind "svg", "png" or "pdf"."""
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
    shown = plot.shown[::-1]
    figure = Figure(figsize=(WIDTH, 1.0 + 0.26 * len(shown)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color=ink, linewidth=0.8, linestyle=(0, (2, 2)))
    for place, one in enumerate(shown):
        axes.plot([one.low, one.high], [place, place], color=mark, linewidth=1.6)
    axes.plot([one.estimate for one in shown], range(len(shown)), "o", color=mark, markersize=4.5)
    axes.set_yticks(range(len(shown)), [short(one.name, 48) for one in shown])
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
    groups = []
    for group, (title, question) in _GROUPS.items():
        sections = [
            _section(name, one)
            for name, one in report.available.items()
            if REPORTED[name].group is group
        ]
        left_out = [one for one in report.left_out if one.group is group]
        numbers = numbers_section(report.numbers, "h3") if group is Group.FIDELITY else None
        parts = {"sections": sections, "left_out": left_out, "numbers": numbers}
        groups.append({"id": str(group), "title": title, "question": question, **parts})
    # the audit that this reader may see in full: preferably of the card's own generator, then leakage
    own = report.card.terms.generator
    audits = sorted(
        report.audits, key=lambda one: (one.black_box != own, one.verdict is not Verdict.LEAKAGE)
    )
    sides = (
        {"box": one.black_box, "plot": plots.sides(one.findings)}
        for one in audits
        if one.findings is not None
    )
    return rendered(
        "card.html.j2",
        title=report.card.dataset_title or report.card.terms.dataset,
        wording=report.wording,
        alarmed=bool(report.standing_out or report.leaked),
        lines=report.lines(),
        released=list(_released(report)),
        groups=groups,
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
        sides=next(sides, None),
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


def _section(name: str, finding: Finding) -> dict[str, object]:
    explanation, tables = EXPLANATIONS[name], None
    if isinstance(finding, TablesFinding):
        rows = [
            (named(one.clique), [number(dict(one.measures)[measure]) for measure in _TABLE_MEASURES])
            for table in finding.widths
            for one in table.worst[:5]
        ]
        tables = {"heads": _TABLE_MEASURES, "rows": rows}
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
        "tables": tables,
    }
