"""Every error that a caller or a steward can meet, as one tree.

An error has a *reason* (stable code for programs), a *text* (a public sentence with blanks for
``fields``) and an *advice* (what to do next). Fields contain what the caller sent or what is public:
never a record, a count of records, or the message of a foreign exception, which could quote a record.

    GencardError
    ├── InvalidInputError        the request is wrong; repeating it does not help
    ├── TooLargeError            over a limit; refused before any work
    ├── NegotiationError         not allowed at this point of the negotiation
    ├── AccessError              not allowed for this certificate
    ├── BudgetExceededError      the budget in the ledger does not suffice
    ├── DatasetError             the controller's records cannot be used
    ├── ComputationError         the computation has no result
    ├── VerificationError        a signature, digest or replay does not match
    └── OperationError           the service or its job did not finish
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar

_IN_PYTHON: Mapping[str, str] = {
    "gencard datasets": "analyst.datasets()",
    "gencard datasets NAME": "analyst.dataset(name)",
    "gencard generators": "analyst.generators()",
    "gencard cards": "analyst.cards()",
    "gencard cards CARD": "analyst.card(name)",
    "gencard terminate CARD": "card.terminate()",
    "gencard audit CARD": "card.audit()",
    "gencard audit CARD --where card": 'card.audit(where="card")',
    "gencard price": "analyst.price(...)",
    "gencard plan": "analyst.plan(...)",
    "gencard cards CARD --wait": "analyst.card(name).wait()",
    "--yes": "accept=True",
    "--generator auto": 'generator="auto"',
}
"""Python call for each shell command that an advice names."""

_LONGEST_ADVICE = 600  # characters
_MOST_COMPARED, _LONGEST_COMPARED, _MOST_LISTED = 300, 60, 12
"""Largest numbers of names compared, of characters compared in a name, and of names listed."""


class GencardError(Exception):
    """Root of the tree. ``str`` gives the text and the advice; ``message`` the text alone.

    ``longest_field`` is the most characters of a field; the rest is cut off.
    A field named ``advice`` takes the place of the advice of the class.

    >>> error = UnknownAttributeError(attribute="sex")
    >>> error.reason, error.message
    ('UNKNOWN_ATTRIBUTE', "Attribute 'sex' is not declared in the dataset's public schema.")
    """

    reason: ClassVar[str] = "GENCARD"
    text: ClassVar[str] = "The request failed."
    advice: str = "See the documentation of the call."
    longest_field: ClassVar[int] = 200
    absent: ClassVar[Mapping[str, str]] = {}
    """Substitutes in the text for fields that are not given."""

    def __init__(self, /, **fields: object) -> None:
        self.fields = {
            name: _printable(str(value), _LONGEST_ADVICE if name == "advice" else self.longest_field)
            for name, value in fields.items()
        }
        self.message = self.text.format(**{**self.absent, **self.fields})
        self.advice = self.fields.get("advice") or self.advice
        super().__init__(self.message)

    def __str__(self) -> str:
        """The text and the advice, in which commands of the shell are calls in Python."""
        advice = self.advice
        for command, call in _IN_PYTHON.items():
            advice = advice.replace(f"`{command}`", f"`{call}`")
        return f"{self.message} {advice}"


def advice_on(name: str, names: Sequence[str]) -> str:
    """Return advice on an unknown name: the valid name that is most like it, and the valid names.

    >>> advice_on("Age", ["sex", "age"])
    "Did you mean 'age'? Valid: sex, age."
    """
    by_small = {valid.lower(): valid for valid in reversed(names[:_MOST_COMPARED])}
    close = get_close_matches(name.lower()[:_LONGEST_COMPARED], by_small, n=1)
    suggestion = f"Did you mean '{by_small[close[0]]}'? " if close else ""
    more = f", … ({len(names):,} in all)" if len(names) > _MOST_LISTED else ""
    return f"{suggestion}Valid: {', '.join(names[:_MOST_LISTED]) or 'none'}{more}."


def _printable(value: str, longest: int) -> str:
    """Return a text as one bounded line without control characters, safe for logs and terminals."""
    clean = "".join(character if character.isprintable() else "?" for character in value)
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


# The request is wrong --------------------------------------------------------------------------


class InvalidInputError(GencardError):
    reason = "INVALID_INPUT"
    text = "{field}: {problem}."
    advice = "Correct the named value, then try again."


class UnknownAttributeError(InvalidInputError):
    reason = "UNKNOWN_ATTRIBUTE"
    text = "Attribute '{attribute}' is not declared in the dataset's public schema."
    advice = "Use an attribute of the schema: `gencard datasets NAME` lists them."


class InvalidDomainError(InvalidInputError):
    reason = "INVALID_DOMAIN"
    text = "The domain is not valid: {problem}."
    advice = "Give attributes distinct, non-empty names and sizes from 1 to 65536."


class InvalidCliqueError(InvalidInputError):
    reason = "INVALID_CLIQUE"
    text = "The clique ({clique}) is not valid: {problem}."
    advice = "Give each clique one or more distinct attributes, and list each clique once."


class InvalidNumberError(InvalidInputError):
    reason = "INVALID_NUMBER"
    text = "{field} must be {expected}."
    advice = "Use a finite number in the stated range."


class InvalidCodingError(InvalidInputError):
    reason = "INVALID_CODING"
    text = "The coding of attribute '{attribute}' is not valid: {problem}."
    advice = "Correct the declaration of this attribute in the schema."


class InvalidDatasetError(InvalidInputError):
    reason = "INVALID_DATASET"
    text = "The dataset is not valid: {problem}."
    advice = "Use integer codes from 0 to size - 1, with one column for each attribute."


class DomainMismatchError(InvalidInputError):
    reason = "DOMAIN_MISMATCH"
    text = "The domains do not match: {problem}."
    advice = "Restrict the dataset to the attributes of the card."


class InvalidPsiError(InvalidInputError):
    reason = "INVALID_PSI"
    text = "psi, the released statistics, is not valid: {problem}."
    advice = "Use psi exactly as it was released, together with its card."


class InvalidFormulaError(InvalidInputError):
    reason = "INVALID_FORMULA"
    text = "The formula is not valid at position {position}: {problem}."
    advice = "Use the form `response ~ a + b * c`; put names with spaces or symbols in `backticks`."


class NotReplayableError(InvalidInputError):
    reason = "NOT_REPLAYABLE"
    text = "These rows cannot be replayed, because they do not follow from psi and a seed alone."
    advice = "Run `gencard verify`: it checks the receipt, the digests and the audit's verdict instead."


class RequestIdReusedError(InvalidInputError):
    reason = "REQUEST_ID_REUSED"
    text = "This request_id was already used for a different request."
    advice = "Use a new random UUID for each new request; repeat one only to retry the same request."


class ConnectionClosedError(InvalidInputError):
    reason = "CONNECTION_CLOSED"
    text = "The connection to {address} is closed."
    advice = (
        "Connect again, and make all calls inside the `with` block, before the connection is "
        "closed. To use a card of a closed connection, fetch it again by its name."
    )


# Over a limit, refused before any work ---------------------------------------------------------


class TooLargeError(GencardError):
    reason = "TOO_LARGE"
    text = "{what} exceeds the limit of {limit}."
    advice = "Request fewer or smaller marginals, fewer rows or fewer runs."


FEWER_TERMS = "Use fewer terms or attributes in the formula, or attributes with fewer levels."
"""Advice on an analysis that is too large."""


class ModelTooLargeError(TooLargeError):
    """``largest`` names the attribute sets with the largest tables, and their numbers of cells."""

    reason = "MODEL_TOO_LARGE"
    text = "The generator's model exceeds the limit of {limit} cells: {largest}."
    advice = (
        "Use `--generator auto`, which takes a generator whose model fits, or request fewer marginals "
        "on these attributes. Stewards set limits.model_cells."
    )
    longest_field = 400  # whole names of attributes


class TooManyRecordsError(TooLargeError):
    """Statistics can be measured on any number of records; all other work holds records in memory."""

    reason = "TOO_MANY_RECORDS"
    text = "The dataset has more than {limit} records, the most that may be held in memory at once."
    advice = (
        "Black boxes, audits, evaluations and runs on the records load all records into "
        "memory. Statistics can be measured on any number: propose a card whose generator "
        "uses psi only. Stewards set limits.records."
    )


class NotFittableError(TooLargeError):
    """The generator failed in a trial on made-up records of the same attributes; no record was read."""

    reason = "NOT_FITTABLE"
    text = (
        "The generator cannot fit these marginals: in a trial on made-up records it did not "
        "reproduce them. {remedy}."
    )
    advice = "Change the proposal as described and propose again. Nothing was measured or charged."
    longest_field = 400


# Not allowed at this point of the negotiation --------------------------------------------------


class NegotiationError(GencardError):
    reason = "NEGOTIATION"
    text = "The card's negotiation does not allow this step."
    advice = "Check the card's state and turn with `gencard cards`."


class WrongTurnError(NegotiationError):
    reason = "WRONG_TURN"
    text = "It is the {turn}'s turn to act on this card."
    advice = "Wait for the other side, or terminate the negotiation."


class StaleEtagError(NegotiationError):
    reason = "STALE_ETAG"
    text = "The {what} is not what was read, or has changed since."
    absent: ClassVar[Mapping[str, str]] = {"what": "card"}
    advice = "Read the card again, review the changes, and repeat the call with the new etag."


class CardStateError(NegotiationError):
    reason = "CARD_STATE"
    text = "A card in state {state} does not allow this."
    advice = "Run `gencard cards CARD` to see the card's next step."


class CardExpiredError(NegotiationError):
    reason = "CARD_EXPIRED"
    text = "The card has expired."
    advice = "Propose the same card again."


class SecondStewardError(NegotiationError):
    """Two stewards decide, and this one cannot be the second."""

    reason = "SECOND_STEWARD"
    text = "Another steward must decide: {why}."
    absent: ClassVar[Mapping[str, str]] = {"why": "the first decision is your own"}
    advice = (
        "Ask another steward to review it and make the same decision: `gencard steward queue` lists it."
    )


class AuditRequiredError(NegotiationError):
    reason = "AUDIT_REQUIRED"
    text = (
        "The generator reads records, and no valid audit covers it: none has passed under this card, or "
        "an audit of the same generator (any version) has found leakage on this dataset since."
    )
    advice = (
        "Run `gencard audit CARD --where card`, then request rows. After a verdict of leakage use"
        " another generator, or ask the steward (`gencard-controller emergency audits`)."
    )


class TooManyAuditsError(NegotiationError):
    """Each audit costs a run at the records, so their number has a bound for each submitter."""

    reason = "TOO_MANY_AUDITS"
    text = "The limit of {limit} audits per submitter on this dataset is reached."
    advice = "Ask the steward to raise `limits.audits`."


class QuotaExceededError(NegotiationError):
    """``setting`` is the limit's name in ``[limits]`` of the controller's settings."""

    reason = "QUOTA_EXCEEDED"
    text = "The quota of {limit} {what} for one certificate is used up (limits.{setting})."
    advice = "Run `gencard terminate CARD` on open proposals, or ask the steward to raise the limit."


class TooManyRefusalsError(NegotiationError):
    """Stop operations on the records after too many failures, until a steward has reviewed these.

    A failure at the records may disclose something about them.
    """

    reason = "TOO_MANY_REFUSALS"
    text = (
        "{limit} operations of {whose} on the records of this dataset were refused or failed; a steward "
        "must review them before you can start another."
    )
    absent: ClassVar[Mapping[str, str]] = {"whose": "yours"}
    advice = "Ask the steward to run `gencard steward refusals`."


class GeneratorChangedError(NegotiationError):
    reason = "GENERATOR_CHANGED"
    text = "{what} differs from {other}."
    absent: ClassVar[Mapping[str, str]] = {
        "what": "The installed generator",
        "other": "the version that the card names",
    }
    advice = (
        "Propose a new card, which names the installed version. A generator that reads "
        "records needs a new audit."
    )

    @classmethod
    def since_start(cls) -> "GeneratorChangedError":
        """Return the error on a black box whose files, or libraries, changed since the start."""
        return cls(
            what="A file of the black box, or of a library that it uses,",
            other="what the service read at its start",
            advice="Repeat the call if software was being installed on the controller's machine. If the "
            "change stays, a steward restarts the service; a changed black box then needs a new review "
            "and audit.",
        )


class RecordsProtectedError(NegotiationError):
    """Other numbers about the same records would undo the noise, rounding or checks of a card."""

    reason = "RECORDS_PROTECTED"
    text = "{what} on the records is not available: {why}."
    advice = (
        "Audit on made-up records (`gencard audit CARD`), or ask the steward whether the policy "
        "may offer a card that allows it."
    )


class BoxNotLentError(NegotiationError):
    reason = "BOX_NOT_LENT"
    text = "The controller does not run the black box '{name}' on datasets of callers."
    advice = "Ask the steward to add its name to black_boxes in the [lending] section of the settings."


class BoxNotReviewedError(NegotiationError):
    reason = "BOX_NOT_REVIEWED"
    text = "The card's black box has not been reviewed with the digest that the card names."
    advice = "Ask the steward to review it: `gencard-controller boxes review NAME --by ...`."


class ProgramNotRunError(NegotiationError):
    """The program was refused before any record was read, so the reason may be given."""

    reason = "PROGRAM_NOT_RUN"
    text = "The program was not run on the records: {problem}."
    advice = "Nothing was charged. Try it on synthetic rows: `gencard run CARD --program FILE --dry`."


class NoAnswerError(NegotiationError):
    """The analysis failed in a trial on made-up counts; no record was read, so the reason is given."""

    reason = "NO_ANSWER"
    text = "The analysis was not run on the records, because the schema leaves it no answer: {problem}."
    advice = "Nothing was charged. Change the formula, the condition, the options or the kind."
    longest_field = 400


class NoPsiError(NegotiationError):
    """Cards of tier private: exact statistics beside epsilon would undo what epsilon promises."""

    reason = "NO_PSI"
    text = (
        "A card of tier private has no psi: its generator adds the noise, and no statistics are "
        "released."
    )
    advice = "Use the rows, the receipt and the claim on the card; fidelity needs psi."


class LackingMarginalsError(NegotiationError):
    """The card lacks the cliques in ``lacking`` and the sums in ``lacking_sums``.

    Both are empty if the error came over the wire. ``plan`` is the client's plan of a card that would
    determine them, or None.
    """

    reason = "LACKING_MARGINALS"
    text = "The statistics of the card do not determine the marginals of {cliques}."
    advice = "Use `gencard plan` to find and price a card that does, or fit a smaller model."
    longest_field = 400
    lacking: tuple[tuple[str, ...], ...] = ()
    lacking_sums: tuple[Any, ...] = ()
    plan: Any = None

    @classmethod
    def of(
        cls, cliques: Iterable[tuple[str, ...]], sums: Iterable[object] = (), **fields: object
    ) -> "LackingMarginalsError":
        """Return the error on these cliques, and on these sums (``card.sums.Sum``)."""
        marginals, numbers = tuple(map(tuple, cliques)), tuple(sums)
        words = [" × ".join(clique) for clique in marginals]
        error = cls(cliques="; ".join([*words, *map(str, numbers)]), **fields)
        error.lacking, error.lacking_sums = marginals, numbers
        return error


class LevelsTooWideError(LackingMarginalsError):
    reason = "LEVELS_TOO_WIDE"
    text = (
        "The levels of '{attribute}' hold more than one value each, and the card does not determine "
        "what the answer needs of its values: {cliques}."
    )
    advice = "Use `gencard plan` to find and price a card that does."


CHANGE_REASONS: Mapping[str, tuple[str, str]] = {
    "AUDIT_TOO_WEAK": (
        "The audit of a black box needs at least the usual runs, order and level.",
        "Accept the stricter audit, or name a generator that reads no records.",
    ),
    "BOX_NOT_REVIEWED": (
        "The black box has no review of its present digest.",
        "Ask the steward for a review (`gencard-controller boxes review`), or name another generator.",
    ),
    "COLUMN_NOT_OFFERED": (
        "The policy gives programs no recorded numbers of this attribute.",
        "Use its intervals, or ask the steward to add it to `analyses.columns`.",
    ),
    "DIFFERENCING": (
        "Counts were granted of another version of the records, another schema or another rounding; "
        "with these, they could show single records.",
        "Request noise, or the version, schema and rounding that were granted before.",
    ),
    "FORBIDDEN_TOGETHER": (
        "The policy keeps these attributes apart: no statistic may contain them together.",
        "Propose marginals without this set of attributes; the catalogue entry lists `forbidden`.",
    ),
    "GENERATOR_ADDS_NOISE": (
        "The black box of tier `private` has its own noise, and takes no other privacy or weights.",
        "Accept the box's own noise, or name a generator that is fitted to psi.",
    ),
    "GENERATOR_NOT_ALLOWED": (
        "The policy does not offer this generator for these statistics.",
        "Name a generator that the catalogue entry lists, or accept the one offered.",
    ),
    "GENERATOR_READS_RECORDS": (
        "A black box reads the records, which would undo noise, checks or rounding of psi.",
        "Name a generator that is fitted to psi, or request exact counts, if offered as counted.",
    ),
    "HISTOGRAM_NOT_OFFERED": (
        "The policy does not offer this histogram, or only with noise.",
        "Request noise if the catalogue entry lists histograms, or a marginal of the attribute.",
    ),
    "KIND_NOT_OFFERED": (
        "The policy does not offer this kind of analysis in checked runs.",
        "Request kinds that the catalogue entry lists, or answer from psi (`gencard answer`).",
    ),
    "LIBRARY_NOT_OFFERED": (
        "The policy does not offer this library to programs.",
        "Use libraries that the catalogue entry lists, or ask the steward to add it.",
    ),
    "MEASURED_AS_THE_CARD": (
        "Checked runs are measured as the card is.",
        "Request the same mechanism for card and runs.",
    ),
    "MEASURE_NOT_OFFERED": (
        "The policy does not offer this evaluation, or rows without replicated uniques.",
        "Request evaluations that the catalogue entry lists, or none.",
    ),
    "MECHANISM_NOT_OFFERED": (
        "The policy does not offer this way of measuring.",
        "Request a mechanism that the catalogue entry lists: exact counts or a noise.",
    ),
    "MOMENT_NOT_OFFERED": (
        "The policy does not offer this moment.",
        "Request kinds and orders that the catalogue entry lists, or a marginal of the attribute.",
    ),
    "NEIGHBOURING_NOT_OFFERED": (
        "All noise on a dataset has one neighbouring relation, and this is another one.",
        "Request the relation of the catalogue entry.",
    ),
    "NOTHING_LEFT": (
        "No statistic is left after the policy's other objections, which are named beside this code.",
        "Propose statistics to which none of the other codes applies.",
    ),
    "NOT_EXPLAINED": (
        "The controller gave no reason for this change.",
        "Ask the steward before you accept.",
    ),
    "NUMBERS_ROUNDED": (
        "A steward rounded the numbers of this answer.",
        "Use them with the stated digits; ask the steward for more.",
    ),
    "NUMBERS_WITHHELD": (
        "A steward withheld numbers of this answer.",
        "Use the others, or ask the steward which question has an answer.",
    ),
    "ORDER_TOO_HIGH": (
        "The marginal has more attributes than the policy allows in one.",
        "Propose marginals of fewer attributes, or accept the parts that are offered.",
    ),
    "PRICE_TOO_HIGH": (
        "The price exceeds the policy's limit for one card.",
        "Propose fewer or coarser statistics, or less epsilon or rho.",
    ),
    "PROTECTS_PERSONS": (
        "Persons have several records, and noise protects persons.",
        "Accept the offer: noise is scaled to the records of one person.",
    ),
    "READS_RECORDS_ONCE_MORE": (
        "Evaluations, unique-free rows and runs give exact numbers, which would undo noise, checks or "
        "rounding of psi.",
        "Propose the card without them, or request exact counts if they are offered as counted. "
        "Steward: `transform` and `analyses` in one policy exclude each other under exact counts.",
    ),
    "ROUNDING": (
        "The policy rounds exact counts, and exact sums of numbers would say more than rounded counts.",
        "Request noise if the catalogue entry lists it, or a histogram, which is rounded as marginals.",
    ),
    "RUNS_NOT_OFFERED": (
        "The policy offers no such runs on the records.",
        "Answer from psi (`gencard answer`), or ask the steward for `analyses` in the policy.",
    ),
    "STATISTIC_WITHOUT_THE_ATTRIBUTES_OF_WHERE": (
        "A card with a condition needs the attributes of the condition in each statistic.",
        "Add these attributes to each marginal, or drop the condition.",
    ),
    "STEWARD_DECISION": (
        "A steward decided so; no rule of the policy asks for it.",
        "Read the remark in the card's history, or ask the steward.",
    ),
    "SUM_NOT_OFFERED": (
        "The policy does not offer this sum, or only with noise.",
        "Request noise if the catalogue entry lists sums, or a marginal of the attributes.",
    ),
    "TOO_MANY_CELLS": (
        "The marginal has more cells than the policy allows in one.",
        "Propose fewer attributes with fewer levels, or accept the parts that are offered.",
    ),
    "TOO_MANY_MARGINALS": (
        "The card has more statistics than the policy allows.",
        "Propose fewer, or divide them between cards.",
    ),
    "TOO_MANY_NUMBERS": (
        "The answers of runs would hold more numbers than the policy allows.",
        "Request at most the offered number, and ask questions with fewer groups or terms.",
    ),
    "TOO_MANY_ROWS": (
        "The policy allows fewer rows in one release.",
        "Request at most the offered number; a card may have several releases.",
    ),
    "TOO_MANY_RUNS": (
        "The policy allows fewer runs for one card.",
        "Request at most the offered number.",
    ),
    "TRANSFORM_REQUIRED": (
        "The policy gives exact counts only with these checks and this rounding. If one cell fails a "
        "check, the whole measurement is refused and costs one statistic.",
        "Accept, propose coarser marginals, or request noise. Steward: `gencard-controller check` names "
        "the tables that would fail.",
    ),
    "USE_SUMS": (
        "A moment counts each level as one number, and levels of this attribute hold several.",
        "Request sums of its own numbers: of `x` for a mean, also of `x` and `x` for a variance, of `x` "
        "and `y` for a covariance, by an attribute for groups (`total`, `--moment sum=x:group`).",
    ),
}
"""Meaning and advice of each reason of a change, or of a refused proposal or answer, by its code."""


class ProposalRefusedError(NegotiationError):
    """The advice comes from ``CHANGE_REASONS`` if it has all the reasons."""

    reason = "PROPOSAL_REFUSED"
    text = "The policy refuses this proposal and has no counter-offer: {reasons}."
    advice = "Read the policy in the dataset's catalogue entry and propose what it allows."

    def __init__(self, /, **fields: object) -> None:
        super().__init__(**fields)
        codes = str(fields.get("reasons", "")).split(", ")
        if "advice" not in self.fields and all(code in CHANGE_REASONS for code in codes):
            self.advice = " ".join(f"{code}: {' '.join(CHANGE_REASONS[code])}" for code in codes)


class NotAcceptedError(NegotiationError):
    """Raised on the client's side, before it signs the offer."""

    reason = "NOT_ACCEPTED"
    text = "The offer was not signed: {problem}."
    longest_field = 400
    advice = "Nothing was spent. To sign without confirmation, use `--yes`."


