"""Attacks on the release and disclosure from it, each with its reference; uniques and small counts.

The definitions are in ``privacy.attacks``, ``privacy.uniques`` and ``privacy.disclosure``.
"""

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from gencard.core.domain import Clique
from gencard.core.json_codecs import written
from gencard.measures.evaluation.evaluation import Finding, Line, Material
from gencard.measures.evaluation.precision import (
    Named,
    rounded_between,
    rounded_named_shares,
    rounded_outward,
    rounded_proportion,
)
from gencard.measures.privacy.attacks.attack import Attack, Proportion, Risk
from gencard.measures.privacy.attacks.neighbours import Membership, inference, linkability
from gencard.measures.privacy.attacks.singling_out import singling_out
from gencard.measures.privacy.disclosure import disclosure_risk
from gencard.measures.privacy.records import combination_numbers, present
from gencard.measures.privacy.uniques import replicated_uniques

WIDTH, NEIGHBOURS = 3, 10
"""Attributes in a singling-out predicate; nearest rows that each side of a link considers."""

LARGEST_OPEN_RISK, LARGEST_OPEN_AREA = 0.2, 0.6
"""Highest interval ends of a failed attack: above them, it had too few targets to decide."""

NUMBERS = 7
"""Numbers that an attack releases: right guesses and attempts of three kinds, and its verdict."""

AREA_NUMBERS = 4


@dataclass(frozen=True, slots=True)
class AttackFinding(Finding):
    """One attack: correct guesses about train, about holdout (control) and at random (naive).

    Args:
        above: Whether the attack succeeded, by the numbers before they were rounded; None in findings
            that are not rounded, or of earlier versions.
    """

    attack: Proportion
    control: Proportion
    naive: Proportion
    above: bool | None = field(default=None, metadata=written(omit=True))

    @property
    def whole(self) -> Attack:
        return Attack(self.attack, self.control, self.naive)

    @property
    def risk(self) -> Risk:
        """Risk: success above the control, as a share of the largest possible."""
        return self.whole.risk()

    @property
    def stands_out(self) -> bool:
        if self.above is not None:
            return self.above
        return self.risk.low > 0 and self.whole.beats_random_guessing()

    @property
    def undecided(self) -> bool:
        return self.above is False and self.risk.high > LARGEST_OPEN_RISK

    @property
    def lines(self) -> tuple[Line, ...]:
        return (
            ("Attack", self.attack.share),
            ("Control", self.control.share),
            ("Random guessing", self.naive.share),
            ("Risk", self.risk.estimate),
        )

    def rounded(self, _material: Material) -> "AttackFinding":
        attack, control, naive = map(rounded_proportion, (self.attack, self.control, self.naive))
        return AttackFinding(attack, control, naive, self.stands_out)


def singling_out_finding(material: Material) -> AttackFinding:
    width = min(WIDTH, len(material.synthetic.domain))
    result = singling_out(
        material.tables,
        width=width,
        attacks=material.declared.attacks,
        rng=material.rng("singling-out"),
    )
    return _finding(result)


def linkability_finding(material: Material) -> AttackFinding:
    """Each party knows every second attribute, in the schema's order."""
    attributes = material.synthetic.domain.attributes
    result = linkability(
        material.tables,
        material.gower,
        (attributes[::2], attributes[1::2]),
        attacks=material.targets(material.tables.train),
        controls=material.targets(material.tables.holdout),
        count=min(NEIGHBOURS, len(material.synthetic)),
        rng=material.rng("linkability"),
    )
    return _finding(result)


def inference_finding(material: Material) -> AttackFinding:
    """All attributes but the declared target are known."""
    tables, target = material.tables, material.declared.target
    attacks, controls = (
        min(
            material.targets(table),
            int(np.sum(present(table.columns[table.attributes.index(target)]))),
        )
        for table in (tables.train, tables.holdout)
    )
    ask = partial(inference, tables, material.gower, target, rng=material.rng("inference"))
    return _finding(ask(attacks=attacks, controls=controls))


def _finding(result: Attack) -> AttackFinding:
    return AttackFinding(result.attack, result.control, result.naive)


