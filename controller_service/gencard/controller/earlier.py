"""Judgement of a run together with earlier disclosures of the same records: answers and statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from gencard.analysis.answers.margins import RecordMargins
from gencard.analysis.formulas.numbers import record_numbers
from gencard.analysis.output_checks import facts
from gencard.analysis.output_checks.card_sums import NumberedRecords, ReleasedNumbers, sum_groups
from gencard.analysis.output_checks.differencing import (
    EVERYBODY,
    Kept,
    Merged,
    Rounded,
    ToldOutput,
    cell_numbers,
    chain_of_sums,
    differences,
    nearly_natural,
    not_missing,
)
from gencard.analysis.output_checks.inference import MOST_WHOLE, SearchOutcome, tells_small_counts
from gencard.analysis.output_checks.judgement import SUMMED, group_populations
from gencard.analysis.output_checks.lattice import MOST_CELLS, CountFacts, Lattice, lattice_size
from gencard.analysis.output_checks.stored import contributed, origin_of
from gencard.controller.run_question import Population, RunQuestion
from gencard.core.card.sums import Sum
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.derived_cells import impossible
from gencard.core.domain import Clique
from gencard.core.errors import GencardError
from gencard.core.policy import PASSED, Rules, RuleVerdict
from gencard.core.types import FloatArray, IntArray

_MOST_SCOPES = 16
"""Number of lattices in which a run is judged together with other outputs."""

_Attributes = tuple[frozenset[str], frozenset[str]]
"""Attributes of a formula, and attributes by which its population is chosen."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """Earlier and pending disclosures: answers of runs, and exact statistics that cards name.

    Args:
        cliques: Exact marginals of all records.
        refused: Populations of refused runs: a refusal discloses that a rule was broken, so two
            refusals about almost the same records would disclose a fact about their difference.
    """

    coding: Coding
    runs: tuple[RunQuestion, ...]
    cliques: tuple[Clique, ...]
    refused: tuple[Population, ...] = ()
    rounded: tuple[Rounded, ...] = ()
    histograms: Clique = ()
    sums: tuple[Sum, ...] = ()

    @property
    def tables(self) -> tuple[Clique, ...]:
        """Marginals of all records, exact or rounded."""
        return (*self.cliques, *(one.clique for one in self.rounded))

    def attributes_with(self, run: RunQuestion) -> Clique:
        runs = (run, *self.runs)
        cliques = (clique for one in runs for clique in one.output.cliques)
        names = (name for one in runs for name in (*one.question.formula.attributes, *one.attributes))
        chosen = (population.attributes for population in self.refused)
        sums = (one.attributes for one in self.sums)
        return tuple(dict.fromkeys(chain(names, *cliques, *self.tables, *chosen, *sums)))

    def attributes_with_sums(self, sums: Sequence[Sum], cliques: Sequence[Clique]) -> Clique:
        """Return all attributes that must be read to judge exact sums of a card with these marginals."""
        numbers = {one.of for one in sums if one.of}
        names = chain(*(one.attributes for one in sums))
        runs = (one for one in self.runs if self._sums_one(one, numbers))
        of_runs = (
            (*one.question.formula.attributes, *one.attributes, *chain.from_iterable(output.cliques))
            for one in runs
            for output in one.outputs
        )
        counted = (*cliques, *self.cliques)
        tables = (clique for clique in counted if any({*of} <= {*clique} for of in numbers))
        of_cards = (one.attributes for one in self.sums if one.of in numbers)
        return tuple(dict.fromkeys(chain(names, *of_runs, *tables, *of_cards)))

    @staticmethod
    def _sums_one(run: RunQuestion, numbers: Iterable[Clique]) -> bool:
        response = run.question.formula.response or ""
        return run.question.kind in SUMMED and (response,) in numbers

    def beside_sums(
        self, sums: Sequence[Sum], records: NumberedRecords, cliques: Sequence[Clique], own: Clique
    ) -> ReleasedNumbers:
        """Return all disclosures of sums of a card's numbers, besides the card's own sums.

        ``cliques`` are the card's own exact marginals, ``own`` its histograms.
        """
        means: dict[str, list[IntArray]] = {}
        numbers = [one.of for one in sums]
        for run in self.runs:
            if self._sums_one(run, numbers):
                response = run.question.formula.response or ""
                known = ~np.isnan(records.numbers[response])
                means.setdefault(response, []).extend(_tables_of(run, records.dataset, known))
        counted = tuple(dict.fromkeys((*cliques, *self.cliques)))
        histograms = tuple(dict.fromkeys((*own, *self.histograms)))
        return ReleasedNumbers(counted, histograms, self.sums, means)

    def stored_with(self, run: RunQuestion) -> Clique:
        """Return attributes whose numbers must be read to judge a run: its own, or of earlier means."""
        response = run.question.formula.response or ""
        return tuple(dict.fromkeys((*run.stored, *((response,) if self._summed(run) else ()))))

    def chain(
        self, run: RunQuestion, dataset: Dataset, numbers: Mapping[str, FloatArray], rules: Rules
    ) -> RuleVerdict:
        """Judge the sums that its means and those of earlier answers determine.

        Means of coded numbers count as means of stored numbers: between fine edges they are nearly
        equal.
        """
        related, question = self._summed(run), run.question
        if not related:
            return PASSED
        response = question.formula.response or ""
        sums = [one for one in self.sums if one.of == (response,)]
        of_cards = [sum_groups(one, dataset, self.coding) for one in sums]
        coding = self.coding.attribute(response).coding
        known = np.ones(len(dataset), dtype=bool)
        if coding.missing:
            known = dataset.column(response) != coding.size - 1
        own = list(_tables_of(run, dataset, known))
        others = [one for one in related if one is not run]
        beside = [table for one in others for table in _tables_of(one, dataset, known)]
        return chain_of_sums(own, [*beside, *of_cards], _contributed(run, numbers), rules)

    def _summed(self, run: RunQuestion) -> list[RunQuestion]:
        """Return the run and the earlier runs that disclose sums of its response.

        Empty if neither a run nor a card discloses sums of its stored numbers.
        """
        response = run.question.formula.response
        related = [
            one
            for one in (run, *self.runs)
            if one.question.kind in SUMMED and one.question.formula.response == response
        ]
        of_cards = any(one.of == (response,) for one in self.sums)
        stored = of_cards or any(response in one.stored for one in related)
        return related if run in related and stored else []

    def differs_by_few(self, run: RunQuestion, dataset: Dataset, threshold: int) -> bool:
        """Whether the population is that of an earlier output, or of a natural group, but for a few."""
        conditions = [*group_populations(run.question)]
        conditions += [] if run.where is None else [run.where]
        if any(nearly_natural(one, dataset, threshold) for one in conditions):
            return True
        if self._resembles(run, dataset, threshold):
            return True
        outputs = [output for one in self.runs for output in one.outputs]
        outputs.append(ToldOutput((EVERYBODY,), self.tables))
        domain = self.coding.domain
        for total in self.sums:
            present = total.population(self.coding)
            outputs.append(ToldOutput((EVERYBODY, *not_missing(present, domain)), (total.by,)))
        for one in run.outputs:  # its groups may be a chain by themselves
            if differences(one, outputs, dataset, threshold):
                return True
            outputs.append(one)
        return False

    def _resembles(self, run: RunQuestion, dataset: Dataset, threshold: int) -> bool:
        """Whether other conditions chose the population of a run, refused or not, but for a few records.

        A difference of no record is too small as well, unless the conditions are equal: otherwise an
        answer would disclose that no record lies between the conditions, and a refusal that one does. A
        refused population does not block populations that fewer attributes choose: so near to one of
        them it was refused whatever the records are, and otherwise one run could block all records for
        ever.
        """
        if threshold <= 1:
            return False
        own, names = run.population.kept(dataset), {*run.population.attributes}
        refused = (one for one in self.refused if not names < {*one.attributes})
        for other in (*(one.population for one in self.runs), *refused):
            few = int(np.count_nonzero(own ^ other.kept(dataset)))
            if few < threshold and (few > 0 or other.chosen != run.population.chosen):
                return True
        return False

    def leaves_too_little(self, run: RunQuestion, dataset: Dataset, rules: Rules) -> SearchOutcome:
        """Return whether the answer, together with earlier outputs, would determine a small count.

        The lattice of all attributes of the run is judged whole, with the facts that other outputs
        disclose about these attributes and as many more as fit. A lattice that is too large is not
        decided.
        """
        about = run.output.attributes
        cliques = (about.union(clique) for clique in (*run.question.cliques, *run.output.cliques))
        # exact statistics that determine the answer leave nothing new to disclose
        if all(any(one <= {*clique} for clique in self.cliques) for one in cliques):
            return SearchOutcome.OPEN
        whole = _Scope(self, run, run.level_attributes, run.output.attributes)
        if not whole.attributes:  # numbers of all records disclose no level's count
            return SearchOutcome.OPEN
        outcome = SearchOutcome.UNDECIDED if whole.size > MOST_CELLS else SearchOutcome.OPEN
        judged = list[_Scope]()
        for scope in self._scopes(whole):
            # a scope that was judged tells apart all levels that this one does
            if any(scope.attributes <= one.attributes and scope.valued <= one.valued for one in judged):
                continue
            judged.append(scope)
            outcome = max(outcome, self._tells(run, scope, dataset, rules))
            if outcome is SearchOutcome.DISCLOSED:
                break
        return outcome

    def _tells(self, run: RunQuestion, scope: _Scope, dataset: Dataset, rules: Rules) -> SearchOutcome:
        merging, domain = scope.merged, self.coding.domain
        attributes = domain.canonical(scope.attributes)
        exact = [clique for clique in self.cliques if scope.attributes.issuperset(clique)]
        lattice = Lattice.of(
            merging.dataset(dataset.project(attributes)),
            attributes,
            rules.checks,
            [merging.zeros(one, domain) for one in impossible(self.coding, domain.project(attributes))],
            exact,
            merging.classes,
        )
        if not lattice.small:
            return SearchOutcome.OPEN
        told_apart = lattice.told_apart
        parts = [
            facts.counted(exact, lattice),
            *(
                facts.rounded(one.clique, one.checks, lattice)
                for one in self.rounded
                if told_apart.issuperset(one.clique)
            ),
            *(_facts(one, merging, lattice, rules) for one in scope.runs),
        ]
        before = CountFacts.together(parts, len(lattice.changing))
        return tells_small_counts(_facts(run, merging, lattice, rules), before, lattice)

    def _scopes(self, whole: _Scope) -> Iterator[_Scope]:
        """Yield scopes around the run, then around its tables and outputs that did not fit before."""
        run = whole.run
        if whole.size <= MOST_WHOLE:  # in whole records, also where more outputs make it wide
            yield whole
        if whole.size <= MOST_CELLS:
            yield from self._around(whole)
        response = run.level_attributes.intersection(run.question.formula.attributes[:1])
        cliques = {response.union(clique) for clique in run.output.cliques}
        for scope in (replace(whole, valued=clique) for clique in cliques):
            if scope.attributes != whole.attributes and scope.size <= MOST_CELLS:
                yield from self._around(scope)

    def _around(self, scope: _Scope) -> Iterator[_Scope]:
        """Yield scopes that contain this scope; the first ones cover each related output, if that fits.

        Scopes that add the fewest cells come first, so that many wide scopes displace no narrow scope.
        """
        outputs: list[RunQuestion | Clique] = [*self.runs, *self.tables]
        attributes = [
            (one.level_attributes, one.output.attributes)
            if isinstance(one, RunQuestion)
            else (frozenset(one), frozenset[str]())
            for one in outputs
        ]
        own = self._with_sources(scope.attributes)
        pairs = [
            pair for pair in dict.fromkeys(attributes) if own & self._with_sources(pair[0] | pair[1])
        ]
        related = sorted(pairs, key=lambda pair: scope.with_(*pair).size)
        joined = list[_Scope]()
        for pair in related:
            wider = scope.with_(*pair)
            if wider.size <= MOST_CELLS and not any(
                wider.attributes <= one.attributes for one in joined
            ):
                joined.append(self._grown(wider if joined else scope, related))
            if len(joined) == _MOST_SCOPES:
                break
        yield from joined or [scope]

    @staticmethod
    def _grown(scope: _Scope, related: Sequence[_Attributes]) -> _Scope:
        """Return the scope with attributes of other outputs, fewest additional cells first."""
        while wider := [
            one
            for one in (scope.with_(*pair) for pair in related)
            if one.attributes != scope.attributes and one.size <= MOST_CELLS
        ]:
            scope = min(wider, key=lambda one: (one.size, sorted(one.attributes)))
        return scope

    def _with_sources(self, attributes: frozenset[str]) -> frozenset[str]:
        """Return attributes together with the sources of derived ones."""
        derivations = (self.coding.attribute(name).derivation for name in attributes)
        return attributes.union(*(how.sources for how in derivations if how is not None))


def _contributed(run: RunQuestion, numbers: Mapping[str, FloatArray]) -> FloatArray | None:
    """Return the magnitude of each record's part of sums of a run's response; None if it is not read.

    For a run by levels, the numbers themselves are used, because its means count as means of numbers.
    """
    one, response = run.question, run.question.formula.response or ""
    values = numbers.get(response)
    column = one.summed_response
    if values is None or column is None:
        coding = one.coding.attribute(response).coding
        return None if values is None else np.abs(values - origin_of(coding))
    return contributed(one, column.at({}, record_numbers(run.used, numbers)))


def _tables_of(run: RunQuestion, dataset: Dataset, known: Kept) -> Iterator[IntArray]:
    """Yield each record's group in each table whose sums an answer determines; -1 outside all groups."""
    known = known & run.is_complete(dataset)
    for output in run.outputs:
        kept = output.kept(dataset) & known
        for clique in output.cliques:
            cells, _ = cell_numbers(dataset, clique)
            table = np.full(len(dataset), -1, dtype=np.int64)
            table[kept] = np.unique(cells[kept], return_inverse=True)[1]
            yield table


