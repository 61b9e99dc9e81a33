"""The view of the log: search, and single entries with their proof."""

from collections.abc import Iterator

from starlette.requests import Request

from gencard.controller.page.security import Form
from gencard.controller.page.views import ChangeResult, Context, FormAction, View
from gencard.controller.page.views.budget import card_of
from gencard.controller.state.database import Page
from gencard.controller.state.log import Event
from gencard.controller.stewards.desk import Desk
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.wire.keys import Identity
from gencard.wire.log import log_entry_document

_ENTRIES = 100


def _log(request: Request, desk: Desk, who: Identity) -> Context:  # noqa: ARG001
    return _entries(desk, who, "", "")


def _search(form: Form, desk: Desk, who: Identity) -> ChangeResult:
    """Return the matching entries; by POST, so that no address contains a search text."""
    query = form.text("q")
    context = _entries(desk, who, query, form.text("before"))
    return ChangeResult("/log", template="log.html", context=context)


def _entries(desk: Desk, who: Identity, query: str, token: str) -> Context:
    page: Page[Event] = Page((), "")
    problem = ""
    try:
        page = desk.search_log(who, query, _ENTRIES, token)
    except InvalidInputError as error:  # shown beside the field: half a day is typed on the way to one
        problem = error.message
    return {
        "title": "Log",
        "query": query,
        "problem": problem,
        "later": bool(token),
        "entries": [
            {"event": event, "link": link_of(event.resource), "details": list(_details(event))}
            for event in page.rows
        ],
        "next_token": page.next_token,
    }


def _details(event: Event) -> Iterator[tuple[str, str]]:
    """Yield the details as people read them: a changed rule as before and after, digests in short."""
    details = dict(sorted(event.details.items()))
    if "field" in details:
        yield details.pop("field"), f"{details.pop('before', '')} → {details.pop('after', '')}"
    for name, text in details.items():
        yield name.replace("_", " "), f"{text[:12]}…" if len(text) == 64 else text


def link_of(resource: str) -> str:
    """Return the page's address of a resource; empty if no page shows it.

    >>> link_of("datasets/fair/cards/c1/audits/a1")
    '/audits/datasets/fair/cards/c1/audits/a1'
    """
    parts = resource.split("/")
    if len(parts) == 6 and parts[4] in ("audits", "releases"):
        return f"/{parts[4]}/{resource}"
    if card := card_of(resource):
        return f"/cards/{card}"
    return {"people": "/people", "datasets": f"/budget/{resource}"}.get(parts[0], "")


def _entry(request: Request, desk: Desk, who: Identity) -> Context:
    archive = desk.archive(who)
    proof = archive.proof(_index(request.path_params["index"]))
    event = proof.event
    return {
        "title": f"Log entry {event.index}",
        "event": event,
        "link": link_of(event.resource),
        "proof": proof,
        "document": log_entry_document(proof.entry).decode(),
        "checkpoint": proof.checkpoint.decode(),
        "size": proof.entry.size,
    }


def _verified(request: Request, desk: Desk, who: Identity) -> Context:
    archive = desk.archive(who)
    steps = archive.steps(archive.proof(_index(request.path_params["index"])))
    return {"steps": steps, "holds": all(step.holds for step in steps)}


def _index(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidNumberError(field="index", expected="the number of an entry of the log")
    return int(text)


VIEWS = (
    View("/log", "log.html", _log, "Log", label="Log", key="l"),
    View("/log/{index}", "log_entry.html", _entry, "Log entry", under="/log"),
    View("/log/{index}/verified", "log_verified.html", _verified, "Proof", under="/log"),
)
CHANGES = (FormAction("/log", _search),)