class AwaitingStewardError(NegotiationError):
    reason = "AWAITING_STEWARD"
    text = "{card} is waiting for {whom}."
    absent: ClassVar[Mapping[str, str]] = {"whom": "the controller's steward"}
    advice = (
        "Nothing is spent while it waits. Run `gencard cards CARD --wait`, then repeat the "
        "same call, which continues with this card."
    )


class RunRefusedError(NegotiationError):
    """Raised on the client's side: the controller's answer is a signed refusal."""

    reason = "RUN_REFUSED"
    text = "Answer {answer} was refused: {reasons}."
    advice = (
        "Which output rule it breaks depends on the records, so only stewards see it. Ask about more "
        "people or in less detail: a larger subpopulation, fewer groups, fewer terms; or ask the "
        "steward. The same question costs nothing more and gets the same answer. Refusals are counted: "
        "after limits.refusals of them a steward must review them before you can start another run."
    )


class AnswerWaitingError(NegotiationError):
    """Raised on the client's side: a steward has to decide before any number leaves."""

    reason = "ANSWER_WAITING"
    text = "Answer {answer} is waiting for the controller's steward."
    advice = "Repeat the same question later, at no further cost. `gencard answers CARD` lists answers."


# Not allowed for this certificate --------------------------------------------------------------


