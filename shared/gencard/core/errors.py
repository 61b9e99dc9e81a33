"""Every error a person can meet, drawn as one tree.

An error is a *reason* (stable, for programs), a *text* (one public sentence whose blanks are filled
from ``fields``) and an *advice* (what to do next). Fields hold only what the caller said or what is
public by declaration: never a record, never a count, never the message of another exception.

    GencardError
    ├── InvalidInputError        what was sent is wrong; sending it again will not help
    ├── TooLargeError            refused before any work: over a bound
    ├── NegotiationError         right request, wrong moment
    ├── AccessError              who you are does not allow it
    ├── BudgetExceededError      the ledger says no
    ├── DatasetError             the controller's records cannot be used
    ├── ComputationError         the mathematics has no answer
    ├── VerificationError        a signature, digest or replay does not agree
    └── OperationError           the service or its job did not finish
"""

from typing import ClassVar


class GencardError(Exception):
    """Root of the tree.

    >>> error = UnknownAttributeError(attribute="sex")
    >>> error.reason, str(error)
    ('UNKNOWN_ATTRIBUTE', "Attribute 'sex' is not declared in the dataset's public schema.")
    """

    reason: ClassVar[str] = "GENCARD"
    text: ClassVar[str] = "Gencard could not do this."
    advice: ClassVar[str] = "Read the documentation of the call."
    longest_field: ClassVar[int] = 200

    def __init__(self, /, **fields: object) -> None:
        self.fields = {
            name: _printable(str(value), self.longest_field) for name, value in fields.items()
        }
        super().__init__(self.text.format(**self.fields))


def _printable(value: str, longest: int) -> str:
    """One line, no control characters, bounded: what may be put in a log or on a terminal."""
    clean = "".join(character if character.isprintable() else "?" for character in value)
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


# What was sent is wrong ------------------------------------------------------------------------


class InvalidInputError(GencardError):
    reason = "INVALID_INPUT"
    text = "{field}: {problem}."
    advice = "Correct what is named, then try again."


class UnknownAttributeError(InvalidInputError):
    reason = "UNKNOWN_ATTRIBUTE"
    text = "Attribute '{attribute}' is not declared in the dataset's public schema."
    advice = "List the schema with `gencard datasets NAME` and use a declared attribute."


class InvalidDomainError(InvalidInputError):
    reason = "INVALID_DOMAIN"
    text = "The domain is not valid: {problem}."
    advice = "Attributes need distinct, non-empty names and sizes from 1 to 65536."


class InvalidCliqueError(InvalidInputError):
    reason = "INVALID_CLIQUE"
    text = "The clique ({clique}) is not valid: {problem}."
    advice = "A clique names one or more different attributes, and a workload names it once."


class InvalidNumberError(InvalidInputError):
    reason = "INVALID_NUMBER"
    text = "{field} must be {expected}."
    advice = "Send a finite number in the range named."


class InvalidCodingError(InvalidInputError):
    reason = "INVALID_CODING"
    text = "The coding of attribute '{attribute}' is not valid: {problem}."
    advice = "Correct the schema: labels must differ, edges must increase."


class InvalidDatasetError(InvalidInputError):
    reason = "INVALID_DATASET"
    text = "The dataset is not valid: {problem}."
    advice = "Codes are integers from 0 to size - 1, one column for each attribute."


class DomainMismatchError(InvalidInputError):
    reason = "DOMAIN_MISMATCH"
    text = "The domains do not agree: {problem}."
    advice = "Project the dataset to the attributes of the card first."


class InvalidPsiError(InvalidInputError):
    reason = "INVALID_PSI"
    text = "psi is not valid: {problem}."
    advice = "Use psi as it was released, with the card it was released under."


class InvalidFormulaError(InvalidInputError):
    reason = "INVALID_FORMULA"
    text = "The formula is not valid at position {position}: {problem}."
    advice = "Write it as in: response ~ a + b * c; other names than words go into `backticks`."


class NotReplayableError(InvalidInputError):
    reason = "NOT_REPLAYABLE"
    text = "These rows cannot be replayed: records decided about them, and not psi alone."
    advice = (
        "`gencard verify` checks what speaks for them: receipt, digests, and the verdict of an audit."
    )


class RequestIdReusedError(InvalidInputError):
    reason = "REQUEST_ID_REUSED"
    text = "This request_id was used before with another request."
    advice = "Make a new random UUID for each new request; repeat one only to retry the same request."


