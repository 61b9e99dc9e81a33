"""The question of a run, read by the schema alone: by the service before it is paid, and by the job."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.analysis.answers import design
from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.analysis.answers.design import observed_levels
from gencard.analysis.answers.kinds import (
    STORED,
    STORED_KINDS,
    StoredRecords,
    check_coded,
    wants_stored,
    wants_stored_quantiles,
)
from gencard.analysis.answers.margins import Margins, Occupied, RecordMargins
from gencard.analysis.answers.noisy_margins import margins_of
from gencard.analysis.formulas.answering import answer_of, read_question
from gencard.analysis.formulas.formulas import read_factors, read_formula
from gencard.analysis.formulas.model_matrix import Values, read_condition
from gencard.analysis.formulas.numbers import (
    Needs,
    NumbersUsed,
    cells_at_records,
    is_wide,
    made_scales,
    numbers_at_records,
    record_numbers,
)
from gencard.analysis.formulas.run_functions import check_functions, grouping_of, number_factors
from gencard.analysis.formulas.summing import AnswerRequest
from gencard.analysis.output_checks.differencing import (
    EVERYBODY,
    Condition,
    Kept,
    ToldOutput,
    not_missing,
)
from gencard.analysis.output_checks.judgement import group_cliques, group_populations, output_cliques
from gencard.core.coding import Coding, Edges
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import GencardError, LackingMarginalsError, LevelsTooWideError
from gencard.core.policy import OF_LEVELS, OF_PRESENT, RULES_VERSION
from gencard.core.statistics.formula import SUMMED_TERMS, Analysis, analysis_of, written_name
from gencard.core.statistics.psi import Psi
from gencard.core.types import FloatArray
from gencard.wire.documents import Question, values_refused


@dataclass(frozen=True, slots=True, eq=False)
class Limited:
    """Margins of which some cliques may be asked for and nothing else.

    An answer is judged by the marginals that its question needs. Limited to these, it cannot use a
    number that was not judged, such as a classifier's accuracy, which takes all attributes together.
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
    """Records that a run is about, read by the schema alone.

    Args:
        where: Condition of the requested records; None for all records.
        tests: All tests that a record has to pass; ``where`` is among them.
    """

    where: Condition | None
    tests: tuple[Condition, ...]

    @classmethod
    def of(cls, question: Question, coding: Coding, rules: str = "") -> "Population":
        """Return the population of a question; raises as ``read_formula`` and ``read_condition`` do.

        Args:
            rules: Version of the output rules under which a run of the question ended.
        """
        values, of_present = _options(question).get("values"), rules in OF_PRESENT
        where = None
        if question.where:
            where = Condition(*read_condition(question.where, coding, values, of_present=of_present))
        conditions = [] if where is None else [where]
        if question.missing == "drop":
            names = read_formula(question.formula, coding).attributes
            with_missing = [name for name in names if coding.attribute(name).coding.missing]
            conditions += not_missing(with_missing, coding.domain)
        return cls(where, (EVERYBODY, *conditions))

    def kept(self, dataset: Dataset) -> Kept:
        """Return the records that the run is about."""
        return ToldOutput(self.tests, ()).kept(dataset)

    @property
    def attributes(self) -> Clique:
        """Attributes that decide which records are in the population."""
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
        output: The population, and which of its marginals the run tells.
        possible: The levels of each attribute of the formula that the population leaves.
        used: Numbers that count as the records have them.
        stored: Attributes whose numbers must be read.
        complete: Attributes without whose value a record is left out.
        by_policy: The policy keeps it to levels, though the schema declares steps.
    """

    question: design.CheckedQuestion
    values: Values | None
    population: Population
    output: ToldOutput
    possible: Mapping[str, NDArray[np.bool_]]
    used: NumbersUsed
    stored: Clique = ()
    complete: Clique = ()
    by_policy: bool = False

    @classmethod
    def of(
        cls, question: Question, coding: Coding, rules: str = "", *, permitted: bool = True
    ) -> "RunQuestion":
        """Read a run, of today or of before; raises as ``read_question`` and ``read_condition`` do.

        Args:
            rules: See ``Population.of``.
            permitted: Whether the policy permits numbers as the records have them.
        """
        options = _options(question)
        values = options.pop("values", None)
        kind, text = analysis_of(question.kind), question.formula
        written = read_factors(text, coding)
        names = written.formula.attributes
        population = Population.of(question, coding, rules)
        possible = {name: _possible(name, population.tests, coding.domain) for name in names}
        chosen = () if values else _numbers_by_choice(question, coding, options)
        by_policy = bool(chosen) and not permitted and "response" not in options
        used = NumbersUsed()
        if chosen and not by_policy:
            options["response"] = STORED
            if kind is not Analysis.QUANTILES:
                factors = number_factors(text, coding)
                used = numbers_at_records(written, kind, coding, {*chosen}, factors)
                chosen = tuple(sorted(used.attributes))
        stored = () if by_policy else chosen
        in_pairs = stored and kind is Analysis.CORRELATION
        needed = names if in_pairs else stored
        complete = tuple(name for name in needed if coding.attribute(name).coding.missing)
        for one in not_missing(complete, coding.domain):
            possible[one.attributes[0]] &= one.cells
        read = read_question(
            text, kind, coding, values=values, observed=possible, options=options, used=used
        )
        read = replace(read, grouping=grouping_of(text, coding, possible))
        if read.is_summed:
            cells = cells_at_records(written, kind, coding, used)
            scales = made_scales(used, coding, possible)
            read = replace(read, needs=cells, own_scales=scales)
        wants_stored(read)
        output = ToldOutput(population.tests, output_cliques(read, possible))
        return cls(read, values, population, output, possible, used, stored, complete, by_policy)

    @property
    def where(self) -> Condition | None:
        """Records that the question chooses; None for all."""
        return self.population.where

    @property
    def conditions(self) -> list[tuple[Clique, NDArray[np.bool_]]]:
        """The tests of its records, each as attributes and the cells of them that are in."""
        tests = (*self.population.tests, *not_missing(self.complete, self.question.coding.domain))
        return [(one.attributes, one.cells) for one in tests]

    @property
    def level_attributes(self) -> frozenset[str]:
        """The attributes of the formula whose levels the answer may tell apart."""
        names, one = frozenset(self.question.formula.attributes), self.question
        if not (one.is_summed or wants_stored_quantiles(one)):
            return names
        cells = (*self.output.cliques, *(one.cliques if one.is_summed else ()))
        return names - {*self.stored}.difference(*cells)

    @classmethod
    def new(cls, question: Question, coding: Coding, *, permitted: bool = True) -> "RunQuestion":
        """Read a run that is asked for now; raises as ``of`` and ``check_new`` do."""
        if "values" in _options(question):
            raise values_refused()
        run_question = cls.of(question, coding, permitted=permitted)
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
        check_functions(one.text, one.kind, one.coding, self.possible, {*self.stored})

    def at(self, margins: RecordMargins) -> design.CheckedQuestion:
        """Return the question with columns for observed levels alone."""
        return self._with(observed_levels(margins, self.question.formula.attributes))

    def _with(self, observed: Mapping[str, NDArray[np.bool_]]) -> design.CheckedQuestion:
        one = self.question
        about = one.text, one.kind, one.coding
        question = read_question(
            *about, values=self.values, observed=observed, options=one.options, used=self.used
        )
        return replace(question, grouping=one.grouping, needs=one.needs, own_scales=one.own_scales)

    @property
    def by_levels(self) -> design.CheckedQuestion:
        """The same question with a number for each level, on which it can be tried."""
        one = self.question
        options = {name: value for name, value in one.options.items() if name != "response"}
        return read_question(
            one.text, one.kind, one.coding, values=self.values, observed=self.possible, options=options
        )

    def is_complete(self, dataset: Dataset) -> Kept:
        """Return which records have all numbers that the run needs."""
        tests = not_missing(self.complete, dataset.domain)
        return ToldOutput((EVERYBODY, *tests), ()).kept(dataset)

    def records(self, dataset: Dataset, numbers: Mapping[str, FloatArray], kept: Kept) -> StoredRecords:
        """Return the records that are kept, with all numbers that the run uses.

        Args:
            kept: Records without one of the numbers are left out.
        """
        places = np.flatnonzero(kept & self.is_complete(dataset))
        own = {name: numbers[name][places] for name in self.stored}
        if self.question.kind is not Analysis.QUANTILES:
            own = record_numbers(self.used, own)
        return StoredRecords(dataset.take(places), own)

    def lacks_levels(self, everybody: Dataset, part: Dataset) -> bool:
        """Whether the answer, which lists levels, would disclose that the population lacks a level."""
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
        """Largest number of attributes of a table that the answer discloses, with the condition's."""
        attributes = () if self.where is None else self.where.attributes
        cliques = (*self.output.cliques, *group_cliques(self.question))
        return max((len({*clique, *attributes}) for clique in cliques), default=0)

    @property
    def outputs(self) -> tuple[ToldOutput, ...]:
        """The output, and that of each group which a function of the formula makes."""
        groups = group_populations(self.question)
        parts = (replace(self.output, tests=(*self.output.tests, one)) for one in groups)
        return (self.output, *parts)