@dataclass(frozen=True)
class _Scope:
    """Attributes that are judged together.

    Args:
        valued: Attributes whose levels are told apart.
        tested: Attributes by which populations are chosen.
    """

    earlier: Earlier
    run: RunQuestion
    valued: frozenset[str]
    tested: frozenset[str]

    def with_(self, valued: frozenset[str], tested: frozenset[str]) -> _Scope:
        """Return the scope with more attributes."""
        return replace(self, valued=self.valued | valued, tested=self.tested | tested)

    @property
    def attributes(self) -> frozenset[str]:
        return self.valued | self.tested

    @cached_property
    def runs(self) -> list[RunQuestion]:
        """The earlier runs whose populations are chosen by these attributes."""
        return [one for one in self.earlier.runs if one.output.attributes <= self.attributes]

    @cached_property
    def merged(self) -> Merged:
        """Merged levels that no population tells apart, of the attributes that are not valued."""
        tests = [test for one in (self.run, *self.runs) for test in one.output.tests]
        return Merged.by(tests, self.tested - self.valued, self.earlier.coding.domain)

    @cached_property
    def size(self) -> int:
        domain = self.merged.domain(self.earlier.coding.domain)
        return lattice_size(domain, tuple(self.attributes))


def _facts(run: RunQuestion, merged: Merged, lattice: Lattice, rules: Rules) -> CountFacts:
    tests = tuple(map(merged.condition, run.output.tests))
    mask = replace(run.output, tests=tests).kept(lattice.cells)
    margins = RecordMargins.of(lattice.cells, (lattice.counts * mask).astype(np.float64))
    question = run.question
    if not run.stored and lattice.told_apart.issuperset(question.formula.attributes):
        with suppress(GencardError):  # it has no answer at these records
            question = run.at(margins)
    return facts.facts_of_answer(question, mask, margins, lattice, rules)