# Refused before any work -----------------------------------------------------------------------


class TooLargeError(GencardError):
    reason = "TOO_LARGE"
    text = "{what} is over the bound of {limit}."
    advice = "Ask for fewer or smaller marginals, fewer rows or fewer runs."


class ModelTooLargeError(TooLargeError):
    """``largest`` names the attribute sets whose tables are largest, with their cells."""

    reason = "MODEL_TOO_LARGE"
    text = "The generator's model is over the bound of {limit} cells: {largest}."
    advice = (
        "Ask for fewer marginals on these attributes, or for a generator that needs less: "
        "`gencard generators` lists the bound of each."
    )
    longest_field = 400  # whole names of attributes


class NotFittableError(TooLargeError):
    """Found by a trial on made-up records of the same attributes; no record was read."""

    reason = "NOT_FITTABLE"
    text = (
        "The generator would miss marginals of this shape: a trial on made-up records did not come near "
        "enough. {remedy}."
    )
    advice = "Change the proposal as the message says, and propose again. Nothing was measured or paid."
    longest_field = 400


# Right request, wrong moment -------------------------------------------------------------------


class NegotiationError(GencardError):
    reason = "NEGOTIATION"
    text = "The negotiation does not allow this."
    advice = "Look at the card's state and turn with `gencard cards`."


class WrongTurnError(NegotiationError):
    reason = "WRONG_TURN"
    text = "It is the {turn}'s turn to move on this card."
    advice = "Wait for the other side, or terminate the negotiation."


class StaleEtagError(NegotiationError):
    reason = "STALE_ETAG"
    text = "The card has changed since you read it."
    advice = "Read the card again, look at what changed, and repeat the call with the new etag."


class CardStateError(NegotiationError):
    reason = "CARD_STATE"
    text = "A card in state {state} does not allow this."
    advice = "Show the card with `gencard cards CARD`: it says what its next step is."


class CardExpiredError(NegotiationError):
    reason = "CARD_EXPIRED"
    text = "The card has expired."
    advice = "Propose the same card again."


class AuditRequiredError(NegotiationError):
    reason = "AUDIT_REQUIRED"
    text = (
        "The generator reads records, and no audit of it has passed under this card, or an audit of the "
        "generator (of any version) found leakage on this dataset since."
    )
    advice = (
        "Run `gencard audit CARD --where card`, then ask for rows. After a verdict of leakage use "
        "another generator, or ask the steward (`gencard-controller audits`)."
    )


class TooManyAuditsError(NegotiationError):
    """Each audit costs a run at the records, so their number has a bound for each submitter."""

    reason = "TOO_MANY_AUDITS"
    text = "All {limit} audits that one submitter may begin on this dataset have been begun."
    advice = "Ask the steward, who may set `limits.audits` higher."


class QuotaExceededError(NegotiationError):
    """``setting`` is the limit's name in ``[limits]`` of the controller's settings."""

    reason = "QUOTA_EXCEEDED"
    text = "All {limit} {what} that one certificate may have here are in use (limits.{setting})."
    advice = "Run `gencard terminate CARD` on open proposals, or ask the steward to raise the limit."


class TooManyRefusalsError(NegotiationError):
    """What fails at the records may say something about them, so a steward looks before more of it."""

    reason = "TOO_MANY_REFUSALS"
    text = "{limit} of your operations have failed at the records of this dataset."
    advice = "Ask the steward to look at them, with `gencard-controller refusals`."


class GeneratorChangedError(NegotiationError):
    reason = "GENERATOR_CHANGED"
    text = "What runs by the name of the card's generator is not what the card names."
    advice = "Propose a new card: what runs now is named there, and audited anew."


class RecordsProtectedError(NegotiationError):
    """Noise, rounding and checks would be undone by other numbers about the same records."""

    reason = "RECORDS_PROTECTED"
    text = "{what} at the records is not offered here: {why}."
    advice = (
        "Audit on made-up records (`gencard audit CARD`), or ask the steward whether the policy may "
        "offer a card that allows it."
    )


class BoxNotLentError(NegotiationError):
    reason = "BOX_NOT_LENT"
    text = "The controller does not lend the black box '{name}': it runs on no dataset of a caller."
    advice = "Ask a steward to write its name into black_boxes of [lending] in the settings."