def means_another(question: Question, coding: Coding, rules: str, *, permitted: bool) -> bool:
    """Whether a run under rules of before was of other records or numbers than it would be now."""
    if question.where and rules in OF_PRESENT:
        now, before = (Population.of(question, coding, one) for one in (RULES_VERSION, rules))
        if now.chosen != before.chosen:
            return True
    options = _options(question)
    if rules not in OF_LEVELS or not permitted or not {"response", "values"}.isdisjoint(options):
        return False
    return bool(_numbers_by_choice(question, coding, options))


@dataclass(frozen=True, slots=True)
class NoisyRun:
    """A run with noise, read by the schema alone.

    Args:
        levels: Levels count as one number each; by choice, or because the policy keeps runs to them.
    """

    text: str
    request: AnswerRequest
    levels: bool
    needs: Needs

    @classmethod
    def of(cls, question: Question, coding: Coding, *, permitted: bool) -> "NoisyRun":
        """Read a run; ``permitted`` as in ``RunQuestion.of``.

        Raises:
            InvalidInputError: Sums do not determine the answer.
            LevelsTooWideError: No sums give the answer, and levels were not asked for.
        """
        options = _options(question)
        check_coded(options)
        chosen = options.pop("response", None)
        written = read_factors(question.formula, coding)
        kind, where = analysis_of(question.kind), question.where
        levels = chosen is not None or not permitted or kind not in STORED_KINDS
        request = AnswerRequest(written, kind, coding, {}, where, question.missing, options)
        try:
            needs = request.needs(rows=False, levels=levels)
            return cls(question.formula, request, levels, needs)
        except LevelsTooWideError as error:
            error.advice = _BY_LEVELS
            raise

    def answered(self, psi: Psi) -> AnalysisAnswer:
        """Return the answer from what was measured; raises as ``answer_of``."""
        one = self.request
        return answer_of(
            self.text,
            one.kind,
            margins_of(psi, one.coding),
            one.coding,
            where=one.where,
            missing=one.missing,
            options=one.options,
            levels=self.levels,
        )


