"""Canary audits: insert made-up records into a black box, and bound epsilon by those reproduced.

All records are made up, so the audit is free. The canaries are drawn here and are not sent separately:
the bounds hold only if the party that runs the box does not know which records are canaries.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from gencard.client.agreement import Agreement
from gencard.client.audit import NoticedBox
from gencard.client.common.arguments import checked_number, checked_rows
from gencard.client.common.display import Displayable, Facts, Grid, Part
from gencard.client.connection.connection import ProgressDisplay, progress_bar
from gencard.client.connection.tables import RemoteBox
from gencard.core.audit.uniques import made_up
from gencard.core.card.budget import Neighbouring
from gencard.core.coding import Edges
from gencard.core.dataset import Dataset
from gencard.core.generators.contract import rng_of
from gencard.measures.privacy.canaries import FEWEST, plant
from gencard.measures.privacy.canary_findings import (
    CanaryFinding,
    CanaryFindings,
    CanaryPlan,
    canary_findings,
)

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
        neighbouring: Neighbouring relation of the tested claims.
        delta: Delta of (epsilon, delta) claims.
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
        card: datasets/{dataset}/cards/{card}.
        black_box: The black box; empty for the card's own generator.
        findings: By statistic, with the bound of each.
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
        return [
            *map(_line, self.findings.findings),
            ("membership by distance", area_text, "no bound", "none"),
        ]

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

    Raises:
        InvalidNumberError: The terms are out of range.
        VerificationError: The box returned another number of rows.
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


def _line(finding: CanaryFinding) -> tuple[str, str, str, str]:
    if finding.bound is None:
        return finding.statistic, finding.seen, f"refused: {finding.refusal}", "none"
    claim = f"(epsilon, {finding.bound.delta:g})" if finding.bound.delta else "pure epsilon"
    return (
        finding.statistic,
        finding.seen,
        f"{finding.bound.epsilon:.3f}",
        f"{claim}, {finding.bound.neighbouring}",
    )