class BoxNotReviewedError(NegotiationError):
    reason = "BOX_NOT_REVIEWED"
    text = "Nobody has reviewed the card's black box with the digest that the card names."
    advice = "Ask the steward to review it: `gencard-controller boxes review NAME --by ...`."


class NoPsiError(NegotiationError):
    """Cards of tier private: exact statistics beside epsilon would undo what epsilon promises."""

    reason = "NO_PSI"
    text = "A card of tier private has no psi: its generator adds noise, and nothing else is measured."
    advice = "Use the rows, the receipt and the claim on the card; fidelity cannot be had without psi."


class ProposalRefusedError(NegotiationError):
    reason = "PROPOSAL_REFUSED"
    text = "The policy refuses this proposal and has no nearer one to offer: {reasons}."
    advice = "Read the policy in the dataset's catalogue entry and ask for what it allows."


# Who you are does not allow it -----------------------------------------------------------------


class AccessError(GencardError):
    reason = "ACCESS"
    text = "Access is not allowed."
    advice = "Ask the controller's steward for a certificate with the role you need."


class UnauthenticatedError(AccessError):
    reason = "UNAUTHENTICATED"
    text = "The call carries no client certificate that this service knows."
    advice = "Connect with the certificate, key and authority that the controller gave you."


class PermissionDeniedError(AccessError):
    reason = "PERMISSION_DENIED"
    text = "The role of this certificate may not call this method."
    advice = "Ask the controller's steward for a certificate with the role you need."


class CertificateNotTrustedError(AccessError):
    """``file`` is the caller's certificate."""

    reason = "CERTIFICATE_NOT_TRUSTED"
    text = "Certificate {file} is not trusted by {address}."
    advice = "Check the address. If it is right, ask the steward for a new one: run `gencard enrol`."


class AuthorityMismatchError(AccessError):
    """``folder`` holds the caller's ``authority.pem``."""

    reason = "AUTHORITY_MISMATCH"
    text = "The service at {address} does not show a certificate of the authority in {folder}."
    advice = "Check the address. If it is right, ask the steward whether the authority was replaced."


class CertificateExpiredError(AccessError):
    """``certificate`` says whose it is."""

    reason = "CERTIFICATE_EXPIRED"
    text = "{certificate} expired on {date}."
    advice = "Ask the steward for a new one; for your own certificate, run `gencard enrol` first."


class CertificateNotYetValidError(AccessError):
    """``certificate`` says whose it is."""

    reason = "CERTIFICATE_NOT_YET_VALID"
    text = "{certificate} is not valid before {date}."
    advice = "Check the clock of this machine; if it is right, tell the controller's steward."


class HostNameMismatchError(AccessError):
    reason = "HOST_NAME_MISMATCH"
    text = "The certificate of the service at {address} names other hosts: {names}."
    advice = "Connect by a name in the certificate, or ask the steward for one that names this host."


class NotFoundError(AccessError):
    reason = "NOT_FOUND"
    text = "There is no such resource, or it is not yours."
    advice = "List what you can see: `gencard datasets`, `generators` or `cards`; names are exact."


# The ledger says no ----------------------------------------------------------------------------


class BudgetExceededError(GencardError):
    reason = "BUDGET_EXCEEDED"
    text = "The {scope}'s budget does not cover the price."
    advice = "Ask for fewer statistics; the price of a proposal is shown by validate_only."


# The controller's records cannot be used -------------------------------------------------------


class DatasetError(GencardError):
    reason = "DATASET"
    text = "The records cannot be used."
    advice = "Tell the controller's steward; nothing was released."


class DatasetUnavailableError(DatasetError):
    reason = "DATASET_UNAVAILABLE"
    text = "The records of this dataset cannot be read at present."


class DatasetChangedError(DatasetError):
    reason = "DATASET_CHANGED"
    text = "The records are not the version that the card names."
    advice = "Propose a new card on the present version."


class EmptyDatasetError(DatasetError):
    reason = "EMPTY_DATASET"
    text = "The file holds no records."
    advice = "Give a CSV or Parquet file with at least one record."


class MissingAttributeError(DatasetError):
    reason = "MISSING_ATTRIBUTE"
    text = "Attribute '{attribute}' is declared, but the records do not have it."
    advice = "Steward: correct the records, or the name in the schema; names are exact."


