"""The view of the queue: items that wait, for whom, and since when."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.requests import Request

from gencard.controller.page.views import Context, FormAction, View
from gencard.controller.stewards.desk import Desk
from gencard.controller.stewards.waiting import ANALYST
from gencard.wire.keys import Identity
from gencard.wire.steward import Waiting, WaitingKind

SIZE = 100
"""Entries of a page."""

LATE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A row of the list of waiting items.

    Args:
        text: A card's purpose, or the queue's text about the item.
        place: Address of the page on which a steward decides.
        late: Whether the item has waited for a steward longer than ``LATE``.
        yours: Whether a steward can act on the item.
    """

    waiting: Waiting
    text: str
    place: str
    late: bool
    yours: bool


def show_queue(request: Request, desk: Desk, who: Identity) -> Context:
    """Return a page of waiting items, oldest first, and of failures with the data to dismiss them."""
    after = request.query_params.get("after", "")
    page = desk.queue(who, SIZE, after)
    purposes = desk.purposes(who, [one.resource for one in page.rows])
    return {
        "page": page,
        "later": bool(after),
        "address": request.url.path + (f"?{request.url.query}" if after else ""),
        "rows": [row_of(one, purposes.get(one.resource, ""), desk.clock()) for one in page.rows],
        "refusals": () if after else desk.refusals(who),
    }


def row_of(waiting: Waiting, purpose: str, now: datetime) -> WaitingRow:
    """Return the row of one item."""
    yours = waiting.waits_for != ANALYST
    decided = waiting.text.partition("; ")[2]
    text = f"{purpose}; {decided}" if purpose and decided else purpose or waiting.text
    return WaitingRow(waiting, text, place_of(waiting), yours and waiting.since < now - LATE, yours)


def place_of(waiting: Waiting) -> str:
    """Return the address of the page on which a steward decides on an item; empty if none has it."""
    parts = waiting.resource.split("/")
    if waiting.kind == WaitingKind.REFUSAL:
        return "#failures"
    match parts:
        case ["datasets", _, "cards", _]:
            return f"/cards/{waiting.resource}"
        case ["datasets", _, "cards", _, *_]:
            return f"/answers/{waiting.resource}"
        case ["people" | "keys", *_]:
            return "/people"
        case ["ledger", _]:
            return "/budget"
    return ""


VIEWS = (View("/", "queue.html", show_queue, "Queue", label="Queue", key="q"),)
CHANGES: tuple[FormAction, ...] = ()
