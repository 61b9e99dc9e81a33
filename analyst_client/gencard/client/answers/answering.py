"""From a formula to its answer: out of the psi of a card, or of a saved release without a connection."""

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from gencard.analysis.answers.noise.bootstrap import Bootstrap
from gencard.analysis.answers.noise.reconciled import margins_of
from gencard.client.answers.answer import Answer
from gencard.client.checking.bundle import Bundle, Keys, checked_schema, receipt_in, signed_card
from gencard.client.checking.replay import check_psi
from gencard.client.checking.signing import card_of_statement
from gencard.client.common.arguments import checked, level_values, text
from gencard.client.connection.connection import progress_bar
from gencard.client.connection.credentials import Credentials
from gencard.client.question import AnalystQuestion, AnswerOptions
from gencard.core.card.privacy import Mechanism
from gencard.core.card.terms import CardTerms
from gencard.core.coding import Coding
from gencard.core.errors import VerificationError
from gencard.core.generators.contract import rng_of
from gencard.core.statistics.formula import analysis_of
from gencard.core.statistics.psi import Psi
from gencard.wire import dsse
from gencard.wire.canonical import sha256
from gencard.wire.documents import receipt_of_document
from gencard.wire.psi import psi_document

_VERIFIED = "card and receipts: signatures and digests agree"
_UNVERIFIED = "digests agree; signatures not checked (use `gencard verify`)"
_NO_RECEIPT = "no receipt: nothing confirms the counts of psi"


def answer_from(
    psi: Psi,
    coding: Coding,
    question: AnalystQuestion,
    mechanism: Mechanism,
    about: Sequence[tuple[str, str]],
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
    from gencard.analysis.formulas.answering import answer_of  # noqa: PLC0415 - loads pandas

    with progress_bar("Bootstrap", bool(question.bootstrap)) as progress:
        estimates = answer_of(
            question.formula,
            analysis_of(question.kind),
            margins_of(psi, coding),
            coding,
            values=question.values,
            where=question.where,
            missing=question.missing,
            options=question.options,
            bootstrap=Bootstrap(rng_of(question.bootstrap_seed), mechanism, question.bootstrap, progress)
            if question.bootstrap
            else None,
        )
    return Answer(estimates, (*about, ("psi SHA-256", sha256(psi_document(psi)))))


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
    return answer_of_bundle(bundle, keys, AnalystQuestion.of(formula, kind, options))


def answer_of_bundle(bundle: Bundle, keys: Keys | None, question: AnalystQuestion) -> Answer:
    """``answer`` for files that were sorted; without keys no signature is checked."""
    if keys is None:
        card = card_of_statement(dsse.opened(bundle.one("card").content)[0])
    else:
        card = signed_card(bundle, keys.followed(bundle))
    coding, psi = checked_schema(bundle, card), bundle.psi()
    check_psi(card, psi, coding)
    standing = _confirmed(bundle, card, keys)
    about = (("Card", card.name), ("Verified", standing))
    return answer_from(psi, coding, question, card.terms.privacy.mechanism, about)


def _confirmed(bundle: Bundle, card: CardTerms, keys: Keys | None) -> str:
    """Say what confirms the counts of psi; raise VerificationError if a receipt names another psi."""
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
