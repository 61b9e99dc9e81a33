"""Terms: negotiated, agreed, offered instead or refused; with the analyses that they may grant.

A *checked run* is one of our own analyses, run once on the records; output rules judge every number. A
*reviewed run* is a program of the analyst's, named by its digest; a steward sees every number before it
leaves. Answers from psi need no grant.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from gencard.core.card.budget import FREE, Claim, Price, check_most_records, counted, decimal_of
from gencard.core.card.privacy import AS_COUNTED, EXACT, InsideGenerator, Privacy, Transform
from gencard.core.card.sums import Histogram, Moment, Sum
from gencard.core.coding import Coding
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidCliqueError, InvalidInputError, InvalidNumberError
from gencard.core.json_codecs import written
from gencard.core.typed_json import PAIRS_AS_OBJECT
from gencard.core.types import Time

MOST_RUNS = 1_000
MOST_NUMBERS = 10_000
MOST_NAMES = 100
MOST_COLUMNS = 5_000

_KIND = re.compile(r"[a-z][a-z0-9-]{0,62}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ATTRIBUTE = re.compile(r"[^\x00-\x1f]{1,200}")
_LIBRARY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Analyses:
    """Analyses on the records that a card grants; by default none.

    Each run is charged when it is run: one statistic for each number, or its own noise.

    Args:
        kinds: Kinds of checked runs, such as "linear"; sorted.
        numbers: Most numbers in the answer of one checked run.
        privacy: How each checked run is measured: exactly where the card's counts are exact; else with
            noise of the card's mechanism, of which each run spends this budget.
        programs: SHA-256, in hex, of each program that may be run; sorted.
        libraries: Names of the distributions that the programs may import; sorted.
        program_numbers: At most so many in the answer of one reviewed run.
        columns: Attributes whose numbers programs get as the records have them; all others with edges
            come by levels. Sorted.

    Raises:
        InvalidInputError, InvalidNumberError: Repeated, not sorted, not a name, or out of bounds; kinds,
            programs, libraries or columns without runs.
    """

    kinds: tuple[str, ...] = ()
    checked_runs: int = 0
    numbers: int = field(default=100, metadata=written(unset=True))
    privacy: Privacy = field(default=EXACT, metadata=written(unset=True))
    reviewed_runs: int = 0
    programs: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    program_numbers: int = field(default=500, metadata=written(unset=True))
    columns: tuple[str, ...] = field(default=(), metadata=written(omit=True))

    def __post_init__(self) -> None:
        for name, form in (("kinds", _KIND), ("programs", _DIGEST), ("libraries", _LIBRARY)):
            self._check_names(name, form)
        self._check_names("columns", _ATTRIBUTE, MOST_COLUMNS)
        for name, least, most in (
            ("checked_runs", 0, MOST_RUNS),
            ("reviewed_runs", 0, MOST_RUNS),
            ("numbers", 1, MOST_NUMBERS),
            ("program_numbers", 1, MOST_NUMBERS),
        ):
            if not least <= getattr(self, name) <= most:
                raise InvalidNumberError(field=f"analyses.{name}", expected=f"from {least} to {most}")
        for names, runs in (
            ("kinds", "checked_runs"),
            ("programs", "reviewed_runs"),
            ("libraries", "reviewed_runs"),
            ("columns", "reviewed_runs"),
        ):
            if getattr(self, names) and not getattr(self, runs):
                problem = f"are allowed only with {runs}"
                raise InvalidInputError(field=f"analyses.{names}", problem=problem)
        if isinstance(self.privacy, InsideGenerator):
            raise InvalidInputError(field="analyses.privacy", problem="must be exact or added noise")

    def _check_names(self, name: str, form: re.Pattern[str], most: int = MOST_NAMES) -> None:
        names = getattr(self, name)
        if list(names) != sorted(set(names)) or len(names) > most:
            problem = f"must be at most {most} different names, in alphabetical order"
            raise InvalidInputError(field=f"analyses.{name}", problem=problem)
        if not all(form.fullmatch(one) for one in names):
            raise InvalidInputError(field=f"analyses.{name}", problem="includes one that is not valid")

    def check_complete(self) -> None:
        """Raises InvalidInputError where runs are named, and nothing that they may run."""
        for names, runs in (("kinds", self.checked_runs), ("programs", self.reviewed_runs)):
            if runs and not getattr(self, names):
                raise InvalidInputError(field=f"analyses.{names}", problem="must name at least one")

    @property
    def price(self) -> Price:
        """Most that all runs together may cost."""
        total = sum((self.run_price for _ in range(self.checked_runs)), FREE)
        return total + Price(statistics=self.reviewed_runs * self.program_numbers)

    @property
    def run_price(self) -> Price:
        """Most that one checked run may cost."""
        return self.privacy.price if self.privacy.noisy else Price(statistics=self.numbers)

    @property
    def about(self) -> tuple[tuple[str, str], ...]:
        """Describe the grants, for people: titles and values; empty if there are none."""
        checked = (
            f"{self.checked_runs}, at most {self.numbers} numbers each: {', '.join(self.kinds)}"
            + (f"; each with {self.privacy}" if self.privacy.noisy else "")
        )
        reviewed = (
            f"{self.reviewed_runs}, at most {self.program_numbers} numbers each: "
            + ", ".join(f"{digest[:12]}..." for digest in self.programs)
            + (f"; libraries {', '.join(self.libraries)}" if self.libraries else "")
            + (f"; stored numbers of {', '.join(self.columns)}" if self.columns else "")
        )
        rows = (
            ("Checked runs", self.checked_runs, checked),
            ("Reviewed runs", self.reviewed_runs, reviewed),
        )
        return tuple((title, text) for title, runs, text in rows if runs)

    def measured_as(self, privacy: Privacy) -> "Analyses":
        """The same, of a card that is measured in this way.

        A budget of its own stays where mechanism and neighbouring relation stay; else each run takes the
        card's. Cards of tier private grant none.
        """
        if isinstance(privacy, InsideGenerator):
            return NO_ANALYSES
        if not self.checked_runs:
            return replace(self, privacy=EXACT)
        kept = ("mechanism", "neighbouring", "most_records")
        same = all(getattr(self.privacy, name) == getattr(privacy, name) for name in kept)
        return self if same else replace(self, privacy=privacy)


NO_ANALYSES = Analyses()
"""No analyses on the records: only answers that follow from psi."""

LONGEST_PURPOSE = 2_000
LONGEST_WHERE = 500
MOST_MARGINALS = 10_000
MOST_ROWS = 1_000_000_000
LEAST_RUNS = 6
"""Runs on each side of an audit: with fewer, an honest box of two modes is rejected too often."""
MOST_AUDIT_RUNS = 1_000
LARGEST_WEIGHT = 1_000_000
MOST_MEASURES = 50

_MEASURE = re.compile(r"[a-z][a-z0-9-]{0,62}")


class Tier(StrEnum):
    """Source of the rows; written on the card.

    by-construction: from psi alone. private: from a built-in black box, to which the controller adds the
    noise; there is no psi. audited: from a black box whose author a reviewer trusts.
    """

    BY_CONSTRUCTION = "by-construction"
    PRIVATE = "private"
    AUDITED = "audited"

    @property
    def holds_against(self) -> str:
        """Say who can rely on the promise of this tier, and why."""
        return _HOLDS_AGAINST[self]


_HOLDS_AGAINST = {
    Tier.BY_CONSTRUCTION: "everybody, by replay",
    Tier.PRIVATE: "everybody who trusts the controller's code; epsilon holds end to end",
    Tier.AUDITED: (
        "everybody who trusts reviewer and author; an audit cannot find what an author hides on purpose"
    ),
}


@dataclass(frozen=True, slots=True)
class AuditTerms:
    """Terms of audits under the card, agreed before any record is read.

    Args:
        runs: Runs of the generator on each side, in each step. Older cards have 3 to 5; audits under
            them make ``LEAST_RUNS``.
        order: Highest order of the interactions looked at, in attributes.
        alpha: Level of the test over all tries, a decimal string.
    """

    runs: int = 10
    order: int = 3
    alpha: str = "0.05"

    def __post_init__(self) -> None:
        if not 3 <= self.runs <= MOST_AUDIT_RUNS:
            raise InvalidNumberError(field="audit.runs", expected=f"from 3 to {MOST_AUDIT_RUNS}")
        if not 1 <= self.order <= 8:
            raise InvalidNumberError(field="audit.order", expected="from 1 to 8")
        if decimal_of(self.alpha, "audit.alpha") >= 1:
            raise InvalidNumberError(field="audit.alpha", expected="below 1")

    @property
    def sufficient(self) -> "AuditTerms":
        """Return the terms with at least ``LEAST_RUNS`` runs."""
        return replace(self, runs=max(self.runs, LEAST_RUNS))


USUAL_AUDIT = AuditTerms()
"""Terms of an audit if no others are given."""

_ONLY_EXACT = "is allowed only with exact counts, without rounding or checks"
_ONLY_PSI = "are part of psi, which cards of tier private do not have"
_ONLY = {
    "weights": "are allowed only with noise",
    "transform": "is allowed only with exact counts",
    "measures": _ONLY_EXACT,
    "without_uniques": _ONLY_EXACT,
    "histograms": _ONLY_PSI,
    "sums": _ONLY_PSI,
}
"""Problem with each field if the card's privacy does not name it in its ``terms``."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Terms that an analyst proposes; also the form of the terms of an offer.

    Args:
        weights: Each statistic's part of the privacy budget, as whole numbers in the order of
            ``marginals``, ``moments``, ``histograms`` and ``sums``; empty for equal parts, as with exact
            counts.
        moments: Linear statistics besides the marginals; they go with counts as they are, or noise.
        measures: Names of measures of the card that the analyst may have, though they read records;
            they go with counts as they are.
        without_uniques: Rows that are unique, as a record is, are taken out of the one release, and
            others drawn; its seed is then nobody's to know. Goes with counts as they are.
        where: A condition on attributes that all statistics hold: the part of the records that the card
            is about. psi holds the rest of these attributes' levels too, and is priced and judged so.
        histograms: Attributes with a step whose counts by the cells of the scale are in psi.
        sums: Sums of numbers, and of products of two, by groups, in psi. Neither they nor histograms
            enter the fit of a generator.

    Raises:
        InvalidInputError, InvalidCliqueError, InvalidNumberError: Empty, repeated or out of bounds.
    """

    dataset: str
    purpose: str
    marginals: tuple[Clique, ...]
    generator: str
    rows: int
    privacy: Privacy = EXACT
    audit: AuditTerms = USUAL_AUDIT
    weights: tuple[int, ...] = field(default=(), metadata=written(omit=True))
    transform: Transform = field(default=AS_COUNTED, metadata=written(omit=True))
    moments: tuple[Moment, ...] = field(default=(), metadata=written(omit=True))
    measures: tuple[str, ...] = field(default=(), metadata=written(omit=True))
    without_uniques: bool = field(default=False, metadata=written(omit=True))
    analyses: Analyses = field(default=NO_ANALYSES, metadata=written(omit=True))
    where: str = field(default="", metadata=written(omit=True))
    histograms: Clique = field(default=(), metadata=written(omit=True))
    sums: tuple[Sum, ...] = field(default=(), metadata=written(omit=True))

    def __post_init__(self) -> None:
        if not self.purpose.strip() or len(self.purpose) > LONGEST_PURPOSE:
            problem = f"must be text of 1 to {LONGEST_PURPOSE} characters"
            raise InvalidInputError(field="purpose", problem=problem)
        if not self.cliques:
            raise InvalidInputError(field="marginals", problem="must name at least one statistic")
        if self.statistics > MOST_MARGINALS:
            problem = f"must be at most {MOST_MARGINALS} statistics"
            raise InvalidInputError(field="marginals", problem=problem)
        if not 1 <= self.rows <= MOST_ROWS:
            raise InvalidNumberError(field="rows", expected=f"from 1 to {MOST_ROWS}")
        _refuse_repeats(self.marginals)
        for name, what in (("moments", "a moment"), ("histograms", "an attribute"), ("sums", "a sum")):
            if len(set(getattr(self, name))) != len(getattr(self, name)):
                raise InvalidInputError(field=name, problem=f"must not repeat {what}")
        if len(self.where) > LONGEST_WHERE or self.where != self.where.strip():
            problem = f"must be a condition of at most {LONGEST_WHERE} characters"
            raise InvalidInputError(field="where", problem=problem)
        self._check_measuring()
        self._check_measures()
        self.analyses.check_complete()
        if self.analyses != self.analyses.measured_as(self.privacy):
            problem = "must use the mechanism of the card, and are not allowed on cards of tier private"
            raise InvalidInputError(field="analyses", problem=problem)

    @property
    def about(self) -> tuple[tuple[str, str], ...]:
        """Describe the free text of the terms, for people: names and values."""
        where = (("Only where", self.where),) if self.where else ()
        return (("Purpose", self.purpose), *where)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The attributes of each statistic that rows are made from: marginals, then moments."""
        return (*self.marginals, *(moment.attributes for moment in self.moments))

    @property
    def numbers(self) -> tuple[Histogram | Sum, ...]:
        """Histograms and sums, which no row is made from."""
        return (*map(Histogram, self.histograms), *self.sums)

    def counted(self, coding: Coding) -> tuple[Clique, ...]:
        """Marginals that psi tells, each once: its own, levels of histograms, groups of sums.

        Groups of a sum are told only if every record is in its population.
        """
        levels = ((name,) for name in self.histograms)
        groups = (one.by for one in self.sums if one.by and not one.population(coding))
        return tuple(dict.fromkeys((*self.marginals, *levels, *groups)))

    @property
    def number_cliques(self) -> tuple[Clique, ...]:
        """The attributes of each histogram and each sum."""
        return tuple(one.attributes for one in self.numbers)

    @property
    def statistics(self) -> int:
        """Number of statistics, each of which has a weight."""
        return len(self.cliques) + len(self.numbers)

    def _check_measuring(self) -> None:
        for name, problem in _ONLY.items():
            if name not in self.privacy.terms and getattr(self, name) not in ((), AS_COUNTED, False):
                raise InvalidInputError(field=name, problem=problem)
        if self.weights and len(self.weights) != self.statistics:
            problem = "must be empty or have one entry for each statistic"
            raise InvalidInputError(field="weights", problem=problem)
        if not all(1 <= weight <= LARGEST_WEIGHT for weight in self.weights):
            expected = f"whole numbers from 1 to {LARGEST_WEIGHT}"
            raise InvalidNumberError(field="weights", expected=expected)
        if self.transform != AS_COUNTED and self.moments:
            problem = "is allowed only for counts, not for moments"
            raise InvalidInputError(field="transform", problem=problem)
        if self.transform.rounding > 1 and self.sums:
            problem = "must be 1 beside exact sums"
            raise InvalidInputError(field="transform.rounding", problem=problem)

    def _check_measures(self) -> None:
        """Check the terms that look at the records once more, and so get counts without rounding."""
        if len(set(self.measures)) != len(self.measures) or len(self.measures) > MOST_MEASURES:
            problem = f"must be at most {MOST_MEASURES} different names"
            raise InvalidInputError(field="measures", problem=problem)
        if not all(_MEASURE.fullmatch(name) for name in self.measures):
            raise InvalidInputError(field="measures", problem="includes a name that is not valid")
        for name in ("measures", "without_uniques"):
            if getattr(self, name) and self.transform != AS_COUNTED:
                raise InvalidInputError(field=name, problem=_ONLY[name])

    def measured_as(self, privacy: Privacy) -> "Proposal":
        """Return the terms, measured in this way; fields that do not belong to it take their default."""
        usual = {one.name: one.default for one in fields(Proposal) if one.name in _ONLY}
        changes: dict[str, Any] = {name: usual[name] for name in usual.keys() - privacy.terms}
        if "sums" in changes:
            changes.setdefault("weights", self.weights[: len(self.cliques)])
        changes["analyses"] = self.analyses.measured_as(privacy)
        return replace(self, privacy=privacy, **changes)

    def in_order_of(self, domain: Domain) -> "Proposal":
        """The same proposal with its cliques in the schema's order, sorted, each once.

        Raises:
            UnknownAttributeError: A statistic names an attribute that the schema does not declare.
            InvalidCliqueError: Two cliques name the same set of attributes.
            InvalidInputError: Two moments are the same.
        """
        cliques = tuple(domain.canonical(clique) for clique in self.marginals)
        _refuse_repeats(cliques)
        moments = tuple(moment.in_order_of(domain) for moment in self.moments)
        first = _order([(len(clique), domain.axes(clique)) for clique in cliques])
        after = _order([moment.place(domain) for moment in moments])
        names = _order([domain.axis(name) for name in self.histograms])
        sums = tuple(one.in_order_of(domain) for one in self.sums)
        last = _order([one.place(domain) for one in sums])
        places = [
            *first,
            *(len(cliques) + place for place in after),
            *(len(self.cliques) + place for place in names),
            *(len(self.cliques) + len(names) + place for place in last),
        ]
        return replace(
            self,
            marginals=tuple(cliques[place] for place in first),
            weights=tuple(self.weights[place] for place in places if self.weights),
            moments=tuple(moments[place] for place in after),
            measures=tuple(sorted(self.measures)),
            histograms=tuple(self.histograms[place] for place in names),
            sums=tuple(sums[place] for place in last),
        )


