"""Statistics that an analyst holds already cost nothing; the same noise is drawn once."""

from decimal import Decimal
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.controller.cards.grants import charge
from gencard.controller.policy.statistics import price_of
from gencard.core.card.budget import FREE, Neighbouring, Price
from gencard.core.card.privacy import EXACT, Gaussian
from gencard.core.card.terms import CardTerms, Proposal, Tier
from gencard.core.domain import Domain
from gencard.core.errors import CardStateError
from tests.system.noisy import noisy
from tests.system.stewards import Steward

WORK = [("sex", "health"), ("sex", "work"), ("health", "work")]
DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2, "d": 4})
CLIQUES = [names for order in (1, 2, 3) for names in combinations(DOMAIN.attributes, order)]
NOISE = Gaussian(Neighbouring.REPLACE_ONE, Decimal("0.1"))


def terms(cliques, privacy=EXACT, **fields):
    return Proposal("survey", "To see", tuple(cliques), "ipf", 100, privacy, **fields)


def held(name, *asked):
    return [
        CardTerms(
            f"{name}{number}",
            "controller",
            "ana",
            "A survey",
            "version",
            "coding",
            "the tests",
            one,
            FREE,
            Tier.BY_CONSTRUCTION,
            "digest",
            "policy",
            "2026-01-01T00:00:00Z",
            "2026-12-01T00:00:00Z",
            "nonce",
        )
        for number, one in enumerate(asked)
    ]


def rank(cliques):
    """Independent statistics beside the number of records' own, by brute force."""
    cells = np.indices(DOMAIN.sizes).reshape(len(DOMAIN.sizes), -1).T
    columns = [np.ones((len(cells), 1))]
    for clique in cliques:
        axes = [DOMAIN.attributes.index(name) for name in clique]
        _, index = np.unique(cells[:, axes], axis=0, return_inverse=True)
        columns.append(np.eye(index.max() + 1)[index.ravel()])
    return int(np.linalg.matrix_rank(np.hstack(columns))) if cliques else 0


SETS = st.lists(st.sampled_from(CLIQUES), min_size=1, max_size=3, unique=True)


class TestCharge:
    @given(SETS, st.lists(SETS, max_size=3))
    def test_exact_counts_cost_what_they_add(self, asked, before):
        known = [clique for cliques in before for clique in cliques]
        charged = charge(terms(asked), DOMAIN, held("card", *map(terms, before)))
        assert charged.price == Price(int(rank([*known, *asked]) - rank(known)))

    def test_cards_that_add_nothing_to_what_is_held_are_not_named(self):
        cards = held("card", terms([("a", "b")]), terms([("a", "b", "c")]), terms([("d",)]))
        charged = charge(terms([("a", "b")]), DOMAIN, cards)
        assert (charged.price, charged.held_by) == (FREE, ("card2", "card1"))

    def test_noise_is_new_unless_it_is_the_very_same(self):
        cards = held("card", terms([("a", "b")], NOISE), terms([("a", "b")]))
        assert charge(terms([("a", "b")], NOISE), DOMAIN, cards).held_by == ("card0",)
        for other in (
            terms([("a",)], NOISE),
            terms([("a", "b")], NOISE, weights=(2,)),
            terms([("a", "b")], Gaussian(Neighbouring.REPLACE_ONE, Decimal("0.2"))),
        ):
            charged = charge(other, DOMAIN, cards)
            assert (charged.price, charged.held_by) == (Price(rho=other.privacy.rho), ())

    def test_noisy_counts_are_not_exact_ones(self):
        charged = charge(terms([("a", "b")]), DOMAIN, held("card", terms([("a", "b")], NOISE)))
        assert charged.price == Price(rank([("a", "b")]))

    def test_what_is_missing_without_uniques_is_never_held(self):
        asked = terms([("a",), ("b",)], without_uniques=True)
        for before in ([], held("card", terms([("a",)])), held("card", asked)):
            charged = charge(asked, DOMAIN, before)
            assert (charged.price, charged.held_by) == (price_of(asked, DOMAIN), ())

    def test_the_rows_of_a_black_box_tell_more_than_psi(self):
        asked = Proposal("survey", "To see", (("a",),), "synthpop", 100)
        assert charge(asked, DOMAIN, held("card", terms([("a",)]))).held_by == ()


def propose(analyst, marginals, **options):
    return analyst.propose("survey", marginals, purpose="To see", rows=200, **options)


@pytest.fixture(scope="module")
def shared_house(tmp_path_factory):
    with noisy(tmp_path_factory.mktemp("held")) as house:
        yield house


def spent(house):
    with house.controller.controller_state.database.reading() as tx:
        lines = list(house.controller.controller_state.ledger.all(tx))
    return sum((line.price for line in lines), FREE)


class TestService:
    def test_the_same_statistics_are_charged_once(self, shared_house):
        with shared_house.analyst() as ana, shared_house.analyst("bob") as bob:
            first = propose(ana, WORK)
            assert first.offer.held_by == ()
            rows = first.accept().generate(200, seed=1, progress=False)
            before = spent(shared_house)

            again = propose(ana, WORK, generator="graphical").accept()
            assert (again.price, again.offer.held_by) == (FREE, (first.name,))
            assert f"already paid for by card {first.name}" in repr(again.lines())
            again.generate(200, seed=1, progress=False)
            assert again.psi.measurements[0].values.tolist() == first.psi.measurements[0].values.tolist()
            assert spent(shared_house) == before

            wider = propose(ana, [*WORK, ("sex", "region")])
            assert wider.price == Price(2)
            assert propose(bob, WORK).price == first.price
            assert len(rows) == 200

    def test_an_offer_made_before_is_charged_as_little(self, shared_house):
        with shared_house.analyst() as ana:
            one, two = (propose(ana, [("region", "age")]).accept() for _ in range(2))
            assert one.price == two.price != FREE
            one.generate(10, seed=1, progress=False)
            before = spent(shared_house)
            two.generate(10, seed=1, progress=False)
            assert spent(shared_house) == before

    def test_the_same_noise_is_drawn_once(self, shared_house):
        noise = {"rho": "0.01", "neighbouring": "replace-one"}
        with shared_house.analyst() as ana:
            first = propose(ana, [("sex", "work")], **noise).accept()
            first.generate(10, seed=1, progress=False)
            before = spent(shared_house)
            again = propose(ana, [("sex", "work")], **noise).accept()
            last = propose(ana, [("sex", "work")], **noise).accept()
            assert (again.price, again.offer.held_by) == (FREE, (first.name,))
            again.replay(again.generate(10, seed=2, progress=False))
            assert again.psi.measurements[0].values.tolist() == first.psi.measurements[0].values.tolist()
            assert spent(shared_house) == before

            steward = Steward(shared_house.controller.controller_state)
            for card in (first, again):
                steward.revoke(card.name, "")
            with pytest.raises(CardStateError):
                last.generate(10, seed=3, progress=False)
            assert spent(shared_house) == before
