"""How operations failed, as the state keeps it: reason and fields, and no text."""

import json

from gencard.core.errors import GencardError, InternalError
from gencard.wire.codecs.error_table import error_named


def error_document(error: GencardError) -> bytes:
    """An error as the state keeps it: reason and fields."""
    return json.dumps({"reason": error.reason, "fields": error.fields}, sort_keys=True).encode()


def error_of_document(document: bytes | None) -> GencardError:
    """The error that the state keeps; InternalError where the catalogue no longer holds it."""
    told = json.loads(document or b"{}")
    found = error_named(told.get("reason", ""), told.get("fields", {}))
    return found or InternalError(incident="unlisted")
