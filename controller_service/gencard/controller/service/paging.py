"""Page sizes as the protos promise them."""

from gencard.core.errors import InvalidNumberError

USUAL = 50
LARGEST = 500


def page_size(asked: int) -> int:
    """0 means 50; more than 500 is refused.

    Raises:
        InvalidNumberError: Over 500.
    """
    if asked > LARGEST:
        raise InvalidNumberError(field="page_size", expected=f"at most {LARGEST}")
    return asked or USUAL
