"""``gencard-controller``: the steward's shell."""

import os

from gencard.core.errors import GencardError, NotFoundError
from gencard.shell import print_error

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC reads it once, when it is imported

_LISTED_BY = {
    "ledger line": "List the lines with `gencard-controller ledger`.",
    "operation": "List failures and refusals with `gencard-controller refusals`; names are exact.",
    "answer": "List answers that wait with `gencard-controller answers`; names are exact.",
    "refused worker": "List workers with `gencard-controller doctor`.",
    "generator or black box": "List black boxes with `gencard-controller boxes`.",
}
"""Advice on what is not there, where it differs from that to an analyst; ``_CARDS`` on all else."""

_CARDS = "List cards with `gencard-controller cards`; names are exact."


def advice_of(error: GencardError) -> str:
    """Return the advice to a steward at this shell."""
    if error.reason != NotFoundError.reason:
        return error.advice
    return _LISTED_BY.get(error.fields.get("what", "").partition(" '")[0], _CARDS)


def say_error(error: GencardError) -> None:
    """Print an error and its advice."""
    print_error(error, advice_of(error))