class AccessError(GencardError):
    reason = "ACCESS"
    text = "Access denied."
    advice = "Ask the controller's steward for a certificate with the role you need."


class UnauthenticatedError(AccessError):
    """``why`` is given only to callers whom the service has identified."""

    reason = "UNAUTHENTICATED"
    text = "The call was refused: {why}."
    absent: ClassVar[Mapping[str, str]] = {"why": "it has no client certificate known to this service"}
    advice = (
        "Connect with the newest certificate and key that the controller gave you: replaced keys and "
        "ended certificates are refused."
    )


class PermissionDeniedError(AccessError):
    reason = "PERMISSION_DENIED"
    text = "The role of this certificate may not call this method."
    advice = "Ask the controller's steward for a certificate with the role you need."


class AuthorityElsewhereError(AccessError):
    """Certificates are issued only on the machine that holds the authority's key."""

    reason = "AUTHORITY_ELSEWHERE"
    text = "The authority's private key is not on the machine of the service."
    advice = (
        "On the machine that holds the key, run `gencard-controller person add NAME "
        "--authority-key FILE`."
    )


class CertificateNotTrustedError(AccessError):
    """``file`` is the caller's certificate."""

    reason = "CERTIFICATE_NOT_TRUSTED"
    text = "Certificate {file} is not trusted by {address}."
    advice = (
        "Check the address. If it is right, run `gencard enrol` and ask the steward for a new "
        "certificate."
    )