class UndeclaredLevelError(DatasetError):
    reason = "UNDECLARED_LEVEL"
    text = "Attribute '{attribute}' holds a value that the schema does not declare."
    advice = "Steward: correct the records, or declare the level in the schema and review it."


class MeasurementRefusedError(DatasetError):
    reason = "MEASUREMENT_REFUSED"
    text = "The records gave no answer that may be told; why, may depend on them."
    advice = "Propose fewer or coarser marginals, or noise. The price stays spent: this is an answer."


class StorageError(DatasetError):
    reason = "STORAGE"
    text = "The service could not store its work."
    advice = "Steward: free disk space and look at the state folder; then run the call again."


class StorageReserveError(StorageError):
    """``reserve`` is in MiB."""

    reason = "STORAGE_RESERVE"
    text = "The service has less than {reserve} MiB of free space, which are kept for ledger and log."
    advice = "Steward: free disk space, or lower `limits.reserve_mib`; then run the call again."


# The mathematics has no answer -----------------------------------------------------------------


class ComputationError(GencardError):
    reason = "COMPUTATION"
    text = "There is no answer: {problem}."
    advice = "Change the card or the plan."


class NotConvergedError(ComputationError):
    reason = "NOT_CONVERGED"
    text = "The fit did not reach its tolerance: {problem}."
    advice = "Reconcile noisy marginals first, or check that structural zeros leave room for psi."


class NoExtremalPairError(ComputationError):
    reason = "NO_EXTREMAL_PAIR"
    text = "No two datasets share this psi and differ outside it: {problem}."
    advice = "Phi may determine everything here. This is not a pass: nothing was tested."


class BlackBoxError(ComputationError):
    reason = "BLACK_BOX"
    text = "The black box broke its contract: {problem}."
    advice = "Mend the program: a dataset and a number of rows in, so many rows over its domain out."


class BoxRunFailedError(ComputationError):
    """How a box failed at the records may say something about them, so all its failures look alike."""

    reason = "BOX_RUN_FAILED"
    text = "The black box of this card did not end its run at the records, and it has but one."
    advice = "Ask the steward to look why; rows need another card."


class UniqueFreeFailedError(ComputationError):
    """Whether it can be had depends on records, so a card has one try, whose failures all look alike."""

    reason = "UNIQUE_FREE_FAILED"
    text = "A release without replicated uniques could not be had, and this card has but one try."
    advice = "Propose another card: for more rows, with other marginals, or with its uniques."


# A signature, digest or replay does not agree --------------------------------------------------


class VerificationError(GencardError):
    reason = "VERIFICATION"
    text = "Verification failed: {problem}."
    advice = "Do not use these data; send the files to the controller's steward."


# The service or its job did not finish ---------------------------------------------------------


class OperationError(GencardError):
    reason = "OPERATION"
    text = "The operation did not finish."
    advice = "Start it again; what was already measured costs nothing more."


class OperationCancelledError(OperationError):
    reason = "OPERATION_CANCELLED"
    text = "The operation was cancelled."


class JobFailedError(OperationError):
    reason = "JOB_FAILED"
    text = "The job ended without a result (incident {incident})."
    advice = "Give the incident's number to the controller's steward."


class JobLimitError(OperationError):
    reason = "JOB_LIMIT"
    text = "The job went over its limit of {what}."
    advice = "Ask for fewer or smaller marginals, fewer rows or fewer runs."


class ServiceUnavailableError(OperationError):
    reason = "SERVICE_UNAVAILABLE"
    text = "The service cannot be reached."
    advice = "Check that the controller serves, and address, certificate, authority; then try again."


class ServiceBusyError(OperationError):
    reason = "SERVICE_BUSY"
    text = "The service is at its limit of {what}."
    advice = "Wait for your other calls to end and try again."


class IsolationError(OperationError):
    reason = "ISOLATION"
    text = "Black boxes cannot be kept apart on this machine, so none runs."
    advice = "Steward: install bubblewrap and allow it namespaces; see docs/controllers.md."


class DeadlineError(OperationError):
    reason = "DEADLINE"
    text = "The call took longer than its deadline."
    advice = "Try again; a long job goes on and can be watched as an operation."


class InternalError(OperationError):
    reason = "INTERNAL"
    text = "The service met an error of its own (incident {incident})."
    advice = "Give the incident's number to the controller's steward."
