"""Numbers of a question that are summed as the records have them, and the statistics that it needs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gencard.analysis.answers.design import Option
from gencard.analysis.answers.kinds import STORED_KINDS
from gencard.analysis.answers.margins import Margins, Present, records_of, summed, within
from gencard.analysis.formulas.formulas import read_factors
from gencard.analysis.formulas.model_matrix import Values, read_condition
from gencard.analysis.formulas.numbers import (
    Needs,
    NumbersUsed,
    is_categorical,
    is_coded,
    is_wide,
    least_number,
    needs_of,
    numbers_used,
    population_of,
)
from gencard.core.card.sums import Sum
from gencard.core.coding import Coding
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, LackingMarginalsError, LevelsTooWideError
from gencard.core.statistics.formula import SUMMED_KINDS, Analysis, Formula, Written, sufficient_cliques
from gencard.core.statistics.marginals import maximal

MISSING_CHOICES = ("level", "drop")
"""Treatments of missing values: make them a level of their own, or leave their records out."""

_RANKED = {("test", "mann-whitney"), ("test", "kruskal"), ("method", "spearman"), ("method", "kendall")}
"""Options of analyses of ranks: those of the levels in their order."""

_LINEAR = "Write the response as a linear function of one attribute, with no condition on its levels;"
_RUN = (
    " have a checked run answer it (card.run), which takes log, sqrt and powers of the records' numbers;"
)
_VALUES = " or give its levels numbers with values={...}, which the answer says."


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """A question as an analyst sends it.

    Args:
        where: Which records; "" for all.
        missing: One of ``MISSING_CHOICES``.
    """

    written: Written
    kind: Analysis
    coding: Coding
    values: Values
    where: str
    missing: str
    options: Mapping[str, Option]

    def numbers(self) -> NumbersUsed:
        """The wide numbers; those with numbers of their own, or in a condition, are grouped.

        Raises:
            LevelsTooWideError: The response's levels hold several values, and no sums give the answer.
        """
        chosen_by = read_condition(self.where, self.coding, self.values)[0] if self.where else ()
        cut = self.cut()
        kind = Analysis.QUANTILES if self.of_ranks else self.kind
        used = numbers_used(self.written, kind, self.coding, fixed={*self.values, *chosen_by, *cut})
        self._check_response(used)
        names = {*used.grouped, *cut}
        return replace(used, grouped=tuple(n for n in self.coding.domain.attributes if n in names))

    def summed(
        self, margins: Margins, used: NumbersUsed
    ) -> tuple[NumbersUsed, Margins, Needs, tuple[str, ...]]:
        """The numbers that can be summed, the margins of the records that count, and what is needed.

        A number of the terms whose sums are lacking is grouped.

        Returns:
            With notes on the records that are left out.

        Raises:
            LevelsTooWideError: Sums of the response are lacking.
            LackingMarginalsError: Others are lacking.
        """
        check_missing(self.missing)
        chosen = read_condition(self.where, self.coding, self.values) if self.where else None
        part = within(margins, *chosen) if chosen else margins
        while True:
            names = population_of(self.written, self.coding, used, drop=self._drop)
            own = Present(part, names) if names else part
            needs = self._needed(used)
            lacking = _lacking(own, needs)
            less = self._needed(used, pooled=True)
            if lacking and self.options.get("test", "pooled") == "pooled" and not _lacking(own, less):
                needs, lacking = less, ()
            numbers = {name for one in lacking for name in one.of if name in used.terms}
            if not numbers:
                break
            used = used.without(max(numbers, key=lambda name: sum(name in one.of for one in lacking)))
        if used.response and any(used.response in one.of for one in lacking):
            wanted = self._needed(used, about=self._chosen_by)
            raise LevelsTooWideError.of(wanted.cliques, wanted.sums, attribute=used.response)
        if lacking:
            raise LackingMarginalsError.of([], lacking)
        is_said = not names or self.missing == "drop" or _are_all(own, part)
        return used, own, needs, () if is_said else (f"of the records that have {', '.join(names)}",)

    def needs(self, *, rows: bool = True, levels: bool = False) -> Needs:
        """The statistics that determine the answer, and on which rows for it rest.

        Numbers that are summed have their marginals by levels, too: rows are made of these.

        Args:
            levels: Levels count as one number each.

        Raises:
            LevelsTooWideError: No card determines it.
        """
        used, about = NumbersUsed() if levels else self.numbers(), self._chosen_by
        needs = self._needed(used, about=about) if used.summed else Needs(())
        if used.summed and not rows:
            return needs
        dropped = dropped_of(self.written.formula, self.coding, self.missing)
        wider = {*about, *(() if used.summed else dropped)}
        domain = self.coding.domain
        cliques = sufficient_cliques(self.written.formula, self.kind, domain)
        cliques = tuple(dict.fromkeys(domain.canonical({*one, *wider}) for one in cliques))
        cliques = maximal([*cliques, *needs.cliques]) if used.summed else cliques
        names = {*used.summed, *used.grouped}
        return Needs(cliques, needs.sums, tuple(name for name in domain.attributes if name in names))

    @property
    def _chosen_by(self) -> Clique:
        return read_condition(self.where, self.coding)[0] if self.where else ()

    @property
    def _drop(self) -> bool:
        """Whether records without a value of the formula are left out; pairs need the same records."""
        return self.missing == "drop" or self.kind in {Analysis.CORRELATION, Analysis.COMPONENTS}

    @property
    def of_ranks(self) -> bool:
        """Whether the analysis is one of the levels in their order."""
        return takes_ranks(self.options)

    def _needed(self, used: NumbersUsed, *, about: Clique = (), pooled: bool = False) -> Needs:
        return needs_of(
            self.written, self.kind, self.coding, used, about=about, drop=self._drop, pooled=pooled
        )

    def _check_response(self, used: NumbersUsed) -> None:
        factor = self.written.response
        if factor is None or self.kind not in SUMMED_KINDS or self.of_ranks:
            return
        if used.response:
            if self.kind is Analysis.POISSON and least_number(factor, used.response, self.coding) < 0:
                problem = "a Poisson response must be 0 or more, and the schema permits numbers below 0"
                raise InvalidInputError(field="formula", problem=problem)
            return
        own = self._wide(factor)
        if own and not (is_categorical(factor) and not self._cuts(factor)):
            advice = f"{_LINEAR}{_RUN if self.kind in STORED_KINDS else ''}{_VALUES}"
            raise LevelsTooWideError(attribute=min(own), cliques=factor, advice=advice)

    def cut(self) -> set[str]:
        """Wide numbers that a comparison in a term cuts inside a level: the levels count instead."""
        factors = {factor for term in self.written.terms for factor in term}
        compared = {one for one in factors if is_categorical(one) and not is_coded(one)}
        return {name for one in compared for name in self._wide(one) if self._cuts(one)}

    def _wide(self, factor: str) -> set[str]:
        """The wide numbers of a factor, without those that the analyst gives numbers."""
        names = {name for name in self.written.attributes[factor] if is_wide(self.coding, name)}
        return names - {*self.values}

    def _cuts(self, factor: str) -> bool:
        """Whether a comparison is true of one value and false of another one of the same level."""
        try:
            read_condition(factor, self.coding, self.values)
        except InvalidInputError:
            return True
        return False


def question_needs(
    text: str, kind: Analysis, coding: Coding, *, where: str = "", missing: str = "level"
) -> Needs:
    """The statistics that determine an analysis of a part of the records; see ``AnswerRequest.needs``.

    Args:
        where, missing: As in ``answer_of``.

    Raises:
        LevelsTooWideError: No card determines it.
        InvalidFormulaError, InvalidInputError, UnknownAttributeError, TooLargeError: What is wrong.
    """
    return AnswerRequest(read_factors(text, coding), kind, coding, {}, where, missing, {}).needs()


def takes_ranks(options: Mapping[str, Option]) -> bool:
    """Whether options of an analysis make it one of the levels in their order."""
    return bool(_RANKED.intersection((name, str(value)) for name, value in options.items()))


def check_missing(missing: str) -> None:
    """Raises InvalidInputError where it is none of ``MISSING_CHOICES``."""
    if missing not in MISSING_CHOICES:
        problem = f"must be one of {', '.join(MISSING_CHOICES)}"
        raise InvalidInputError(field="missing", problem=problem)


def dropped_of(formula: Formula, coding: Coding, missing: str) -> Clique:
    """The attributes without which a record is left out; raises as ``check_missing``."""
    check_missing(missing)
    if missing != "drop":
        return ()
    return tuple(name for name in formula.attributes if coding.attribute(name).coding.missing)


def _are_all(own: Margins, part: Margins) -> bool:
    """Whether some margins are known to be of the same records as wider ones."""
    try:
        return records_of(own) == records_of(part)
    except LackingMarginalsError:
        return False


def _lacking(margins: Margins, needs: Needs) -> tuple[Sum, ...]:
    lacking = []
    for one in needs.sums:
        try:
            summed(margins).sums(one.of, one.by, one.present)
        except LackingMarginalsError:
            lacking.append(one)
    return tuple(lacking)
