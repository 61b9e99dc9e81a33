"""Waiting for a card: until when, how often it is read, and what is shown meanwhile."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from html import escape
from importlib import import_module

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner

from gencard.client.card_view import CardView
from gencard.client.common.display import plain
from gencard.client.connection.connection import ProgressDisplay
from gencard.core.card.card import AUDITABLE, WAITING, CardState
from gencard.core.card.terms import Tier
from gencard.core.errors import (
    AwaitingStewardError,
    CardStateError,
    InvalidInputError,
    ServiceUnavailableError,
    WrongTurnError,
)

ANSWERED, AGREED, AUDITED = TARGETS = ("answered", "agreed", "audited")
"""States of a card to wait for: an offer or a refusal, both signatures, or a passed audit."""

_SHORTEST, _LONGEST = 2.0, 15.0
"""Seconds between two looks at a card: at first, and after some minutes."""

_SLOWER = 1.1
_RETRY_SECONDS = 30.0
"""Seconds for which an unreachable service is tried again: a restart takes less."""

_ENDED = frozenset({CardState.AUDIT_FAILED, CardState.EXPIRED, CardState.TERMINATED, CardState.REVOKED})
_TIME_OVER = (
    "The card stays as it is, and nothing is spent while it waits. Ask the controller's "
    "steward, continue to wait with `gencard cards CARD --wait`, or give the card up with "
    "`gencard terminate CARD`."
)
_INTERRUPTED = "Interrupted: card {name} stays as it is, and can be waited for again."

Show = Callable[[CardView], None]
"""Shows a card while it is waited for."""


def wait_for(
    card: CardView,
    refresh: Callable[[], object],
    target: str,
    seconds: float | None,
    display: ProgressDisplay,
) -> None:
    """Read a card again until it reaches the target; an interruption leaves it as it is.

    Args:
        refresh: Reads ``card`` again, in place.
        target: One of ``TARGETS``.
        seconds: Wait no longer; None for no limit.

    Raises:
        AwaitingStewardError: The time is over.
        WrongTurnError: The analyst has to answer an offer first.
        CardStateError: The card has ended and cannot reach the target.
        InvalidInputError: The card needs no audit before rows are generated.
    """
    last = None if seconds is None else time.monotonic() + seconds
    pause = _SHORTEST
    try:
        with _live(display) as show:
            refresh()
            while not _reached(card, target):
                left = pause if last is None else last - time.monotonic()
                if left <= 0:
                    whom = card.waits_for or "an audit"
                    raise AwaitingStewardError(card=card.name, whom=whom, advice=_TIME_OVER)
                show(card)
                time.sleep(min(pause, left))
                _patiently(refresh)
                pause = min(pause * _SLOWER, _LONGEST)
    except KeyboardInterrupt as stop:
        stop.add_note(_INTERRUPTED.format(name=card.name))
        raise


def _reached(card: CardView, target: str) -> bool:
    """Whether the card is where the wait ends; raises where it cannot get there by waiting."""
    if target == ANSWERED:
        return card.state not in WAITING
    if card.state in _ENDED:
        why = f"Ended by {card.ended_by}. " if card.ended_by else ""
        raise CardStateError(state=card.state, advice=f"{why}Next: {card.next_step}.")
    if card.state is CardState.OFFERED:
        raise WrongTurnError(turn=card.turn, advice=f"Answer the offer first: {card.next_step}.")
    if target == AGREED:
        return card.state in AUDITABLE
    if card.tier not in (None, Tier.AUDITED):
        problem = "this card needs no audit before rows are generated"
        raise InvalidInputError(field="for_", problem=problem, advice=f"Next: {card.next_step}.")
    return card.state in {CardState.AUDITED, CardState.RELEASED}


def _patiently(refresh: Callable[[], object]) -> None:
    """Read the card again; a service that restarts is tried for half a minute."""
    last = time.monotonic() + _RETRY_SECONDS
    while True:
        try:
            refresh()
            return
        except ServiceUnavailableError:
            if time.monotonic() >= last:
                raise
            time.sleep(_SHORTEST)


@contextmanager
def _live(display: ProgressDisplay) -> Iterator[Show]:
    """A card that is shown anew at each look, in a notebook or terminal; nothing elsewhere."""
    if callable(display):
        yield lambda card: display(str(card.state), 0.0)
        return
    console = Console(stderr=True, highlight=False)
    if display and console.is_jupyter:
        with _notebook_card() as show:
            yield show
    elif display and console.is_terminal:
        spinner = Spinner("dots")
        with Live(spinner, console=console, transient=True):
            yield lambda card: spinner.update(text=plain(waiting_line(card)))
    else:
        yield lambda _: None


@contextmanager
def _notebook_card() -> Iterator[Show]:
    """The card's own panel, which goes when the wait ends: the cell then shows its result."""
    display = import_module("IPython.display")  # there only in a notebook
    handle = display.display(display.HTML(""), display_id=True)
    bar = '<progress aria-label="waiting" style="vertical-align:middle"></progress>'
    try:
        yield lambda card: handle.update(
            display.HTML(f"<div>{bar} {escape(waiting_line(card))}</div>{card._repr_html_()}")
        )
    finally:
        handle.update(display.HTML(""))


def waiting_line(card: CardView) -> str:
    """Return the line that names who must act on a card, and how long it has waited."""
    since = card.since
    past = "" if since is None else f", {_duration((datetime.now(UTC) - since).total_seconds())} so far"
    return f"Waiting for {card.waits_for or 'an audit'}{past}. An interruption leaves the card as it is."


def _duration(seconds: float) -> str:
    """A length of time in its two largest units.

    >>> [_duration(seconds) for seconds in (-3, 42, 150, 7_260, 200_000)]
    ['0 s', '42 s', '2 min', '2 h 1 min', '2 d 7 h']
    """
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{rest} s"