def _order(keys: Sequence[Any]) -> list[int]:
    return sorted(range(len(keys)), key=keys.__getitem__)


def _refuse_repeats(cliques: tuple[Clique, ...]) -> None:
    earlier: set[frozenset[str]] = set()
    for clique in cliques:
        names = frozenset(clique)
        if not clique or len(names) != len(clique):
            problem = "an attribute is repeated" if clique else "it is empty"
            raise InvalidCliqueError(clique=", ".join(clique), problem=problem)
        if names in earlier:
            problem = "it appears twice in the workload"
            raise InvalidCliqueError(clique=", ".join(clique), problem=problem)
        earlier.add(names)


@dataclass(frozen=True, slots=True)
class CardTerms:
    """The agreed form, frozen: what both parties sign.

    Times are RFC 3339 strings in UTC. ``name`` is datasets/{dataset}/cards/{card}; ``version`` the
    salted digest of the records; ``coding_digest`` the digest of the public schema;
    ``generator_digest`` that of all that runs. ``parameters`` and ``claim`` are those of a black box,
    by the names of its documentation; a generator that sees psi alone needs neither. ``reviewed_by`` is
    who reviewed a black box of tier audited, with this very digest; empty on cards of other tiers. At
    most ``most_records`` of one person count, and noise protects the person; 0: each record for itself.
    ``derivations``: no row contradicts what the schema derives; without it, as on cards of before, the
    generator does not know of it.

    Raises:
        InvalidInputError: The noise is the generator's own and the tier is not private, or the reverse;
            or it does not protect whom ``most_records`` says.
    """

    name: str
    controller: str = field(metadata=written("parties.controller"))
    analyst: str = field(metadata=written("parties.analyst"))
    dataset_title: str = field(metadata=written("dataset.title"))
    version: str = field(metadata=written("dataset.version.sha256"))
    coding_digest: str = field(metadata=written("dataset.coding.sha256"))
    declared_by: str = field(metadata=written("dataset.declaredBy"))
    terms: Proposal
    price: Price
    tier: Tier = field(metadata=written("generator.tier"))
    generator_digest: str = field(metadata=written("generator.code.sha256"))
    agreed_by_policy: str = field(metadata=written("whySafe"))
    offer_time: Time = field(metadata=written("offered"))
    expire_time: Time = field(metadata=written("expires"))
    nonce: str
    parameters: tuple[tuple[str, str], ...] = field(
        default=(), metadata=written("generator.parameters", omit=True, scalar=PAIRS_AS_OBJECT)
    )
    claim: Claim | None = field(default=None, metadata=written("generator.claim", omit=True))
    reviewed_by: str = field(default="", metadata=written("generator.reviewedBy", omit=True))
    most_records: int = field(default=0, metadata=written("dataset.mostRecords", omit=True))
    derivations: bool = field(default=False, metadata=written("generator.derivations", omit=True))

    def __post_init__(self) -> None:
        by_generator = isinstance(self.terms.privacy, InsideGenerator)
        if by_generator != (self.tier is Tier.PRIVATE):
            problem = "must be 'generator' for cards of tier private, and for no other card"
            raise InvalidInputError(field="privacy.mechanism", problem=problem)
        if self.most_records:
            check_most_records(self.most_records)
        if self.terms.privacy.noisy and (self.terms.privacy.most_records or 0) != self.most_records:
            problem = "must be the value of the dataset, which states whom the noise protects"
            raise InvalidInputError(field="privacy.most_records", problem=problem)

    @property
    def counted(self) -> str:
        """Records that count, for people."""
        return counted(self.most_records)