@dataclass(frozen=True, slots=True)
class MembershipFinding(Finding):
    """Membership inference by distance.

    Args:
        area: Chance, 0 to 1, that a random record of train is nearer to the rows than one of holdout.
        low, high: Ends of the 95 % interval of ``area``.
        above: As in ``AttackFinding``.
    """

    area: float
    low: float
    high: float
    above: bool | None = field(default=None, metadata=written(omit=True))

    @property
    def stands_out(self) -> bool:
        return self.low > 0.5 if self.above is None else self.above

    @property
    def undecided(self) -> bool:
        return self.above is False and self.high >= LARGEST_OPEN_AREA

    @property
    def lines(self) -> tuple[Line, ...]:
        return (("Area under the curve", self.area), ("Lowest", self.low), ("Highest", self.high))

    def rounded(self, material: Material) -> "MembershipFinding":
        size = min(len(material.records), len(material.unseen))
        low, high = rounded_outward(self.low, self.high, size)
        return MembershipFinding(rounded_between(self.area, size), low, high, self.stands_out)


def membership_finding(material: Material) -> MembershipFinding:
    result = Membership(*material.to_rows)
    return MembershipFinding(result.area, *result.interval())


UNIQUE_NUMBERS, DISCLOSURE_NUMBERS = 4, 16


@dataclass(frozen=True, slots=True)
class UniquesFinding(Finding):
    """Combinations of all attributes that exactly one record or row has.

    Args:
        shares: UiO, UiS, UiOiS, repU; of the records, UiS of the rows.
    """

    shares: Named

    @property
    def lines(self) -> tuple[Line, ...]:
        return self.shares

    def rounded(self, material: Material) -> "UniquesFinding":
        return UniquesFinding(rounded_named_shares(self.shares, len(material.records)))


def uniques_finding(material: Material) -> UniquesFinding:
    result = replicated_uniques(material.records, material.synthetic)
    return UniquesFinding(tuple(result.named.items()))


@dataclass(frozen=True, slots=True)
class RowUniquesFinding(Finding):
    """Risk that rows and psi reveal by themselves; no record is read.

    Args:
        unique: Share of the rows whose combination of all attributes no other row has.
        single: Share of psi's exact non-empty cells that count one record; None where psi has no exact
            count or is not known.
    """

    unique: float | None
    single: float | None

    @property
    def lines(self) -> tuple[Line, ...]:
        return (("Unique rows", self.unique), ("Cells of psi with one record", self.single))

    def rounded(self, _material: Material) -> "RowUniquesFinding":
        """Unrounded: it depends on nothing but rows and psi."""
        return self


def row_uniques_finding(material: Material) -> RowUniquesFinding:
    rows = material.synthetic
    columns = zip(rows.codes.T, rows.domain.sizes, strict=True)
    _, counts = np.unique(combination_numbers(len(rows), columns), return_counts=True)
    exact = [] if material.psi is None else [one for one in material.psi.measurements if not one.stddev]
    cells = np.concatenate([np.zeros(0), *(one.values.ravel() for one in exact)])
    single = float(np.mean(cells[cells > 0] == 1)) if np.any(cells > 0) else None
    unique = float(np.sum(counts == 1)) / len(rows) if len(rows) else None
    return RowUniquesFinding(unique, single)


@dataclass(frozen=True, slots=True)
class DisclosureFinding(Finding):
    """Disclosure by the release of the target of a person whose keys are known.

    Args:
        keys: The declared keys that the release has.
        shares: The measures under their names in the literature; TCAP is None where no record has keys
            that are among the rows.
    """

    keys: Clique
    target: str
    shares: Named

    @property
    def lines(self) -> tuple[Line, ...]:
        return self.shares

    def rounded(self, material: Material) -> "DisclosureFinding":
        return replace(self, shares=rounded_named_shares(self.shares, len(material.records)))


def disclosure_finding(material: Material) -> DisclosureFinding:
    """Disclosure by the declared keys that the release contains."""
    domain, declarations = material.synthetic.domain, material.declared
    keys = domain.canonical(tuple(name for name in declarations.keys if name in domain.attributes))
    result = disclosure_risk(material.records, material.synthetic, keys, declarations.target)
    shares: dict[str, float | None] = {
        **result.uniques.named,
        **result.attribute.named,
        **result.attribution.named,
    }
    return DisclosureFinding(keys, result.target, tuple(shares.items()))
