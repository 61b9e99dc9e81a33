"""The pages of reports of audits, fidelity and utility, as HTML."""

from collections.abc import Callable, Iterator, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from gencard.client.common.display import Grid, named, percent
from gencard.client.findings import plots
from gencard.client.findings.findings import NumberReport, is_of_psi
from gencard.core.audit.plan import calls
from gencard.core.audit.report import AuditReport, CheckResult, Verdict
from gencard.core.audit.wording import QUESTIONS, effect_sentence, limits, opening, p_value_text, wording
from gencard.core.domain import Clique
from gencard.measures.utility.fidelity import FALSE_ALARMS, CellFidelity, MarginalFidelity


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


_TITLES = {
    Verdict.LEAKAGE: "Evidence of leakage",
    Verdict.NO_EVIDENCE: "No evidence of leakage",
}
_AROUND = {
    "made-up": "made-up records; no real record was read",
    "card": "the real records, at the controller",
}
MOST_BLOCKS = 40
"""Rows of the table of blocks; the JSON report holds all."""


def audit_page(report: AuditReport, *, card: str, black_box: str, where: str, note: str) -> str:
    """The page as HTML; arguments as in ``Report``. All external text is escaped."""
    return rendered(
        "page.html.j2",
        title=_TITLES[report.verdict],
        leaked=report.verdict is Verdict.LEAKAGE,
        wording=wording(report),
        about=list(_about(report, card, black_box, where)),
        note=note,
        opening=opening(report),
        effect=effect_sentence(report),
        limits=limits(report),
        checks=[_check(result, report) for result in report.checks],
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


def _about(report: AuditReport, card: str, black_box: str, where: str) -> Iterator[tuple[str, str]]:
    if black_box:
        yield "Black box", black_box
    if card:
        yield "Card", card
    if where in _AROUND:
        yield "Records", _AROUND[where]
    kinds = ((len(report.plan.cliques), "marginals"), (len(report.plan.linear), "linear statistics"))
    phi = " and ".join(f"{number} {kind}" for number, kind in kinds if number)
    yield "Claim tested", f"the rows use no more of the records than Phi: {phi}"


def _check(result: CheckResult, report: AuditReport) -> dict[str, object]:
    bound = result.share * report.plan.level
    return {
        "question": QUESTIONS[result.check],
        "name": result.check.value,
        "p_value": "" if result.not_run else p_value_text(result.p_value).removeprefix("p ="),
        "bound": _number(bound),
        "found": result.p_value <= bound,
        "not_run": result.not_run,
    }


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

Levels = Callable[[Clique, CellFidelity], tuple[str, ...]]


def fidelity_page(
    ordered: Sequence[MarginalFidelity],
    *,
    about: str,
    wording: str,
    unseen: Sequence[str],
    lines: list[tuple[str, str]],
    levels: Levels,
    numbers: NumberReport | None,
) -> str:
    """The page as HTML; arguments as in ``FidelityReport``."""
    return rendered(
        "fidelity.html.j2",
        about=about,
        wording=wording,
        unseen=unseen,
        beyond=any(marginal.beyond_chance for marginal in ordered),
        lines=lines,
        numbers=numbers_section(numbers),
        false_alarms=percent(FALSE_ALARMS),
        marginals=ordered[:MOST_MARGINALS],
        levels=levels,
        more=max(0, len(ordered) - MOST_MARGINALS),
        plot=plots.fidelity(ordered),
        most_bars=plots.MOST_BARS,
    )


def utility_page(
    *,
    about: str,
    lines: list[tuple[str, str]],
    grid: Grid,
    numbers: NumberReport | None,
) -> str:
    """The page as HTML; arguments as in ``UtilityReport``."""
    section = numbers_section(numbers)
    return rendered("utility.html.j2", about=about, lines=lines, grid=grid, numbers=section)


MOST_FIGURES = 300
"""Rows of the table of numbers; the JSON holds all."""


def numbers_section(report: NumberReport | None, heading: str = "h2") -> dict[str, object] | None:
    """The section about numbers; None without a figure."""
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
