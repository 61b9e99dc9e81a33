"""Views of the stewards' page, by subject: from a request and the desk to what a template shows.

In: a signed-in steward. Out: what the desk gives, arranged; nothing here reads the state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from gencard.controller.page.security import Form
from gencard.controller.stewards.desk import Desk
from gencard.wire.signatures.identity import Identity

Context = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    """A page, or a part of one that htmx fetches.

    Args:
        path: As Starlette reads it; names of resources are ``{name:path}``.
        template: Below ``templates``; a whole page extends ``base.html``.
        show: What the template is given besides who is signed in; raises GencardError.
        title: Of the page.
        label: In the navigation; empty for views that are not in it.
        key: Of the keyboard, after g.
        under: Path of the view in the navigation that this one belongs to.
    """

    path: str
    template: str
    show: Callable[[Request, Desk, Identity], Context]
    title: str
    label: str = ""
    key: str = ""
    under: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """What comes of a change: where the browser goes, and what the next page says.

    Args:
        template: Shown at once instead, where what came of it stands on no page.
        context: What the template is given besides what all views are given.
    """

    location: str
    notice: str = ""
    template: str = ""
    context: Context = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """A form that was sent, other than a decision; its token and its origin were checked.

    Args:
        path: Of the form's ``action``.
        make: Raises GencardError.
    """

    path: str
    make: Callable[[Form, Desk, Identity], Done]
