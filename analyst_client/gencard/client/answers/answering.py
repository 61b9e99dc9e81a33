"""From a question to its answer, by the psi of a card, or of a saved release without a connection."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from gencard.client.answers.answer import Answer
from gencard.client.arguments import checked, level_values, text
from gencard.client.checking.bundle import Bundle, Keys, checked_schema, receipt_in, signed_card
from gencard.client.checking.replay import check_psi
from gencard.client.checking.signing import card_of_statement
from gencard.client.connection.connection import progress_bar
from gencard.client.connection.credentials import Credentials
from gencard.core.answers.noise.bootstrap import Bootstrap
from gencard.core.answers.noise.reconciled import margins_of
from gencard.core.card.noise import Mechanism
from gencard.core.card.terms import CardTerms
from gencard.core.coding import Coding
from gencard.core.errors import (
    GencardError,
    InvalidInputError,
    InvalidNumberError,
    LackingMarginalsError,
    VerificationError,
    advice_on,
)
from gencard.core.generators.contract import rng_of
from gencard.core.statistics.formula import analysis_of
from gencard.core.statistics.psi import Psi
from gencard.core.types import Progress
from gencard.wire.documents.psi_document import psi_document
from gencard.wire.documents.receipt import receipt_of_document
from gencard.wire.signatures import dsse
from gencard.wire.signatures.canonical import sha256

if TYPE_CHECKING:
    from gencard.client.card import Card
    from gencard.client.planning import Plan

Values = Mapping[str, Sequence[float]]
"""By attribute, the number that each level stands for, in the order of the schema."""

KINDS = {
    "linear": "linear regression of a number: y ~ a + b",
    "logistic": "logistic regression of an attribute with two levels",
    "multinomial": "logistic regression of an attribute with several levels",
    "ordinal": "proportional odds of an attribute with ordered levels",
    "poisson": "Poisson regression of a count",
    "loglinear": "log-linear model of a table: ~ a:b + b:c",
    "crosstab": "tables with chi-squared, Cramér's V, odds ratio: y ~ a, or ~ a:b",
    "means": "mean and variance of a number in each group: y ~ group",
    "quantiles": "the level that holds a quantile, in each group: y ~ group",
    "ttest": "t test of a number between two groups: y ~ group",
    "anova": "analysis of variance of a number between groups: y ~ group",
    "correlation": "correlation matrix of numbers: ~ a + b + c",
    "components": "principal components of numbers: ~ a + b + c",
    "correspondence": "multiple correspondence analysis: ~ a + b + c",
    "polychoric": "correlations behind ordered levels: ~ a + b + c",
    "naive-bayes": "naive Bayes classifier: y ~ a + b + c",
    "chow-liu": "the tree of strongest dependences: ~ a + b + c",
    "discriminant": "linear discriminant analysis: y ~ a + b + c",
    "kaplan-meier": "survival curves of groups: time ~ event + group",
    "cox": "Cox regression: time ~ event + a + b",
}
"""A line for each kind of analysis that psi can determine."""

TAKES: Mapping[str, tuple[str, ...]] = {
    "crosstab": ("alpha",),
    "means": ("alpha", "response"),
    "quantiles": ("q", "response"),
    "ttest": ("alpha", "test", "value"),
    "anova": ("alpha", "test", "typ"),
    "correlation": ("alpha", "method"),
    "components": ("components", "matrix"),
    "correspondence": ("components",),
    "naive-bayes": ("smoothing",),
}
"""Options that a kind takes besides those of every kind."""


class AnswerOptions(TypedDict, total=False):
    """What goes with a formula and a kind.

    Args:
        values: By attribute, the number that each level stands for, such as
            ``{"age": [20, 40, 70]}``; default: whole-number labels, and the midpoints of edges.
        where: Only these records, such as ``"region == 'North' and age < 40"``.
        missing: "level": missing values are a level; "drop": leave out records with one.
        bootstrap: Draws of a bootstrap, 100 or more: an interval of each number, where psi has noise.
        bootstrap_seed: From which they are drawn.
        alpha: 1 minus the coverage of intervals in tables.
        test: Of ``ttest``: "pooled", "welch" or "mann-whitney"; of ``anova``, its statistic.
        value: Of ``ttest``: the mean or difference to compare with.
        typ: Of ``anova``: type of the sums of squares.
        q: Of ``quantiles``: shares, such as ``[0.25, 0.5, 0.75]``.
        response: Of ``means`` and ``quantiles``, in a run on the records: "stored" for their numbers
            instead of intervals; default "coded".
        method: Of ``correlation``: "pearson", "spearman" or "kendall".
        matrix: Of ``components``: "correlation" or "covariance".
        components: Of ``components`` and ``correspondence``: how many.
        smoothing: Of ``naive-bayes``: added to each count.
    """

    values: Values | None
    where: str | None
    missing: str | None
    bootstrap: int | None
    bootstrap_seed: int | None
    alpha: float | None
    test: str | None
    value: float | None
    typ: float | None
    q: Sequence[float] | None
    response: str | None
    method: str | None
    matrix: str | None
    components: int | None
    smoothing: float | None


_OF_ALL = ("values", "where", "missing", "bootstrap", "bootstrap_seed")
_FEWEST_DRAWS, _MOST_DRAWS = 100, 100_000


@dataclass(frozen=True, slots=True)
class Question:
    """A formula and its kind.

    Raises:
        InvalidInputError: The kind does not take one of the options.
        InvalidNumberError: Too few draws of a bootstrap, or too many, or a seed below 0.
    """

    formula: str
    kind: str = "logistic"
    values: Values | None = None
    where: str = ""
    missing: str = "level"
    bootstrap: int = 0
    bootstrap_seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, formula: str, kind: str, given: AnswerOptions) -> "Question":
        """The question; options that are None count as not given."""
        named = {name: value for name, value in given.items() if value is not None}
        common = {name: named.pop(name) for name in _OF_ALL if name in named}
        return cls(formula, kind, options=named, **common)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if self.bootstrap and not _FEWEST_DRAWS <= self.bootstrap <= _MOST_DRAWS:
            expected = f"a whole number from {_FEWEST_DRAWS} to {_MOST_DRAWS}"
            raise InvalidNumberError(field="bootstrap", expected=expected)
        if self.bootstrap_seed < 0:
            raise InvalidNumberError(field="bootstrap_seed", expected="a whole number from 0 up")
        takes = TAKES.get(self.kind, ())
        for name in self.options:
            if name not in takes:
                problem = f"is no option of kind {self.kind}"
                raise InvalidInputError(
                    field=name, problem=problem, advice=advice_on(name, [*_OF_ALL, *takes])
                )


_VERIFIED = "card and receipts: signatures and digests agree"
_UNVERIFIED = "digests agree; signatures not checked: `gencard verify` does"
_NO_RECEIPT = "no receipt: nothing confirms the counts of psi"


def answer_from(
    psi: Psi, coding: Coding, question: Question, mechanism: Mechanism, about: Sequence[tuple[str, str]]
) -> Answer:
    """The answer that psi determines.

    Args:
        mechanism: The law of the noise of psi.
        about: Where psi comes from, in names and values.

    Raises:
        LackingMarginalsError: psi does not determine it.
        InvalidFormulaError, InvalidInputError, UnknownAttributeError, TooLargeError: What is wrong
            with the formula, or with what it needs.
        NoEstimateError, NotConvergedError: The model has no estimate.
        NoiseDrownsError: psi has too much noise for it.
    """
    from gencard.formulas.answering import answer_of  # noqa: PLC0415 - loads pandas

    with progress_bar("Bootstrap", bool(question.bootstrap)) as progress:
        estimates = answer_of(
            question.formula,
            analysis_of(question.kind),
            margins_of(psi),
            coding,
            values=question.values,
            where=question.where,
            missing=question.missing,
            options=question.options,
            bootstrap=_bootstrap(question, mechanism, progress),
        )
    return Answer(estimates, (*about, ("psi SHA-256", sha256(psi_document(psi)))))


def _bootstrap(question: Question, mechanism: Mechanism, progress: Progress) -> Bootstrap | None:
    if not question.bootstrap:
        return None
    return Bootstrap(rng_of(question.bootstrap_seed), mechanism, question.bootstrap, progress)


def answer_of_card(card: "Card", question: Question) -> Answer:
    """The answer from the psi of an agreed card; see ``Card.answer``."""
    agreement = card.agreement
    psi, mechanism = agreement.psi, card.terms.privacy.mechanism
    try:
        return answer_from(psi, agreement.coding, question, mechanism, [("Card", card.name)])
    except LackingMarginalsError as error:
        error.plan = _plan(card, question)
        if error.plan is not None:
            error.advice = (
                f'A card that has them costs {error.plan.price}: error.plan.propose(purpose="...").'
            )
        raise


def _plan(card: "Card", question: Question) -> "Plan | None":
    """The card that would determine an analysis, measured as this one; None where there is none."""
    from gencard.client.analyst import Analyst  # noqa: PLC0415 - imports cards, as this is for them

    terms = card.terms
    with suppress(GencardError):
        plan = Analyst(card.agreement.connection).plan(
            terms.dataset,
            question.formula,
            kind=question.kind,
            generator=terms.generator,
            rows=terms.rows,
            privacy=terms.privacy,
        )
        return None if plan.lacking else plan
    return None


@checked(values=level_values, where=text)
def answer(
    folder: str | Path,
    formula: str,
    kind: str = "logistic",
    *,
    connection: str | Path | None = None,
    **options: Unpack[AnswerOptions],
) -> Answer:
    """An analysis of the psi in a saved release: offline, free, any number of times.

    Args:
        folder: As ``release.save(folder)`` wrote it.
        formula: Model formula; see ``Analyst.plan``.
        kind: Type of analysis; ``gencard answer --help`` lists them.
        connection: A connection folder, whose keys check the signatures of card and receipts. Without
            one only digests are compared, and the answer says so.
        options: See ``AnswerOptions``.

    Raises:
        LackingMarginalsError: psi does not determine the analysis; names the marginals it lacks.
        VerificationError: Card, schema, psi and receipts do not belong together, or a signature is
            wrong.
        InvalidInputError: The folder holds no release, or something is wrong with the formula.
    """
    bundle = Bundle.of([Path(folder)])
    keys = None if connection is None else Keys.of(Credentials.of_folder(Path(connection)))
    return answer_of_bundle(bundle, keys, Question.of(formula, kind, options))


def answer_of_bundle(bundle: Bundle, keys: Keys | None, question: Question) -> Answer:
    """``answer`` for files that were sorted; without keys no signature is checked."""
    card = _card(bundle, keys)
    coding, psi = checked_schema(bundle, card), bundle.psi()
    check_psi(card, psi, coding)
    standing = _confirmed(bundle, card, keys)
    about = (("Card", card.name), ("Verified", standing))
    return answer_from(psi, coding, question, card.terms.privacy.mechanism, about)


def _card(bundle: Bundle, keys: Keys | None) -> CardTerms:
    if keys is None:
        return card_of_statement(dsse.opened(bundle.one("card").content)[0])
    return signed_card(bundle, keys.followed(bundle))


def _confirmed(bundle: Bundle, card: CardTerms, keys: Keys | None) -> str:
    """What confirms the counts of psi; raises VerificationError where a receipt names another psi."""
    digest = sha256(bundle.one("psi").content)
    for file in bundle.all("receipt"):
        if keys is None:
            receipt = receipt_of_document(dsse.predicate_of(dsse.opened(file.content)[0], dsse.RECEIPT))
        else:
            receipt = receipt_in(bundle, card, file, keys.followed(bundle))
        if receipt.psi_digest != digest:
            raise VerificationError(problem="a receipt names another psi")
    if not bundle.all("receipt"):
        return _NO_RECEIPT
    return _UNVERIFIED if keys is None else _VERIFIED
