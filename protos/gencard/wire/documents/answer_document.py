"""The signed answer of a run on the records: what was asked, what the rules said, what was released."""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

from gencard.core.errors import InvalidInputError
from gencard.core.json_codecs import written
from gencard.core.typed_json import ANY_JSON
from gencard.core.types import Time
from gencard.wire.signatures.canonical import Document, digest_of, document_of, json_bytes
from gencard.wire.signatures.dsse import ANSWER, DOCUMENT, read_document, statement

LONGEST_FORMULA = 2_000
LONGEST_OPTIONS = 10_000


class AnswerVerdict(StrEnum):
    """Decision about an answer."""

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
    where: str = field(default="", metadata=written(omit=True))
    missing: str = field(default="level", metadata=written(omit=True))
    options: str = field(default="", metadata=written(omit=True))

    def __post_init__(self) -> None:
        for name, most in (
            ("kind", 63),
            ("formula", LONGEST_FORMULA),
            ("where", LONGEST_FORMULA),
            ("options", LONGEST_OPTIONS),
        ):
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
        """The number that each level of an attribute stands for, where the analyst gave numbers.

        Raises:
            InvalidInputError: ``values`` of the options holds something else.
        """
        values = self._options.get("values", {}) if self.options else {}
        right = isinstance(values, dict) and all(map(_are_numbers, values.values()))
        if not right:
            raise values_refused()
        return {name: list(map(float, numbers)) for name, numbers in values.items()}

    @property
    def digest(self) -> str:
        """SHA-256, in hex, of the canonical JSON."""
        return _digest_of(self)


_QUESTION = DOCUMENT.codec(Question)


@lru_cache(maxsize=100)
def _digest_of(question: Question) -> str:
    return digest_of(_QUESTION.write(question))


def values_refused() -> InvalidInputError:
    """The error of a run that gives numbers to levels, with which it would read single records."""
    return InvalidInputError(
        field="values",
        problem="is no option of runs on records: a level is the number that the schema declares for it",
        advice="Ask the data's holder to declare numbers or edges, or use values in an answer from psi: "
        "card.answer(...), gencard answer.",
    )


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(type(one) in (int, float) for one in value)


@dataclass(frozen=True, slots=True)
class SignedAnswer:
    """Answer of one run, as the controller signs it.

    Args:
        name: datasets/{dataset}/cards/{card}/answers/{answer}.
        card_digest: SHA-256, in hex, of the card.
        version: Salted digest of the records that were read.
        rules: Version of the output rules.
        reasons: Codes of the rules that refused, or of what a steward took out; sorted.
        released_by: URI of who decided: the controller, by its rules, or a steward.
        numbers: How many were released.
        log_index: Position in the controller's log of the entry that preceded the answer.
        answer: As the core writes it; None where it was refused.

    Raises:
        InvalidInputError: A refused answer has numbers, or a released one has none.
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
    reasons: tuple[str, ...] = field(default=(), metadata=written(omit=True))
    answer: Any = field(default=None, metadata=written(omit=True, scalar=ANY_JSON))

    def __post_init__(self) -> None:
        if (self.answer is None) != (self.verdict is AnswerVerdict.REFUSED):
            raise InvalidInputError(
                field="answer",
                problem="is required for a released answer, and not allowed for a refused one",
            )


_ANSWER = DOCUMENT.codec(SignedAnswer)


def answer_statement(answer: SignedAnswer) -> bytes:
    """Return the statement that the controller signs."""
    return statement(ANSWER, answer.name, _ANSWER.write(answer))


def answer_of_document(document: Document) -> SignedAnswer:
    """Raises VerificationError where the document is not a signed answer."""
    return read_document(SignedAnswer, document, "a signed answer")
