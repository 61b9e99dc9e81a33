"""Signed documents: receipts of releases, answers of runs, cards. All are RFC 8785 JSON.

``json_of`` is the form that shells print with ``--json``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Any

from gencard.core.card.budget import Claim, Neighbouring, Price, decimal_of, decimal_text, delta_of
from gencard.core.card.card import CardRecord
from gencard.core.card.privacy import AS_COUNTED, Mechanism, Privacy, Transform, privacy_with
from gencard.core.card.terms import Analyses, CardTerms, Proposal
from gencard.core.errors import GencardError, InvalidInputError, VerificationError
from gencard.core.json_codecs import ScalarCodec, entries_of, written
from gencard.core.typed_json import ANY_JSON, PAIRS_AS_OBJECT
from gencard.core.types import Time, VersionKind
from gencard.wire.canonical import (
    Document,
    digest_of,
    document_of,
    integer_of,
    json_bytes,
    text_of,
    time_text,
)
from gencard.wire.dsse import ANSWER, CARD, DOCUMENT, RECEIPT, read_document, statement

_OMITTED = written(omit=True)

# The receipt of a release: what it was made from, signed by the controller.


@dataclass(frozen=True, slots=True)
class AuditedBox:
    """Black box that made the rows: SHA-256, in hex, of all that ran, and of its passed audit."""

    digest: str = field(metadata=written("box.sha256"))
    verdict_digest: str = field(metadata=written("verdict.sha256"))


@dataclass(frozen=True, slots=True)
class Receipt:
    """Sources of a release. With psi and the card a seed fixes every byte of the rows.

    Args:
        name: datasets/{dataset}/cards/{card}/releases/{release}.
        psi_digest: SHA-256 of psi's document; empty for a card of tier private, which has none.
        rows_digest: SHA-256 of the rows (Dataset.digest). All digests are in hex.
        seed: Seed of the draw; None where records decided about the rows: it is nobody's to know then.
        versions: Name and version of what computed it, sorted by name.
        log_index: Position in the controller's log of the entry that preceded the release.
        without_uniques: Replicated uniques were taken out, and other rows drawn.
        private_box: SHA-256 of the black box of tier private that made the rows; else empty.
        most_records: Of one person that counted, as on the card; 0 where each record stood for itself.
        version_kind: What the card's version of the records is an HMAC of; None in receipts from before
            that was said, and where the records are of another version by now.
    """

    name: str
    card_digest: str = field(metadata=written("card.sha256"))
    rows_digest: str = field(metadata=written("data.sha256"))
    rows: int
    versions: tuple[tuple[str, str], ...] = field(metadata=written(scalar=PAIRS_AS_OBJECT))
    log_index: int
    time: Time
    psi_digest: str = field(default="", metadata=written("psi.sha256", omit=True))
    seed: int | None = field(default=None, metadata=_OMITTED)
    audited: AuditedBox | None = field(default=None, metadata=_OMITTED)
    without_uniques: bool = field(default=False, metadata=_OMITTED)
    private_box: str = field(default="", metadata=written("private.box.sha256", omit=True))
    most_records: int = field(default=0, metadata=_OMITTED)
    version_kind: VersionKind | None = field(default=None, metadata=_OMITTED)

    def __post_init__(self) -> None:
        if bool(self.psi_digest) == bool(self.private_box):
            problem = "is required unless there is a private box, and not allowed with one"
            raise InvalidInputError(field="psi", problem=problem)
        # nobody can replay rows about which records decided, besides psi
        by_records = bool(self.audited or self.without_uniques or self.private_box)
        if (self.seed is None) != by_records:
            problem = "is required if the rows follow from psi alone, and not allowed otherwise"
            raise InvalidInputError(field="seed", problem=problem)

    @property
    def drawing_seed(self) -> int:
        """Seed of the numbers inside intervals: the seed, or one that follows from the rows."""
        return int(self.rows_digest[:16], 16) if self.seed is None else self.seed


def receipt_statement(receipt: Receipt) -> bytes:
    """Return the statement that the controller signs; its subject is the rows."""
    return statement(RECEIPT, receipt.name, DOCUMENT.write(receipt), receipt.rows_digest)


def receipt_of_document(document: Document) -> Receipt:
    """Raises VerificationError where the document is not a receipt."""
    return read_document(Receipt, document, "a receipt")


# The answer of a run on the records: what was asked, what the rules said, what was released.

LONGEST_FORMULA = 2_000
LONGEST_OPTIONS = 10_000


class AnswerVerdict(StrEnum):
    RELEASED = "released"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Question:
    """Question to the records. Equal questions under one card have one answer.

    Args:
        kind: Of the analysis, such as "linear"; "program" where a program of the analyst's runs.
        formula: As R and formulaic write it; of a program, its SHA-256 in hex.
        where: The subpopulation; empty for all records.
        missing: "level": missing values are a level of their own; "drop": records with one are left out.
        options: Of the analysis, as RFC 8785 JSON; empty for none.

    Raises:
        InvalidInputError: A text is too long, ``missing`` is neither, or options are no canonical JSON.
    """

    kind: str
    formula: str
    where: str = field(default="", metadata=_OMITTED)
    missing: str = field(default="level", metadata=_OMITTED)
    options: str = field(default="", metadata=_OMITTED)

    def __post_init__(self) -> None:
        longest = {"kind": 63, "formula": LONGEST_FORMULA, "where": LONGEST_FORMULA}
        for name, most in {**longest, "options": LONGEST_OPTIONS}.items():
            if len(getattr(self, name)) > most:
                raise InvalidInputError(field=name, problem=f"must be at most {most} characters")
        if self.missing not in ("level", "drop"):
            raise InvalidInputError(field="missing", problem="must be 'level' or 'drop'")
        if not self.options:
            return
        options = self._options
        if json_bytes(options).decode() != self.options:
            raise InvalidInputError(field="options", problem="must be RFC 8785 JSON")
        for name, value in options.items():
            parts = value if isinstance(value, list) else [value]
            is_plain = all(isinstance(part, int | float | str) for part in parts)
            if name != "values" and not is_plain:
                problem = "must be a number, text, or a list of these"
                raise InvalidInputError(field="options", problem=problem)
        _ = self.values

    @property
    def _options(self) -> Document:
        return document_of(self.options.encode(), "options", compared=True)

    @property
    def values(self) -> dict[str, list[float]]:
        """The number that each level of an attribute stands for, where the analyst gave numbers."""
        values = self._options.get("values", {}) if self.options else {}
        right = isinstance(values, dict) and all(
            isinstance(one, list) and {int, float}.issuperset(map(type, one)) for one in values.values()
        )
        if not right:
            raise values_refused()
        return {name: list(map(float, numbers)) for name, numbers in values.items()}

    @property
    def digest(self) -> str:
        """SHA-256, in hex, of the canonical JSON."""
        return _digest_of(self)


@lru_cache(maxsize=100)
def _digest_of(question: Question) -> str:
    return digest_of(DOCUMENT.write(question))


def values_refused() -> InvalidInputError:
    """The error of a run that gives numbers to levels, with which it would read single records."""
    return InvalidInputError(
        field="values",
        problem="is no option of runs on records: a level is the number that the schema declares for it",
        advice="Ask the data's holder to declare numbers or edges, or use values in an answer from psi: "
        "card.answer(...), gencard answer.",
    )


@dataclass(frozen=True, slots=True)
class SignedAnswer:
    """Answer of one run, as the controller signs it.

    Args:
        name: datasets/{dataset}/cards/{card}/answers/{answer}.
        version: Salted digest of the records that were read.
        rules: Version of the output rules.
        reasons: Codes of the rules that refused, or of what a steward took out; sorted.
        released_by: URI of who decided: the controller, by its rules, or a steward.
        numbers: How many were released.
        log_index: Position in the controller's log of the entry that preceded the answer.
        answer: As the core writes it; None where it was refused, and only there.
    """

    name: str
    card_digest: str = field(metadata=written("card.sha256"))
    version: str = field(metadata=written("dataset.version.sha256"))
    question: Question
    rules: str
    verdict: AnswerVerdict
    released_by: str
    numbers: int
    log_index: int
    time: Time
    reasons: tuple[str, ...] = field(default=(), metadata=_OMITTED)
    answer: Any = field(default=None, metadata=written(omit=True, scalar=ANY_JSON))

    def __post_init__(self) -> None:
        if (self.answer is None) != (self.verdict is AnswerVerdict.REFUSED):
            problem = "is required for a released answer, and not allowed for a refused one"
            raise InvalidInputError(field="answer", problem=problem)


def answer_statement(answer: SignedAnswer) -> bytes:
    return statement(ANSWER, answer.name, DOCUMENT.write(answer))


def answer_of_document(document: Document) -> SignedAnswer:
    """Raises VerificationError where the document is not a signed answer."""
    return read_document(SignedAnswer, document, "a signed answer")


# The agreed form of a card, never re-serialised once it is signed. The fields of ``core.card.terms`` say
# where each value is in the document.


def privacy_document(privacy: Privacy) -> Document:
    document: Document = {"mechanism": str(privacy.mechanism), **privacy.parameters}
    if "most_records" in document:
        document["mostRecords"] = document.pop("most_records")
    return document


def privacy_of_document(document: Document) -> Privacy:
    """Raises KeyError, TypeError, ValueError or what the core refuses, where it is no privacy."""
    mechanism = Mechanism(document["mechanism"])
    parameters = {
        "most_records" if name == "mostRecords" else name: text_of(value)
        for name, value in document.items()
        if name != "mechanism"
    }
    return privacy_with(mechanism, parameters)


def claim_document(claim: Claim) -> Document:
    """A claim of nothing is its sentence alone."""
    document: Document = {"sentence": claim.sentence}
    if claim.epsilon is not None:
        document["epsilon"] = decimal_text(claim.epsilon)
        document["delta"] = decimal_text(claim.delta)
    if claim.neighbouring is not None:
        document["neighbouring"] = str(claim.neighbouring)
    return document


def claim_of_document(document: Document) -> Claim:
    """Raises KeyError, TypeError, ValueError or what the core refuses, where it is no claim."""
    relation, sentence = document.get("neighbouring"), text_of(document["sentence"])
    text = text_of(document.get("epsilon", ""))
    epsilon = decimal_of(text, "claim.epsilon") if text else None
    delta = text_of(document.get("delta", ""))
    return Claim(
        sentence=sentence,
        epsilon=epsilon,
        delta=Decimal(0) if delta in ("", "0") else delta_of(delta),
        neighbouring=None if relation is None else Neighbouring(relation),
    )


_NUMBERS = [field.name for field in fields(Transform) if field.name != "zeros"]


def transform_document(transform: Transform) -> Document:
    """Only what differs from counts as they are."""
    document: Document = {
        name: str(getattr(transform, name))
        for name in _NUMBERS
        if getattr(transform, name) != getattr(AS_COUNTED, name)
    }
    return document | ({"zeros": True} if transform.zeros else {})


def transform_of_document(document: Document) -> Transform:
    """Raises TypeError, ValueError or InvalidNumberError where the document is no transform."""
    numbers = {name: integer_of(value) for name, value in document.items() if name != "zeros"}
    return Transform(**numbers, zeros=document.get("zeros", False))


_FORM = replace(
    DOCUMENT,
    scalars={
        **DOCUMENT.scalars,
        Privacy: ScalarCodec(privacy_document, privacy_of_document),
        Transform: ScalarCodec(transform_document, transform_of_document),
        Claim: ScalarCodec(claim_document, claim_of_document),
    },
)


_CARD = _FORM.codec(CardTerms)


def price_document(price: Price) -> Document:
    document: Document = DOCUMENT.write(price)
    return document


def terms_document(terms: Proposal) -> Document:
    """Weights, transform, moments and what reads records stand in it where there are any."""
    document: Document = _FORM.write(terms)
    return document


def terms_of_document(document: Document) -> Proposal:
    """Raises KeyError, AttributeError or what the core refuses, where these are no terms."""
    return _FORM.read(Proposal, document, field="terms")


def card_document(card: CardTerms) -> Document:
    """The terms with their surroundings; the generator's name stands beside its digest once more."""
    document: Document = _CARD.write(card)
    document["generator"]["name"] = card.terms.generator
    return document


