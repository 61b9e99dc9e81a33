"""The queue: what waits for whom, and since when."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.requests import Request

from gencard.controller.page.views import Change, Context, View
from gencard.controller.stewards.desk import Desk
from gencard.controller.stewards.reading import ANALYST
from gencard.wire.signatures.identity import Identity
from gencard.wire.steward import Waiting

SIZE = 100
"""Entries of a page."""

LATE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """Something that waits, as the list shows it.

    Args:
        text: A card's purpose, or what the queue says of it.
        place: Where a steward sees it and decides.
        late: It has waited for a steward longer than ``LATE``.
        yours: A steward can do something about it.
    """

    waiting: Waiting
    text: str
    place: str
    late: bool
    yours: bool


def show_queue(request: Request, desk: Desk, who: Identity) -> Context:
    """One page of what waits, oldest first; failures at the records with what dismissing them needs."""
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
    """One line of the list."""
    yours = waiting.waits_for != ANALYST
    decided = waiting.text.partition("; ")[2]
    text = f"{purpose}; {decided}" if purpose and decided else purpose or waiting.text
    return WaitingRow(waiting, text, place_of(waiting), yours and waiting.since < now - LATE, yours)


def place_of(waiting: Waiting) -> str:
    """Where a steward sees what waits."""
    parts = waiting.resource.split("/")
    if waiting.kind == "refusal":
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
    return "/"


VIEWS = (View("/", "queue.html", show_queue, "Queue", label="Queue", key="q"),)
CHANGES: tuple[Change, ...] = ()