_BY_LEVELS = (
    "Write the response as a linear function of one attribute, with no condition on its levels; or ask "
    'for response="levels", where each level counts as one number.'
)


def _options(question: Question) -> dict[str, Any]:
    options = json.loads(question.options or "{}").items()
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options}


def _possible(name: str, conditions: Sequence[Condition], domain: Domain) -> NDArray[np.bool_]:
    possible = np.ones(domain.size(name), dtype=bool)
    for one in conditions:
        if name in one.attributes:
            axis = one.attributes.index(name)
            others = tuple(other for other in range(one.cells.ndim) if other != axis)
            possible &= one.cells.any(axis=others)
    return possible


def _numbers_by_choice(question: Question, coding: Coding, options: Mapping[str, Any]) -> Clique:
    """Return attributes whose recorded numbers are used, by schema, kind and options."""
    kind, written = analysis_of(question.kind), read_factors(question.formula, coding)
    chosen = options.get("response")
    request = AnswerRequest(written, kind, coding, {}, "", "level", options)
    if kind not in STORED_KINDS or chosen not in (None, STORED) or request.of_ranks:
        return ()
    names = written.formula.attributes
    if kind not in SUMMED_TERMS:
        names = names[:1] if written.response else ()
    whole = written.response is not None and written.response == written_name(names[0])
    if kind is Analysis.QUANTILES and not whole:
        return ()
    cut = request.cut()
    usable = [one for one in names if is_wide(coding, one)]
    if chosen is not None:  # also numbers without a step
        usable = [one for one in names if isinstance(coding.attribute(one).coding, Edges)]
    return tuple(one for one in usable if one not in cut)