class AuthorityMismatchError(AccessError):
    """``folder`` holds the caller's ``authority.pem``."""

    reason = "AUTHORITY_MISMATCH"
    text = "The certificate of the service at {address} was not issued by the authority in {folder}."
    advice = "Check the address. If it is right, ask the steward whether the authority was replaced."


class CertificateExpiredError(AccessError):
    """``certificate`` names the certificate and its owner, who may be the caller or the service."""

    reason = "CERTIFICATE_EXPIRED"
    text = "{certificate} expired on {date}."
    advice = "Ask the steward for a new certificate; for your own, run `gencard enrol` first."


class CertificateNotYetValidError(AccessError):
    """``certificate`` names the certificate and its owner, who may be the caller or the service."""

    reason = "CERTIFICATE_NOT_YET_VALID"
    text = "{certificate} is not valid before {date}."
    advice = "Check the clock of this machine; if it is right, tell the controller's steward."


class HostNameMismatchError(AccessError):
    reason = "HOST_NAME_MISMATCH"
    text = "The certificate of the service at {address} is for other host names: {names}."
    advice = "Connect by one of these names, or ask the steward for a certificate that names this host."


class NotFoundError(AccessError):
    """The resource does not exist, or the caller may not see it; the error does not say which.

    Args:
        what: The kind of resource, with the name that the caller sent where it is short.
    """

    reason = "NOT_FOUND"
    text = "The {what} does not exist, or you have no access to it."
    advice = "List what you may see with `gencard datasets`, `gencard generators` or `gencard cards`."

    absent: ClassVar[Mapping[str, str]] = {"what": "resource"}

    def __init__(self, /, **fields: object) -> None:
        super().__init__(**fields)
        kind = self.fields.get("what", "").partition(" '")[0]
        self.advice = self.fields.get("advice") or _LISTED_BY.get(kind, self.advice)


