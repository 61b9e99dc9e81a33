"""``gencard-controller``: the steward's shell."""

import os
import re
from collections.abc import Callable

from gencard.core.errors import GencardError, NotFoundError, NotLeadingError, TooLargeError
from gencard.shell import print_error

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC reads it once, when it is imported

_LISTED_BY = {
    "ledger line": "List the lines with `gencard-controller emergency ledger`.",
    "operation": "List failures with `gencard-controller emergency refusals`; names are exact.",
    "answer": "List answers with `gencard-controller emergency answers list`; names are exact.",
    "refused worker": "List workers with `gencard-controller doctor`.",
    "generator or black box": "List black boxes with `gencard-controller boxes`.",
}
"""Advice on what is not there, where it differs from that to an analyst; ``_CARDS`` on all else."""

_CARDS = "List cards with `gencard-controller emergency cards`; names are exact."

_READ_RECORDS = (
    "Check that the file or table is there, whole, and may be read by this account; `init` and "
    "`gencard-controller check` name the line or cell that is wrong."
)
_HERE = {
    "DATASET": _READ_RECORDS,
    "DATASET_UNAVAILABLE": _READ_RECORDS,
    "BOX_NOT_LENT": "Add its name to black_boxes in the [lending] section of the settings.",
    "BOX_NOT_REVIEWED": "Review it: `gencard-controller boxes review NAME --by ...`.",
    "STORAGE": (
        "Run the command as the account that runs the service, and check that this account can read and "
        "write the state, and that the disk has space."
    ),
    "TOO_MANY_REFUSALS": "Run `gencard-controller emergency refusals`.",
}
"""Advice to a steward, by the reason of an error, if others are advised to ask one."""

_TO_ASK = re.compile(r"[^.;]*\b(ask|tell) the (controller's )?steward\b[^.;]*[.;]?", re.IGNORECASE)


def advice_of(error: GencardError) -> str:
    """Return the advice for a steward at this shell, without "ask the steward"."""
    if error.reason != NotFoundError.reason:
        rest = _TO_ASK.sub("", error.advice).strip()
        return _HERE.get(error.reason) or rest or "Run `gencard-controller doctor`."
    return _LISTED_BY.get(error.fields.get("what", "").partition(" '")[0], _CARDS)


def say_error(error: GencardError) -> None:
    print_error(error, advice_of(error))


def run_shell(run: Callable[[], object]) -> int:
    """Run a shell; a typed error becomes one line, advice, and exit code 1, or 3 of a lost lead."""
    try:
        run()
    except GencardError as error:
        say_error(error)
        return 3 if isinstance(error, NotLeadingError) else 1
    except MemoryError:
        advice = "Free memory, or raise the process's limit, as with `ulimit -v`."
        what, limit = "The memory for this command", "what this process may use"
        say_error(TooLargeError(what=what, limit=limit, advice=advice))
        return 1
    return 0
