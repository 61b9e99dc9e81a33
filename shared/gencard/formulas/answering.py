"""From a formula to its answer: for the analyst from psi, for the controller from records."""

from collections.abc import Mapping

import numpy as np

from gencard.core.answers.answer import Answer
from gencard.core.answers.design import Option, Question, observed_levels
from gencard.core.answers.kinds import answered, kind_of, plain_answer
from gencard.core.answers.margins import Margins, Mask, check_determined, within
from gencard.core.answers.noise.bootstrap import Bootstrap, bootstrapped
from gencard.core.answers.noise.reconciled import noisy_whole, wider_clique
from gencard.core.answers.stored import check_coded
from gencard.core.coding import Coding
from gencard.core.errors import InvalidInputError
from gencard.core.statistics.formula import Analysis, Formula, sufficient_cliques
from gencard.formulas.conditions import read_condition
from gencard.formulas.design import Values, numbers_of, read_design
from gencard.formulas.formulas import read_formula
from gencard.formulas.transformed import transformed_numbers

MISSING_CHOICES = ("level", "drop")
"""What is done with missing values: a level of its own, or their records are left out."""


def answer_of(  # noqa: PLR0913 - what a person may want to say of one question
    text: str,
    kind: Analysis,
    margins: Margins,
    coding: Coding,
    *,
    values: Values | None = None,
    where: str = "",
    missing: str = "level",
    options: Mapping[str, Option] | None = None,
    bootstrap: Bootstrap | None = None,
) -> Answer:
    """The answer to a formula.

    Args:
        text: The formula.
        kind: The analysis.
        margins: The counts.
        coding: The schema.
        values: Numbers of levels; see ``numbers_of``.
        where: Which records, such as ``region == 'North' and age < 40``; "" for all.
        missing: "level", or "drop" to leave out records with a missing value in the formula.
        options: What else the kind of analysis takes.
        bootstrap: Gives each number an interval by bootstrap; where the margins have noise, only.

    Raises:
        LackingMarginalsError: The margins do not determine the answer; names all that are lacking.
        InvalidFormulaError, InvalidInputError, UnknownAttributeError, TooLargeError: What is wrong
            with the question.
        NoEstimateError, NotConvergedError: The model has no estimate.
        NoiseDrownsError: The margins have noise, and too much of it.
    """
    formula = read_formula(text, coding)
    cliques = sufficient_cliques(formula, kind, coding.domain)
    kind_of(kind, options or ())
    check_coded(options or {})
    part = _part(margins, formula, coding, values, where, missing)
    check_determined(part, cliques)
    named = coding.domain.covered_by(cliques).attributes
    question = read_question(
        text, kind, coding, values=values, observed=observed_levels(part, named), options=options
    )
    if bootstrap is None:
        return answered(question, part)
    whole = noisy_whole(margins)
    if whole is None:
        raise InvalidInputError(field="bootstrap", problem="is for counts with noise; these are exact")

    def analysis(drawn: Margins) -> Answer:
        return plain_answer(question, _part(drawn, formula, coding, values, where, missing))

    wider = tuple(coding.domain.canonical(wider_clique(part, clique)) for clique in cliques)
    return bootstrapped(analysis, whole, wider, bootstrap)


def read_question(
    text: str,
    kind: Analysis,
    coding: Coding,
    *,
    values: Values | None = None,
    observed: Mapping[str, Mask] | None = None,
    options: Mapping[str, Option] | None = None,
) -> Question:
    """A question, checked against the schema alone unless ``observed`` says which levels there are.

    Raises:
        InvalidFormulaError, InvalidInputError, UnknownAttributeError, TooLargeError: What is wrong.
    """
    formula, how, chosen = read_formula(text, coding), kind_of(kind, options or ()), dict(options or {})
    if not how.has_design:
        numbers = transformed_numbers(text, how, coding, values)
        return Question(kind, text, formula, coding, numbers, options=chosen)
    design = read_design(text, coding, values=values, observed=observed)
    return Question(kind, text, formula, coding, numbers_of(coding, values), design, chosen)


def _part(
    margins: Margins, formula: Formula, coding: Coding, values: Values | None, where: str, missing: str
) -> Margins:
    """The margins of the records that are asked for."""
    if missing not in MISSING_CHOICES:
        problem = f"must be one of {', '.join(MISSING_CHOICES)}"
        raise InvalidInputError(field="missing", problem=problem)
    part = margins
    if where:
        part = within(part, *read_condition(where, coding, values))
    if missing == "drop":
        response = () if formula.response is None else (formula.response,)
        for name in dict.fromkeys((*response, *(name for term in formula.terms for name in term))):
            one = coding.attribute(name).coding
            if one.missing:
                part = within(part, (name,), np.arange(one.size) != one.size - 1)
    return part
