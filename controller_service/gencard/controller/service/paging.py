"""Page sizes as the protos promise them."""

from gencard.core.errors import InvalidNumberError

USUAL = 50
LARGEST = 500


def page_size(asked: int) -> int:
    """0 means 50; more than 500 is refused.

    Raises:
        InvalidNumberError: Below 0 or over 500.
    """
    if not 0 <= asked <= LARGEST:
        raise InvalidNumberError(field="page_size", expected=f"from 0 to {LARGEST}")
    return asked or USUAL
