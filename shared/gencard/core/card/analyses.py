"""Analyses of the records that a card grants besides psi, and what they may cost.

A *checked run* is one of our own analyses, run once on the records; output rules judge every number. A
*reviewed run* is a program of the analyst's, named by its digest; a steward sees every number before it
leaves. Answers from psi need no grant.
"""

import re
from dataclasses import dataclass, field, replace

from gencard.core.card.budget import FREE, Price
from gencard.core.card.privacy import EXACT, InsideGenerator, Privacy
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.json_codecs import written

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
        checked_runs: Most checked runs under the card.
        numbers: Most numbers in the answer of one checked run.
        privacy: How each checked run is measured: exactly where the card's counts are exact; else with
            noise of the card's mechanism, of which each run spends this budget.
        reviewed_runs: Most reviewed runs under the card.
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
        return self if self.goes_with(privacy) else replace(self, privacy=privacy)

    def goes_with(self, privacy: Privacy) -> bool:
        """Whether checked runs are measured by the mechanism of a card, for the same neighbours."""
        own, card = self.privacy, privacy
        return (own.mechanism, own.neighbouring, own.most_records) == (
            card.mechanism,
            card.neighbouring,
            card.most_records,
        )


NO_ANALYSES = Analyses()
"""No analyses on the records: only answers that follow from psi."""
