"""Views of the stewards' page, by subject: from a request and the desk to the context of a template.

In: a signed-in steward. Out: results of the desk, arranged; nothing here reads the state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from gencard.controller.page.security import Form
from gencard.controller.stewards.desk import Desk
from gencard.wire.keys import Identity

Context = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    """A page, or a part of a page that htmx fetches.

    Args:
        path: Path in Starlette's notation; names of resources are ``{name:path}``.
        template: File below ``templates``; a whole page extends ``base.html``.
        show: Returns the context of the template, without the signed-in steward; raises GencardError.
        title: Title of the page.
        label: Label in the navigation; empty for views that are not in it.
        key: Key of the keyboard shortcut, after g.
        under: Path of the view in the navigation that this view belongs to.
    """

    path: str
    template: str
    show: Callable[[Request, Desk, Identity], Context]
    title: str
    label: str = ""
    key: str = ""
    under: str = ""


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """Result of a change: the location of the next page, and its notice.

    Args:
        template: Template to show at once instead, if no page shows the result.
        context: Context of the template, besides that of all views.
    """

    location: str
    notice: str = ""
    template: str = ""
    context: Context = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FormAction:
    """A form that was sent, other than a decision; its token and its origin were checked.

    Args:
        path: Path of the form's ``action``.
        make: Raises GencardError.
    """

    path: str
    make: Callable[[Form, Desk, Identity], ChangeResult]
