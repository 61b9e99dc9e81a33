"""Many proposals that wait for a steward, stored by the card book, not by thousands of calls."""

import secrets
from collections.abc import Sequence
from itertools import combinations

from gencard.controller.cards.negotiations import _fresh
from gencard.controller.controller_state import ControllerState
from gencard.controller.wiring.opening import open_controller_state
from gencard.core.card.terms import Proposal
from gencard.wire.keys import Identity, Role
from tests.system.house import House

DATASET = "datasets/survey"
ATTRIBUTES = ("sex", "health", "work", "region", "age")
PAIRS = tuple(combinations(ATTRIBUTES, 2))
TOPICS = ("health at work", "regional differences", "age and care", "part-time work")


def proposal(number: int, pairs: Sequence[tuple[str, str]] = PAIRS[:4]) -> Proposal:
    """Make a proposal with a purpose and pairs of its own."""
    purpose = f"Study {number} of {TOPICS[number % len(TOPICS)]}, for a report to the ministry"
    asked = PAIRS[number % 5 : number % 5 + len(pairs)]
    return Proposal(dataset=DATASET, marginals=asked, generator="ipf", rows=1_000, purpose=purpose)


def let_wait(house: House, number: int, *, analysts: int = 7) -> list[str]:
    """Names of so many new cards that wait, of several analysts; the service must not run."""
    state = open_controller_state(house.settings())
    try:
        return _opened(state, number, analysts)
    finally:
        state.database.close()


def _opened(state: ControllerState, number: int, analysts: int) -> list[str]:
    people = [_analyst(state, index) for index in range(analysts)]
    with state.database.transaction() as tx:
        names = []
        for index in range(number):
            who, name = people[index % analysts], f"{DATASET}/cards/{secrets.token_hex(8)}"
            card = state.cards.stepped(_fresh(name, who, proposal(index)), who.uri, "propose")
            names.append(state.cards.open(tx, card).name)
        return names


def _analyst(state: ControllerState, index: int) -> Identity:
    return Identity(state.settings.identity.trust_domain, "survey", Role.ANALYST, f"analyst-{index}")