_LISTED_BY: Mapping[str, str] = {
    "dataset": "`gencard datasets` lists the datasets; names must match exactly.",
    "card": (
        "`gencard cards` lists the cards that you may see, with their full names "
        "(datasets/DATASET/cards/CARD)."
    ),
    "generator or black box": "`gencard generators` lists generators and black boxes.",
    "operation": "Only the caller who started an operation can see it; start it again if it no longer "
    "exists.",
    "ledger line": "Stewards: `gencard steward ledger` lists the lines, with their numbers.",
    "answer": "`gencard answers CARD` lists the answers of a card; stewards: `gencard steward answers`.",
    "release": "`gencard report CARD` shows the releases of a card.",
    "audit": "`gencard report CARD` shows the audits that your role may see.",
}
"""Advice on how to find the right name, by the kind of resource."""

# The budget does not suffice -------------------------------------------------------------------


class BudgetExceededError(GencardError):
    reason = "BUDGET_EXCEEDED"
    text = "The price exceeds the remaining budget of the {scope}."
    advice = (
        "Request fewer statistics or marginals of a lower order; `gencard price` shows the "
        "price of a proposal free of charge."
    )


# The controller's records cannot be used -------------------------------------------------------


class DatasetError(GencardError):
    reason = "DATASET"
    text = "The records cannot be used."
    advice = "Tell the controller's steward; nothing was released."


