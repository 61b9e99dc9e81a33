"""Black boxes that are audited again and again: how often they pass with pooled evidence, and without.

``python -m benchmarks.audit_tries [--quick] [--json FILE]``

Application 1 of the paper, ten runs a side. A family is one black box; every try is a new audit of it
with a seed of its own. It passes a try that ends without evidence of leakage, unless it was found
before: a box that was found once stays found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from scipy import stats

from benchmarks import bench
from benchmarks.applications import Application, applications
from gencard.core.audit.report import AuditReport, EarlierTry, Verdict
from gencard.core.audit.run import audit
from gencard.core.audit.wording import report_to_json_object, try_of_object
from gencard.core.blackbox import BlackBox

ALPHA = 0.05
LEAKY_TRIES, HONEST_TRIES = 5, 20
FIRST_SEED = 1_000_000
"""Other seeds than those of ``benchmarks.audit``."""


@dataclass(frozen=True, slots=True)
class FamilyOfTries:
    """The tries of one family, oldest first: by itself each, and with all before it."""

    alone: tuple[AuditReport, ...]

    @property
    def pooled(self) -> tuple[AuditReport, ...]:
        """The reports as the controller makes them."""
        earlier = tuple(map(_as_earlier, self.alone))
        return tuple(
            replace(report, earlier=earlier[:number]) for number, report in enumerate(self.alone)
        )

    @property
    def passes(self) -> int:
        """Number of tries that a leak passes with pooled evidence, before it is detected for good."""
        verdicts = [report.verdict for report in self.pooled]
        return (*verdicts, Verdict.LEAKAGE).index(Verdict.LEAKAGE)

    @property
    def passes_alone(self) -> int:
        """Number of tries that a leak would pass if each were judged by itself."""
        return [report.verdict for report in self.alone].count(Verdict.NO_EVIDENCE)

    def accused(self) -> bool:
        """Whether any try ends in evidence of leakage, with the evidence of all before it."""
        return any(report.verdict is Verdict.LEAKAGE for report in self.pooled)


def run(quick: bool) -> bench.Result:
    application = applications()[0]
    copies, honest = application.boxes()["copies 1 %"], application.honest()
    leaky = families(application, copies, 10 if quick else 100, LEAKY_TRIES, FIRST_SEED)
    fair = families(application, honest, 3 if quick else 60, HONEST_TRIES, 2 * FIRST_SEED)
    return bench.Result(
        [_found_table(leaky), _passes_table(leaky), _honest_table(fair)], _targets(leaky, fair)
    )


def families(
    application: Application, box: BlackBox, number: int, tries: int, first_seed: int
) -> list[FamilyOfTries]:
    """Families of one black box.

    Args:
        number: How many families.
        tries: Of each family.
        first_seed: Of the first try of the first family; every try has the next one.
    """
    return [
        _family(application, box, range(begin, begin + tries))
        for begin in range(first_seed, first_seed + number * tries, tries)
    ]


def _family(application: Application, box: BlackBox, seeds: Sequence[int]) -> FamilyOfTries:
    plans = [
        replace(application.plan(seed, alpha=str(ALPHA)), attempt=number)
        for number, seed in enumerate(seeds, start=1)
    ]
    return FamilyOfTries(tuple(audit(box, application.dataset, plan) for plan in plans))


def _as_earlier(report: AuditReport) -> EarlierTry:
    return try_of_object(report_to_json_object(report), same_bytes=True)


def _found_table(leaky: Sequence[FamilyOfTries]) -> bench.Table:
    rows = []
    for number in range(LEAKY_TRIES):
        alone = [family.alone[number].verdict for family in leaky]
        pooled = [family.pooled[number].verdict for family in leaky]
        p_values = [family.pooled[number].p_value for family in leaky]
        shares = (_share(alone), _share(pooled))
        rows.append((f"try {number + 1}", *shares, median(p_values), max(p_values)))
    return bench.Table(
        f"Copies 1 % of rows, {len(leaky)} families: evidence of leakage",
        ("", "each try alone", "tries pooled", "median pooled p", "largest pooled p"),
        rows,
    )


def _share(verdicts: Sequence[Verdict]) -> float:
    return verdicts.count(Verdict.LEAKAGE) / len(verdicts)


def _passes_table(leaky: Sequence[FamilyOfTries]) -> bench.Table:
    once_alone = sum(family.passes_alone > 0 for family in leaky)
    once, twice = (sum(family.passes >= number for family in leaky) for number in (1, 2))
    return bench.Table(
        f"Copies 1 % of rows, {len(leaky)} families of {LEAKY_TRIES} tries: pass",
        ("at least once, each try alone", "at least once, pooled", "at least twice, pooled"),
        [(once_alone, once, twice)],
    )


def _honest_table(fair: Sequence[FamilyOfTries]) -> bench.Table:
    accused = sum(family.accused() for family in fair)
    return bench.Table(
        f"Honest, {HONEST_TRIES} tries",
        ("families", "accused at any try", "of them, percent"),
        [(len(fair), accused, 100 * accused / len(fair))],
    )


def _targets(leaky: Sequence[FamilyOfTries], fair: Sequence[FamilyOfTries]) -> list[bench.Target]:
    below = sum(family.pooled[-1].p_value < 1e-4 for family in leaky)
    most = float(stats.binom.ppf(0.995, len(fair), ALPHA))
    return [
        bench.Target(
            "copies 1 %: pass at least once in five tries, pooled",
            100 * sum(family.passes > 0 for family in leaky) / len(leaky),
            20,
            "at most",
            "%",
        ),
        bench.Target("pooled p at try 5 below 1e-4", 100 * below / len(leaky), 90, "at least", "%"),
        bench.Target(
            "honest families accused in twenty tries",
            sum(family.accused() for family in fair),
            most,
            "at most",
        ),
    ]


if __name__ == "__main__":
    bench.main("audit_tries", run)
