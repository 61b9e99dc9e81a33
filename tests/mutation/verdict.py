"""Verdict: how tests and tries of an audit become one p-value, and that a word."""

from tests.mutation.mutant import mutants_of

REPORT, POOLING = "gencard.core.audit.report", "gencard.core.audit.exploration"
JUDGED = ("tests/core/test_audit_report.py",)
POOLED = ("tests/core/test_pooling.py",)
mutant = mutants_of("verdict")

MUTANTS = (
    mutant(
        "a p-value at the level passes",
        REPORT,
        "if self.p_value <= self.plan.level",
        "if self.p_value < self.plan.level",
        JUDGED,
    ),
    mutant(
        "each test is judged at the whole level",
        REPORT,
        "result.p_value / result.share for",
        "result.p_value for",
        JUDGED,
    ),
    mutant(
        "a test that keeps its share of the level is named as rejecting",
        REPORT,
        "result.p_value <= result.share * self.plan.level",
        "result.p_value <= self.plan.level",
        JUDGED,
    ),
    mutant(
        "the number of rows does not count in the weight of a try",
        REPORT,
        "sqrt(runs * rows)",
        "sqrt(runs)",
        JUDGED,
    ),
    mutant(
        "a test that an earlier try could not make counts for the box",
        REPORT,
        "one.check is check and not one.not_run",
        "one.check is check",
        JUDGED,
    ),
    mutant(
        "a test that could not be made is judged by earlier tries",
        REPORT,
        "if not result.not_run:",
        "if result.share:",
        JUDGED,
    ),
    mutant(
        "pooled p-values are one-sided",
        POOLING,
        "return 2 * float(scipy.special.ndtr(",
        "return float(scipy.special.ndtr(",
        POOLED,
    ),
    mutant(
        "differences in opposite directions add up",
        POOLING,
        "z = directions * -scipy.special.ndtri",
        "z = -scipy.special.ndtri",
        POOLED,
    ),
    mutant(
        "the smallest of several windows counts as the only one",
        POOLING,
        "min(1.0, len(sets) * smallest)",
        "min(1.0, smallest)",
        POOLED,
    ),
    mutant(
        "tries of the same bytes are not pooled by themselves",
        POOLING,
        "dict.fromkeys([*newest, same])",
        "dict.fromkeys(newest)",
        POOLED,
    ),
)