class DatasetUnavailableError(DatasetError):
    reason = "DATASET_UNAVAILABLE"
    text = "The records of this dataset cannot be read at present."


class RoleNotReadOnlyError(DatasetError):
    """``problem`` lists the excess rights, as the catalogs of the database give them."""

    reason = "ROLE_NOT_READ_ONLY"
    text = "{dataset}: the database role {role} can do more than read the declared tables: {problem}."
    advice = "Steward: revoke these rights, so that the role has only SELECT on the declared tables."


class DatasetChangedError(DatasetError):
    reason = "DATASET_CHANGED"
    text = "The records have changed since the card was agreed."
    advice = "Propose a new card on the current version."


class EmptyDatasetError(DatasetError):
    reason = "EMPTY_DATASET"
    text = "The file contains no records."
    advice = "Provide a file of records, or a folder of Parquet files, with at least one record."


class MissingAttributeError(DatasetError):
    reason = "MISSING_ATTRIBUTE"
    text = "Attribute '{attribute}' is declared in the schema but missing from the records."
    advice = "Steward: correct the records, or the name in the schema; names must match exactly."


class UndeclaredLevelError(DatasetError):
    reason = "UNDECLARED_LEVEL"
    text = "Attribute '{attribute}' has a value that the schema does not declare."
    advice = "Steward: correct the records, or declare the level in the schema and review it."


