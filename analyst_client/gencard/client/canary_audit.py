"""Canaries sent through a black box: how many come back, and what epsilon that refutes.

Everything is made up here and nothing is measured at the controller, so it costs nothing. The canaries
are drawn after the other records and stay here: whoever runs the box must not know them.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from gencard.client.checking.agreement import Agreement
from gencard.client.connection.connection import ProgressDisplay, progress_bar
from gencard.client.connection.tables import RemoteBox
from gencard.client.display import Displayable, Facts, Grid, Part
from gencard.client.workload import checked_number, checked_rows
from gencard.core.audit.arms.planted_pair import made_up
from gencard.core.card.budget import Neighbouring
from gencard.core.coding import Coding, Edges
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.generators.contract import rng_of
from gencard.core.privacy.canaries.canaries import FEWEST, plant
from gencard.core.privacy.canaries.findings import (
    CanaryFinding,
    CanaryFindings,
    CanaryPlan,
    canary_findings,
)

MEANING = (
    "With probability {sure} all bounds hold together, of the claims that stand beside them and of no"
    " others. A bound of 0 shows nothing: canaries find copies, and miss what leaks mildly."
)

MOST = 1_000_000
"""Canaries, and other records."""

_HEADS = ("Statistic", "Seen", "Epsilon at least", "Of claims")


@dataclass(frozen=True, slots=True)
class CanaryTerms:
    """What an auditor chooses before the run.

    Args:
        canaries: How many are drawn; each is put in with probability 1/2.
        records: Other records, made up.
        rows: How many are asked for; as many as the dataset has, where not given.
        neighbouring: The relation of the claims that are tested.
        delta: Of claims (epsilon, delta).
        radius: In how many attributes a row may differ from a canary that counts as found.
        guesses: Of how many canaries it is guessed that they were in; a tenth, where not given.
        beta: Probability, 0 to 1/2, that any bound is too high.

    Raises:
        InvalidNumberError: Canaries, records or rows that nobody could send.
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
    """What came of it.

    Args:
        card: datasets/{dataset}/cards/{card}.
        black_box: What was run.
        findings: By statistic, with what each bounds.
        beta: Probability, at most, that any bound is too high.
    """

    card: str
    black_box: str
    findings: CanaryFindings
    beta: float

    @property
    def meaning(self) -> str:
        """How to read it."""
        return MEANING.format(sure=f"{1 - self.beta:g}")

    def lines(self) -> list[tuple[str, str, str, str]]:
        """Statistic, what was seen, the bound, the claims it speaks of; then what bounds nothing."""
        low, high = self.findings.membership.interval()
        seen = f"area {self.findings.membership.area:.3f} ({low:.3f} to {high:.3f}), 0.5 by luck"
        return [
            *map(_line, self.findings.findings),
            ("membership by distance", seen, "no bound", "none"),
        ]

    def facts(self) -> list[tuple[str, str]]:
        """What was run."""
        findings = self.findings
        return [
            ("Card", self.card),
            ("Black box", self.black_box or "the card's own generator"),
            ("Canaries", f"{findings.put_in} put in, {findings.canaries - findings.put_in} left out"),
            ("Rows", f"{findings.rows:,}"),
        ]

    def document(self) -> dict[str, object]:
        """The same for programs."""
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
    """Plant canaries, have a black box make rows of them once, and look for them.

    Args:
        black_box: Its name in the catalogue; empty for the card's own generator.
        seed: For tests. A seed that the controller can guess makes every bound void.

    Raises:
        InvalidNumberError: The terms are out of range.
        VerificationError: The box answers with another number of rows.
    """
    rng = rng_of(secrets.randbits(64) if seed is None else seed)
    plan = CanaryPlan(
        terms.beta,
        terms.delta,
        terms.radius,
        terms.guesses or max(1, terms.canaries // 10),
        _numbers(agreement.coding, agreement.domain.attributes),
    )
    others = made_up(agreement.domain, terms.records, rng=rng)
    planted = plant(others, terms.canaries, neighbouring=terms.neighbouring, rng=rng)
    box = RemoteBox(agreement.connection, agreement.card.name, black_box)
    with progress_bar("Looking for canaries", progress):
        rows = len(planted.dataset) if terms.rows is None else terms.rows
        synthetic: Dataset = box(planted.dataset, rows, seed=int(rng.integers(2**63)))
        findings = canary_findings(planted, synthetic, plan, rng=rng)
    return CanaryAudit(agreement.card.name, black_box, findings, terms.beta)


def _numbers(coding: Coding, attributes: Clique) -> Clique:
    """The attributes that hold numbers, whose codes are in the order of their intervals."""
    return tuple(name for name in attributes if isinstance(coding.attribute(name).coding, Edges))


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
