"""The question of a run, read by the schema alone: by the service before it is paid, and by the job."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.answers import design
from gencard.core.answers.design import observed_levels
from gencard.core.answers.margins import Margins, Occupied, RecordMargins
from gencard.core.answers.stored import check_coded, wants_stored
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import GencardError, LackingMarginalsError
from gencard.core.output_checks.groups import group_cliques, group_populations
from gencard.core.output_checks.judgement import output_cliques
from gencard.core.output_checks.populations import EVERYBODY, Condition, Kept, ToldOutput, not_missing
from gencard.core.output_checks.rules import OF_PRESENT
from gencard.core.statistics.formula import analysis_of
from gencard.core.types import FloatArray
from gencard.formulas.answering import read_question
from gencard.formulas.conditions import read_condition
from gencard.formulas.design import Values
from gencard.formulas.formulas import read_formula
from gencard.formulas.run_functions import check_functions, grouping_of
from gencard.wire.documents.answer_document import Question, values_refused


@dataclass(frozen=True, slots=True, eq=False)
class Limited:
    """Margins of which some cliques may be asked for and nothing else.

    An answer is judged by the marginals that its question needs. Limited to these, it cannot use what
    nobody judged, such as a classifier's accuracy, which takes all attributes together.
    """

    whole: Margins
    cliques: tuple[Clique, ...]

    @property
    def domain(self) -> Domain:
        return self.whole.domain

    def counts(self, clique: Clique) -> FloatArray:
        return self.whole.counts(self._allowed(clique))

    def variances(self, clique: Clique) -> FloatArray:
        return self.whole.variances(self._allowed(clique))

    def occupied(self, clique: Clique) -> Occupied:
        return self.whole.occupied(self._allowed(clique))

    def source(self, clique: Clique) -> Clique:
        return self.whole.source(self._allowed(clique))

    def _allowed(self, clique: Clique) -> Clique:
        if not any({*clique} <= {*wide} for wide in self.cliques):
            raise LackingMarginalsError.of([clique])
        return clique


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Which records a run is about, read by the schema alone.

    Args:
        where: Which records were asked for; None for all.
        tests: All tests that a record has to pass; ``where`` is among them.
    """

    where: Condition | None
    tests: tuple[Condition, ...]

    @classmethod
    def of(cls, question: Question, coding: Coding, rules: str = "") -> "Population":
        """The population of a question; raises as ``read_formula`` and ``read_condition`` do.

        Args:
            rules: Version of the output rules under which a run of the question ended.
        """
        values, of_present = _options(question).get("values"), rules in OF_PRESENT
        where = (
            _condition(question.where, coding, values, of_present=of_present) if question.where else None
        )
        conditions = [] if where is None else [where]
        if question.missing == "drop":
            names = read_formula(question.formula, coding).attributes
            with_missing = [name for name in names if coding.attribute(name).coding.missing]
            conditions += not_missing(with_missing, coding.domain)
        return cls(where, (EVERYBODY, *conditions))

    def kept(self, dataset: Dataset) -> Kept:
        """The records that the run is about."""
        return ToldOutput(self.tests, ()).kept(dataset)

    @property
    def attributes(self) -> Clique:
        """All that says who is in."""
        return tuple(dict.fromkeys(name for test in self.tests for name in test.attributes))

    @property
    def chosen(self) -> tuple[Clique, bytes]:
        """The condition in one form, whatever the text that it was read from."""
        one = self.where or EVERYBODY
        cells: NDArray[np.bool_] = one.cells
        names = one.attributes
        for axis in reversed(range(cells.ndim)):
            if np.all(cells == cells.take([0], axis=axis)):  # this attribute decides nothing
                cells = np.asarray(cells.take(0, axis=axis))
                names = (*names[:axis], *names[axis + 1 :])
        order = sorted(range(len(names)), key=names.__getitem__)
        return tuple(names[axis] for axis in order), np.transpose(cells, order).tobytes()


