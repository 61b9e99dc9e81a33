"""``gencard-controller``: the steward's shell."""

import os

from gencard.core.errors import GencardError, NotFoundError
from gencard.shell import print_error

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC reads it once, when it is imported

_ADVICE = {NotFoundError.reason: "List cards with `gencard-controller cards`; names are exact."}
"""Advice to a steward where it differs from that to an analyst."""


def say_error(error: GencardError) -> None:
    """Print an error and its advice."""
    print_error(error, _ADVICE.get(error.reason, error.advice))
