"""The whole story, told once: negotiate, measure, synthesise, replay, audit."""

from itertools import combinations

import numpy as np

from gencard.core.card.card import CardState
from tests.system.house import House, survey

NAMES = ("sex", "health", "work", "region")


def test_the_main_job(house: House) -> None:
    with house.analyst() as analyst:
        card = analyst.propose(
            "survey", list(combinations(NAMES, 3)), purpose="Health by work", rows=10_000
        )
        assert card.state is CardState.OFFERED
        assert {change.reason for change in card.changes} == {"ORDER_TOO_HIGH"}
        card = card.accept()
        assert card.state is CardState.AGREED
        data = card.generate(rows=2_000, seed=7, progress=False)
        assert len(data) == 2_000
        assert list(data.columns) == list(NAMES)
        truth = survey().groupby(["sex", "health"]).size()
        published = card.psi.measurements[card.psi.cliques.index(("sex", "health"))].values
        assert published.sum() == truth.sum()
        assert published[0, 0] == truth["female", "good"]
        card.replay(data)
        again = card.generate(rows=2_000, seed=7, progress=False)
        assert np.all(data == again)
