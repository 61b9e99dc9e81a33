"""The single attempt of a card without replicated uniques: whether it succeeds depends on records.

So it is reported once in a card's life. A release that ended before anything could be known is no
attempt; after any other end but success there is one error for all, which the state keeps.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gencard.controller.operations.failures import UNSEEN, error_of_document
from gencard.controller.state.operations import UNFINISHED, OperationRow
from gencard.core.errors import (
    GencardError,
    ServiceBusyError,
    ServiceUnavailableError,
    UniqueFreeFailedError,
)

_UNTRIED = (*UNSEEN, ServiceUnavailableError)


def check_not_attempted(releases: Iterable[OperationRow]) -> None:
    """Look at all that was ever begun under the card, before another try begins.

    Raises:
        UniqueFreeFailedError: The one try failed.
        ServiceBusyError: It still goes on.
    """
    for row in releases:
        if row.state in UNFINISHED:
            raise ServiceBusyError(what="concurrent releases of a card without replicated uniques")
        if row.error and isinstance(error_of_document(row.error), UniqueFreeFailedError):
            raise UniqueFreeFailedError


@contextmanager
def single_attempt() -> Iterator[None]:
    """Around all that follows a look at the records.

    Raises:
        OperationCancelledError, ServiceUnavailableError, NegotiationError, DatasetUnavailableError,
        DatasetChangedError: It ended before anything could be known.
        UniqueFreeFailedError: Anything else went wrong.
    """
    try:
        yield
        return
    except _UNTRIED:
        raise
    except GencardError:
        pass
    raise UniqueFreeFailedError