@dataclass(frozen=True, slots=True)
class RunQuestion:
    """One run, as a job or the state describes it, read by the schema alone.

    Args:
        values: Numbers of levels that the analyst gave, which runs of before could; None for none.
        population: Which records it is about.
        output: The same records, and which of their marginals it tells.
        possible: The levels of each attribute of the formula that the population leaves.
        stored: The response, where its stored numbers are asked for.
    """

    question: design.Question
    values: Values | None
    population: Population
    output: ToldOutput
    possible: Mapping[str, NDArray[np.bool_]]
    stored: Clique = ()

    @classmethod
    def of(cls, question: Question, coding: Coding, rules: str = "") -> "RunQuestion":
        """Read a run, of today or of before; raises as ``read_question`` and ``read_condition`` do.

        Args:
            rules: See ``Population.of``.
        """
        options = _options(question)
        values = options.pop("values", None)
        kind, text = analysis_of(question.kind), question.formula
        own_options = {name: _hashable(value) for name, value in options.items()}
        names = read_formula(text, coding).attributes
        population = Population.of(question, coding, rules)
        possible = {name: _possible(name, population.tests, coding.domain) for name in names}
        read = read_question(text, kind, coding, values=values, observed=possible, options=own_options)
        read = replace(read, grouping=grouping_of(text, coding, possible))
        output = ToldOutput(population.tests, output_cliques(read, possible))
        stored_names = (read.formula.response or "",) if wants_stored(read) else ()
        return cls(read, values, population, output, possible, stored_names)

    @property
    def where(self) -> Condition | None:
        """Which records were asked for; None for all."""
        return self.population.where

    @property
    def conditions(self) -> list[tuple[Clique, NDArray[np.bool_]]]:
        """The tests of its population, each as attributes and the cells of them that are in."""
        return [(one.attributes, one.cells) for one in self.population.tests]

    @classmethod
    def new(cls, question: Question, coding: Coding) -> "RunQuestion":
        """Read a run that is asked for now; raises as ``of`` and ``check_new`` do."""
        if "values" in _options(question):
            raise values_refused()
        run_question = cls.of(question, coding)
        run_question.check_new()
        return run_question

    def check_new(self) -> None:
        """Refuse what runs of before could hold, and a run that is asked for now cannot.

        Raises:
            InvalidInputError: The analyst gave numbers to levels.
            InvalidFormulaError: The formula has a function that runs do not take.
        """
        if self.values is not None:
            raise values_refused()
        one = self.question
        check_functions(one.text, one.kind, one.coding, self.possible)

    def check_noise(self, *, noisy: bool) -> None:
        """Raises InvalidInputError where a run with noise is asked for stored numbers."""
        if noisy:
            check_coded(self.question.options)

    def at(self, margins: RecordMargins) -> design.Question:
        """The question with columns for the levels alone that somebody has."""
        return self._with(observed_levels(margins, self.question.formula.attributes))

    def _with(self, observed: Mapping[str, NDArray[np.bool_]]) -> design.Question:
        one = self.question
        question = read_question(
            one.text, one.kind, one.coding, values=self.values, observed=observed, options=one.options
        )
        return replace(question, grouping=one.grouping)

    def lacks_levels(self, everybody: Dataset, part: Dataset) -> bool:
        """Whether the answer, which lists levels, would say that nobody asked for has one of them.

        Args:
            everybody: The records; ``part`` those of the population.
        """
        names = self.question.formula.attributes
        levels = observed_levels(RecordMargins.of(everybody), names)
        expected = {name: levels[name] & self.possible[name] for name in names}
        observed = observed_levels(RecordMargins.of(part), names)
        output_names = {name for clique in self.output.cliques for name in clique}
        if any(np.any(expected[name] & ~observed[name]) for name in output_names.intersection(names)):
            return True
        try:
            one, other = self._with(expected).design, self._with(observed).design
        except GencardError:  # such as the base of a contrast, or a level in levels=[...]
            return True
        return one is not None and other is not None and one.names != other.names

    @property
    def attributes(self) -> frozenset[str]:
        """All that the run looks at together, in the formula and in the condition."""
        return frozenset((*self.question.formula.attributes, *self.output.attributes))

    @property
    def widest(self) -> int:
        """Most attributes of a table whose cells the answer tells, with those that say who is in."""
        attributes = () if self.where is None else self.where.attributes
        cliques = (*self.output.cliques, *group_cliques(self.question))
        return max((len({*clique, *attributes}) for clique in cliques), default=0)

    @property
    def outputs(self) -> tuple[ToldOutput, ...]:
        """The output, and that of each group which a function of the formula makes."""
        groups = group_populations(self.question)
        parts = (replace(self.output, tests=(*self.output.tests, one)) for one in groups)
        return (self.output, *parts)


def _options(question: Question) -> dict[str, Any]:
    options: dict[str, Any] = json.loads(question.options or "{}")
    return options


def _condition(text: str, coding: Coding, values: Values | None, *, of_present: bool) -> Condition:
    attributes, mask = read_condition(text, coding, values, of_present=of_present)
    return Condition(attributes, mask)


def _possible(name: str, conditions: Sequence[Condition], domain: Domain) -> NDArray[np.bool_]:
    """The levels that a population leaves."""
    possible = np.ones(domain.size(name), dtype=bool)
    for one in conditions:
        if name in one.attributes:
            axis = one.attributes.index(name)
            others = tuple(other for other in range(one.cells.ndim) if other != axis)
            possible &= one.cells.any(axis=others)
    return possible


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
