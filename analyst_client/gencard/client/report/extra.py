"""The modules that draw pages, which need the extra ``report``."""

from importlib import import_module
from types import ModuleType

from gencard.core.errors import InvalidInputError


def page_module(name: str) -> ModuleType:
    """The module of this room that renders a page.

    Raises:
        InvalidInputError: The extra ``report`` is not installed.
    """
    try:
        return import_module(f"gencard.client.report.{name}")
    except ModuleNotFoundError:
        problem = "HTML pages need: pip install 'gencard[report]'"
        raise InvalidInputError(field="report", problem=problem) from None