class MeasurementRefusedError(DatasetError):
    reason = "MEASUREMENT_REFUSED"
    text = "The measurement has no result that may be released; the reason may depend on the records."
    advice = (
        "Propose fewer or coarser marginals, or noise. With exact counts the refusal costs one "
        "statistic, because it is an answer too; with noise the price stays charged."
    )


class StorageError(DatasetError):
    reason = "STORAGE"
    text = "The service could not save its work."
    advice = "Steward: free disk space and check the state folder, then repeat the call."


class StorageReserveError(StorageError):
    """``reserve`` is in MiB."""

    reason = "STORAGE_RESERVE"
    text = "The service has less than {reserve} MiB of free disk space, the reserve for ledger and log."
    advice = "Steward: free disk space, or lower `limits.reserve_mib`, then repeat the call."


# The computation has no result -----------------------------------------------------------------


class ComputationError(GencardError):
    reason = "COMPUTATION"
    text = "The computation has no result: {problem}."
    advice = "Change the card or the plan."


class NotConvergedError(ComputationError):
    reason = "NOT_CONVERGED"
    text = "The fit did not converge: {problem}."
    advice = "Reconcile noisy marginals first, or check that structural zeros are consistent with psi."


class NoEstimateError(ComputationError):
    """The likelihood has no finite maximum, or the model leaves nothing to estimate from."""

    reason = "NO_ESTIMATE"
    text = "The {kind} model cannot be estimated: {problem}."
    advice = "Drop the named term, or merge levels so that each one has enough records."


class NoiseDrownsError(ComputationError):
    """An interval of first order would be wrong, or there is no answer on the noisy counts at all."""

    reason = "NOISE_DROWNS"
    text = "The noise in psi is too large for this analysis, so no estimate is given."
    advice = (
        "Use fewer attributes, merge rare levels, or propose a card with a larger budget or "
        "fewer statistics."
    )


class NoExtremalPairError(ComputationError):
    reason = "NO_EXTREMAL_PAIR"
    text = "No two datasets with the same psi but other differences could be made: {problem}."
    advice = "Phi may determine the records completely. This is not a passed audit: nothing was tested."