def card_of_document(document: Document) -> CardTerms:
    """The card that a document holds; raises VerificationError if the core does not accept all of it."""
    try:
        generator = dict(document["generator"])
        name = generator.pop("name")
        card = _FORM.read(CardTerms, {**document, "generator": generator}, field="card")
    except (KeyError, AttributeError, TypeError, ValueError, GencardError):
        card = None
    if card is None or name != card.terms.generator:
        raise VerificationError(problem="the document is not a card")
    return card


def card_statement(card: CardTerms) -> bytes:
    return statement(CARD, card.name, card_document(card))


def json_of(value: Any, *names: str) -> Any:
    """Return the JSON that shells print for a value.

    Prices, terms and the values in them have the form of signed documents, and times are texts. Other
    dataclasses are objects of their fields, without private ones, and numbers are as JSON has them.

    Args:
        names: Attributes of the value that make up the object, if not all fields of its dataclass do.
    """
    if names:
        return {DOCUMENT.name(name): json_of(getattr(value, name)) for name in names}
    for kind, write in _PRINTED:
        if isinstance(value, kind):
            return write(value)
    if not is_dataclass(value):
        return value
    document: Document = {}
    described: type = type(value)
    for entry in entries_of(described):
        if not entry.options.private:
            content = json_of(getattr(value, entry.name))
            document |= content if entry.options.inline else {DOCUMENT.name(entry.name): content}
    return document


_PRINTED: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (datetime, time_text),
    (Price, price_document),
    (Proposal, terms_document),
    (Analyses, _FORM.write),
    (Privacy, privacy_document),
    (Transform, transform_document),
    (CardRecord, lambda card: json_of(card, "name", "state", "turn", "analyst", "proposed", "history")),
    (Mapping, lambda values: {name: json_of(one) for name, one in values.items()}),
    (list | tuple, lambda values: [json_of(one) for one in values]),
)
"""Types that are not written field by field, and how they are."""
