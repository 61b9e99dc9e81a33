"""The kinds of analysis: what answers each one, and what it needs; one file a family."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from gencard.core.answers.answer import EXACT, Answer
from gencard.core.answers.design import Question
from gencard.core.answers.likelihood import logistic_answer, multinomial_answer, poisson_answer
from gencard.core.answers.linear import linear_answer
from gencard.core.answers.loglinear import loglinear_answer
from gencard.core.answers.margins import Margins, check_determined
from gencard.core.answers.ordinal import ordinal_answer
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.statistics.formula import Analysis


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of analysis is answered.

    Args:
        family: What people call it together with its like.
        answer: From margins that determine the question's cliques.
        has_design: Whether it needs a model matrix.
    """

    family: str
    answer: Callable[[Margins, Question], Answer]
    has_design: bool = True


KINDS: Mapping[Analysis, Kind] = {
    Analysis.LINEAR: Kind("regression", linear_answer),
    Analysis.LOGISTIC: Kind("regression", logistic_answer),
    Analysis.MULTINOMIAL: Kind("regression", multinomial_answer),
    Analysis.ORDINAL: Kind("regression", ordinal_answer),
    Analysis.POISSON: Kind("regression", poisson_answer),
    Analysis.LOGLINEAR: Kind("log-linear model", loglinear_answer),
}


def kind_of(analysis: Analysis) -> Kind:
    """Raises InvalidInputError where nothing answers such an analysis."""
    if analysis not in KINDS:
        raise InvalidInputError(field="kind", problem=f"must be one of {', '.join(sorted(KINDS))}")
    return KINDS[analysis]


def answered(question: Question, margins: Margins) -> Answer:
    """The answer to a question.

    Raises:
        LackingMarginalsError: The margins do not determine it; names all that are lacking.
        NoEstimateError: The model has no estimate.
        NotConvergedError: The fit did not converge.
        InvalidInputError: The question does not fit the kind of analysis.
        TooLargeError: A table would have too many cells.
    """
    cliques = question.cliques
    check_determined(margins, cliques)
    answer = kind_of(question.kind).answer(margins, question)
    sources = tuple(dict.fromkeys(margins.source(clique) for clique in cliques))
    return replace(answer, rests_on=sources, noise=_noise(margins, cliques))


def _noise(margins: Margins, cliques: Iterable[Clique]) -> str:
    """What noise the counts of some cliques have."""
    stddevs = [float(margins.variances(clique).max(initial=0.0)) ** 0.5 for clique in cliques]
    if not any(stddevs):
        return EXACT
    low, high = min(stddevs), max(stddevs)
    spread = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    return f"noise of standard deviation {spread} on each count"
