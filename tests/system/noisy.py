"""A house that offers noise, and what people propose there."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

from gencard.client import Analyst
from gencard.client.card import Card
from gencard.core.card.privacy import NOISES
from tests.system.house import House, build
from tests.system.raw_calls import configure, enrolled

PAIRS = tuple(combinations(("sex", "health", "work"), 2))
RELATION = "replace-one"
NOISE = '{ mechanism = "gaussian", neighbouring = "replace-one", rho = "0.01" }'
CAP = "{ statistics = 1_000, epsilon = 5, rho = 0.5 }"
LARGEST = "{ statistics = 1_000, epsilon = 2, rho = 0.2 }"


@contextmanager
def noisy(folder: Path, *, cap: str = CAP, largest: str = LARGEST, **policy: str) -> Iterator[House]:
    """A running house that offers every mechanism, or what the policy says, to ana and to bob."""
    house = build(folder)
    house.edit({"most_per_card": largest, "project": CAP, "analyst": CAP, "dataset": cap})
    every = json.dumps(["exact", *(noise.mechanism for noise in NOISES)])
    offered = {"mechanisms": every, "noise": NOISE} | policy
    configure(house, "datasets.policy", **offered)
    enrolled(house, "bob")
    try:
        yield house.start()
    finally:
        house.stop()


def propose(analyst: Analyst, marginals: Any = PAIRS, **measured: Any) -> Card:
    return analyst.propose("survey", list(marginals), purpose="a test", rows=5_000, **measured)