class BlackBoxError(ComputationError):
    reason = "BLACK_BOX"
    text = "The black box violated its contract: {problem}."
    advice = (
        "Correct the program: it takes a dataset and a number of rows, and returns that many rows"
        " over the same domain."
    )


class BoxRunFailedError(ComputationError):
    """A box's failures at the records may say something about them, so all of them look alike."""

    reason = "BOX_RUN_FAILED"
    text = "The only run of this card's black box on the records failed."
    advice = "Ask the steward for the cause, then propose a new card."


class ProgramRunFailedError(ComputationError):
    """A program's failures at the records may say something about them, so all of them look alike."""

    reason = "PROGRAM_RUN_FAILED"
    text = "The only run of this program on the records failed."
    advice = (
        "Ask the steward for the cause. A frequent one is a level without records, which changes "
        "a table's shape."
    )


class UniqueFreeFailedError(ComputationError):
    """The removal of replicated uniques failed; success depends on records, so a card has a single try.

    All failures look alike.
    """

    reason = "UNIQUE_FREE_FAILED"
    text = "The only attempt of this card to make a release without replicated uniques failed."
    advice = (
        "Propose another card: with more rows, with other marginals, or without the removal of uniques."
    )


# A signature, digest or replay does not match --------------------------------------------------


class VerificationError(GencardError):
    reason = "VERIFICATION"
    text = "Verification failed: {problem}."
    advice = "Do not use these data; send the files to the controller's steward."


# The service or its job did not finish ---------------------------------------------------------


class OperationError(GencardError):
    reason = "OPERATION"
    text = "The operation did not finish."
    advice = "Start it again; what was already measured is not charged again."


class OperationCancelledError(OperationError):
    reason = "OPERATION_CANCELLED"
    text = "The operation was cancelled."


class JobFailedError(OperationError):
    reason = "JOB_FAILED"
    text = "The job ended without a result (incident {incident})."
    advice = "Give the incident number to the controller's steward."


class JobLimitError(OperationError):
    reason = "JOB_LIMIT"
    text = "The job exceeded its limit of {what}."
    advice = "Request fewer or smaller marginals, fewer rows or fewer runs."


class ServiceUnavailableError(OperationError):
    reason = "SERVICE_UNAVAILABLE"
    text = "The service cannot be reached."
    advice = (
        "Check that the controller is running and that address, certificate and authority are "
        "right, then try again."
    )


class NotLeadingError(ServiceUnavailableError):
    reason = "NOT_LEADING"
    text = "This controller is on standby: another controller is the leader, or is taking over."
    advice = "Give the addresses of all controllers, separated by commas: calls then go to the leader."


class ServiceBusyError(OperationError):
    reason = "SERVICE_BUSY"
    text = "The service has reached its limit of {what}."
    advice = "Wait until your other calls have ended, then try again."


class IsolationError(OperationError):
    reason = "ISOLATION"
    text = "Black boxes cannot be isolated on this machine, so none can run."
    advice = "Steward: install bubblewrap and allow it to create namespaces; see docs/controllers.md."


class ClusterError(OperationError):
    reason = "CLUSTER"
    text = "The controller's cluster cannot do this: {problem}."
    advice = "Steward: run `gencard-controller doctor`, and read the messages of the workers."


class WorkerError(ClusterError):
    reason = "WORKER"
    text = "The worker '{worker}' of the controller's cluster {problem}, so the audit ended."
    advice = (
        "Start the audit again: it uses other workers or the controller. Steward: examine the worker, "
        "then run `gencard-controller worker admit NAME`."
    )


class DeadlineError(OperationError):
    reason = "DEADLINE"
    text = "The call exceeded its deadline."
    advice = "Try again; a long job continues and can be followed as an operation."


class InternalError(OperationError):
    reason = "INTERNAL"
    text = "The service had an internal error (incident {incident})."
    advice = "Give the incident number to the controller's steward."


def unreadable(field: str, path: object) -> InvalidInputError:
    """Return the error on a file that the caller named and that cannot be read."""
    advice = "Check that the file exists and that you may read it."
    return InvalidInputError(field=field, problem=f"cannot read {path}", advice=advice)


def unwritable(field: str, path: object, verb: str = "write") -> InvalidInputError:
    """Return the error on a file or folder that cannot be written, made or replaced (``verb``)."""
    advice = "Check that the folder exists, that you may write to it, and that its disk is not full."
    return InvalidInputError(field=field, problem=f"cannot {verb} {path}", advice=advice)


def forget_frames(error: BaseException | None) -> None:
    """Delete the tracebacks of an error and of its causes.

    A traceback refers to frames, and a frame may refer to the error. This cycle would keep the frames
    and all their variables in memory until the garbage collector runs.
    """
    while error is not None:
        error.__traceback__, error = None, error.__cause__ or error.__context__
