"""The kinds of analysis: what answers each one, and what it needs; one file a family."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from gencard.analysis.answers.answer import EXACT, AnalysisAnswer
from gencard.analysis.answers.design import CheckedQuestion
from gencard.analysis.answers.families.anova import anova_answer
from gencard.analysis.answers.families.bayes import chow_liu_answer, naive_bayes_answer
from gencard.analysis.answers.families.comparisons import means_answer, quantiles_answer, ttest_answer
from gencard.analysis.answers.families.components import components_answer, correspondence_answer
from gencard.analysis.answers.families.correlations import correlation_answer, polychoric_answer
from gencard.analysis.answers.families.crosstab import crosstab_answer
from gencard.analysis.answers.families.discriminant import discriminant_answer
from gencard.analysis.answers.likelihood import logistic_answer, multinomial_answer, poisson_answer
from gencard.analysis.answers.linear import linear_answer
from gencard.analysis.answers.loglinear import loglinear_answer
from gencard.analysis.answers.margins import Margins, check_determined, summed
from gencard.analysis.answers.noise.estimating import Equations
from gencard.analysis.answers.noise.intervals import Tests, with_noise
from gencard.analysis.answers.noise.models import (
    f_with_noise,
    linear_noise,
    logistic_noise,
    loglinear_noise,
    multinomial_noise,
    poisson_noise,
    t_with_noise,
)
from gencard.analysis.answers.noise.reconciled import is_noisy
from gencard.analysis.answers.ordinal import ordinal_answer
from gencard.analysis.answers.survival import cox_answer, kaplan_meier_answer
from gencard.core.errors import InvalidInputError
from gencard.core.statistics.formula import Analysis


@dataclass(frozen=True, slots=True)
class AnalysisKind:
    """Functions and needs of one kind of analysis.

    Args:
        family: Name of the group of analyses that this kind belongs to, for people.
        answer: From margins that determine the question's cliques.
        has_design: Whether it needs a model matrix.
        options: Names of the options that the analysis takes beside the formula.
        numbers: Sides of the formula, "response" and "terms", whose levels it takes as numbers, where it
            has no model matrix.
        equations: What the coefficients solve, so that their intervals know the noise; None where the
            answer is a smooth function of a few tables.
        tests: Makes tests again that are not functions of the coefficients alone, with the noise.
    """

    family: str
    answer: Callable[[Margins, CheckedQuestion], AnalysisAnswer]
    has_design: bool = True
    options: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    equations: Callable[[Margins, CheckedQuestion, AnalysisAnswer], Equations] | None = None
    tests: Tests | None = None


_RESPONSE = ("response",)
_BOTH = ("response", "terms")

KINDS: Mapping[Analysis, AnalysisKind] = {
    Analysis.LINEAR: AnalysisKind(
        "regression", linear_answer, options=("response",), equations=linear_noise
    ),
    Analysis.LOGISTIC: AnalysisKind("regression", logistic_answer, equations=logistic_noise),
    Analysis.MULTINOMIAL: AnalysisKind("regression", multinomial_answer, equations=multinomial_noise),
    Analysis.ORDINAL: AnalysisKind("regression", ordinal_answer),
    Analysis.POISSON: AnalysisKind("regression", poisson_answer, equations=poisson_noise),
    Analysis.LOGLINEAR: AnalysisKind("log-linear model", loglinear_answer, equations=loglinear_noise),
    Analysis.CROSSTAB: AnalysisKind("tables", crosstab_answer, False, ("alpha",)),
    Analysis.MEANS: AnalysisKind("groups", means_answer, False, ("alpha", "response"), _RESPONSE),
    Analysis.QUANTILES: AnalysisKind("groups", quantiles_answer, False, ("q", "response"), _RESPONSE),
    Analysis.TTEST: AnalysisKind(
        "groups",
        ttest_answer,
        False,
        ("test", "value", "alpha", "response"),
        _RESPONSE,
        tests=t_with_noise,
    ),
    Analysis.ANOVA: AnalysisKind(
        "groups",
        anova_answer,
        False,
        ("test", "typ", "alpha", "response"),
        _RESPONSE,
        tests=f_with_noise,
    ),
    Analysis.CORRELATION: AnalysisKind(
        "association", correlation_answer, False, ("method", "alpha", "response"), _BOTH
    ),
    Analysis.POLYCHORIC: AnalysisKind("association", polychoric_answer, False, (), _BOTH),
    Analysis.COMPONENTS: AnalysisKind(
        "components", components_answer, False, ("matrix", "components"), _BOTH
    ),
    Analysis.CORRESPONDENCE: AnalysisKind("components", correspondence_answer, False, ("components",)),
    Analysis.NAIVE_BAYES: AnalysisKind("classifiers", naive_bayes_answer, False, ("smoothing",)),
    Analysis.CHOW_LIU: AnalysisKind("classifiers", chow_liu_answer, False),
    Analysis.DISCRIMINANT: AnalysisKind("classifiers", discriminant_answer, False, (), ("terms",)),
    Analysis.KAPLAN_MEIER: AnalysisKind("survival", kaplan_meier_answer, False, (), _RESPONSE),
    Analysis.COX: AnalysisKind("survival", cox_answer),
}


def kind_of(analysis: Analysis, options: Iterable[str] = ()) -> AnalysisKind:
    """Return how an analysis is answered.

    Args:
        options: Names of what it is told beside the formula.

    Raises:
        InvalidInputError: Nothing answers such an analysis, or it has no such option.
    """
    if analysis not in KINDS:
        raise InvalidInputError(field="kind", problem=f"must be one of {', '.join(sorted(KINDS))}")
    kind = KINDS[analysis]
    if unknown := sorted(set(options) - set(kind.options)):
        choices = f"its options are {', '.join(kind.options)}" if kind.options else "it has no options"
        raise InvalidInputError(
            field="options", problem=f"'{analysis}' has no option '{unknown[0]}'; {choices}"
        )
    return kind


def plain_answer(question: CheckedQuestion, margins: Margins) -> AnalysisAnswer:
    """The answer where counts are taken as they are, noise or not; raises as ``answered``."""
    return _resting(kind_of(question.kind).answer(margins, question), question, margins)


def answered(question: CheckedQuestion, margins: Margins) -> AnalysisAnswer:
    """The answer to a question.

    Raises:
        LackingMarginalsError: The margins do not determine it; names all that are lacking.
        NoEstimateError: The model has no estimate.
        NotConvergedError: The fit did not converge.
        NoiseDrownsError: The margins have noise, and too much of it.
        InvalidInputError: The question does not fit the kind of analysis.
        TooLargeError: A table would have too many cells.
    """
    check_determined(margins, question.cliques)
    if not is_noisy(margins):
        return plain_answer(question, margins)
    kind = kind_of(question.kind)
    answer = with_noise(kind.answer, kind.equations, kind.tests, question, margins)
    return _resting(answer, question, margins)


def _resting(answer: AnalysisAnswer, question: CheckedQuestion, margins: Margins) -> AnalysisAnswer:
    sources = tuple(dict.fromkeys(margins.source(clique) for clique in question.cliques))
    sums = tuple(str(one) for one in question.sums)
    notes = (*question.notes, *answer.notes)
    return replace(answer, rests_on=sources, sums=sums, noise=_noise(margins, question), notes=notes)


def _noise(margins: Margins, question: CheckedQuestion) -> str:
    """Describe the noise on the counts and sums of a question."""
    variances = [margins.variances(clique) for clique in question.cliques]
    stddevs = [float(one.max(initial=0.0)) ** 0.5 for one in variances]
    if question.sums:
        whole = summed(margins)
        sums = [whole.sum_variances(one.of, one.by, one.present) for one in question.sums]
        if any(one.any() for one in sums):
            counts = [summed(margins).sum_variances((), one.by, one.present) for one in question.sums]
            stddevs += [float(one.max(initial=0.0)) ** 0.5 for one in counts]
            return f"{_spread(stddevs)}, and noise on each sum"
    return _spread(stddevs) if any(stddevs) else EXACT


def _spread(stddevs: list[float]) -> str:
    low, high = min(stddevs), max(stddevs)
    spread = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    return f"noise of standard deviation {spread} on each count"
