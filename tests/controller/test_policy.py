"""The policy: laws that hold for every proposal, and the counter-offers that people will read."""

import inspect
import time
from dataclasses import replace
from decimal import Decimal
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.controller import policy as policy_module
from gencard.controller.policy import Limits, Policy, check_size, judge, price_of
from gencard.core.budget import Mechanism, Neighbouring, Price, Privacy
from gencard.core.card import AuditTerms, CounterOffer, Proposal, Refusal
from gencard.core.domain import Domain
from gencard.core.errors import TooLargeError
from gencard.core.statistics.closure import dimension
from tests.core.strategies import domains, workloads

LIMITS = Limits(marginal_cells=1_000_000, model_cells=50_000_000, marginals=2_000, rows=10**7, runs=100)
FIVE = Domain.of({"a": 2, "b": 3, "c": 4, "d": 2, "e": 5})
POLICY = Policy(
    largest_order=2,
    largest_marginal_cells=15,
    most_marginals=20,
    most_rows=1_000,
    generators=("ipf",),
    most_per_card=Price(statistics=1_000),
)


def proposal(*marginals, **changes):
    terms = {"rows": 100, "generator": "ipf"} | changes
    return Proposal(
        "datasets/x", "to see", marginals, terms.pop("generator"), terms.pop("rows"), **terms
    )


@st.composite
def questions(draw):
    """A domain, a policy and a proposal on it, in the domain's order."""
    domain = draw(domains(fewest=2, most=5))
    pairs = st.sampled_from(list(combinations(domain.attributes, 2)))
    policy = Policy(
        largest_order=draw(st.integers(1, 3)),
        largest_marginal_cells=draw(st.integers(1, 30)),
        most_marginals=draw(st.integers(1, 6)),
        most_rows=draw(st.integers(1, 200)),
        generators=tuple(draw(st.permutations(["ipf", "independent"]))[: draw(st.integers(1, 2))]),
        most_per_card=Price(
            statistics=draw(st.integers(0, 60)), epsilon=Decimal(draw(st.integers(0, 2)))
        ),
        mechanisms=draw(st.sampled_from([(Mechanism.EXACT,), tuple(Mechanism), (Mechanism.LAPLACE,)])),
        forbidden=tuple(draw(st.lists(pairs, max_size=2))),
    )
    privacy = draw(
        st.sampled_from([Privacy(), Privacy(Mechanism.LAPLACE, Neighbouring.ADD_REMOVE, Decimal(1))])
    )
    asked = proposal(*draw(workloads(domain, widest=4)), rows=draw(st.integers(1, 400)), privacy=privacy)
    return asked.in_order_of(domain), policy, domain


def objections(terms: Proposal, policy: Policy, domain: Domain) -> list[str]:
    """The policy as a person would check it, line by line."""
    wrong = [
        ("order", any(len(clique) > policy.largest_order for clique in terms.marginals)),
        ("cells", any(domain.project(c).cells > policy.largest_marginal_cells for c in terms.marginals)),
        ("forbidden", any(set(f) <= set(c) for f in policy.forbidden for c in terms.marginals)),
        ("marginals", not 1 <= len(terms.marginals) <= policy.most_marginals),
        ("rows", terms.rows > policy.most_rows),
        ("generator", terms.generator not in policy.generators),
        ("mechanism", terms.privacy.mechanism not in policy.mechanisms),
        ("price", not price_of(terms, domain).fits(policy.most_per_card)),
    ]
    return [name for name, holds in wrong if holds]


class TestLaws:
    @given(questions())
    def test_a_counter_offer_satisfies_the_policy(self, question):
        asked, policy, domain = question
        outcome = judge(asked, policy, domain, LIMITS, {})
        if isinstance(outcome, CounterOffer):
            assert objections(outcome.terms, policy, domain) == []
            assert outcome.price == price_of(outcome.terms, domain)

    @given(questions())
    def test_what_satisfies_the_policy_comes_back_unchanged_and_nothing_else_does(self, question):
        asked, policy, domain = question
        outcome = judge(asked, policy, domain, LIMITS, {})
        unchanged = isinstance(outcome, CounterOffer) and not outcome.changes
        assert unchanged == (objections(asked, policy, domain) == [])
        if unchanged:
            assert outcome.terms == asked

    @given(questions())
    def test_judging_twice_changes_nothing_more(self, question):
        asked, policy, domain = question
        first = judge(asked, policy, domain, LIMITS, {})
        if isinstance(first, CounterOffer):
            assert judge(first.terms, policy, domain, LIMITS, {}) == replace(first, changes=())

    @given(questions())
    def test_nothing_is_offered_that_the_question_did_not_determine(self, question):
        asked, policy, domain = question
        outcome = judge(asked, policy, domain, LIMITS, {})
        if isinstance(outcome, CounterOffer):
            wanted = [set(clique) for clique in asked.marginals]
            assert all(any(set(c) <= clique for clique in wanted) for c in outcome.terms.marginals)

    @given(questions())
    def test_the_price_of_exact_counts_is_the_dimension_of_their_span(self, question):
        asked, _, domain = question
        exact = replace(asked, privacy=Privacy())
        assert price_of(exact, domain) == Price(statistics=dimension(domain, asked.marginals))

    @given(questions())
    def test_an_acceptable_clique_is_lost_only_to_number_or_price(self, question):
        asked, policy, domain = question
        roomy = replace(policy, most_marginals=1_000, most_per_card=Price(10**6, Decimal(9), Decimal(9)))
        outcome = judge(asked, roomy, domain, LIMITS, {})
        alone = [c for c in asked.marginals if not objections(proposal(c), roomy, domain)]
        if isinstance(outcome, CounterOffer):
            assert set(alone) <= set(outcome.terms.marginals)

    def test_no_record_is_in_sight(self):
        assert "vault" not in inspect.getsource(policy_module)
        assert list(inspect.signature(judge).parameters) == [
            "proposal",
            "policy",
            "domain",
            "limits",
            "closed",
            "zeros",
        ]


class TestCounterOffers:
    def test_too_high_an_order_is_split_into_the_pairs_inside(self):
        offer = judge(proposal(("a", "b", "c")), POLICY, FIVE, LIMITS, {})
        assert offer.terms.marginals == (("a", "b"), ("a", "c"), ("b", "c"))
        assert [(change.old, change.reason) for change in offer.changes] == [
            ("a, b, c", "ORDER_TOO_HIGH")
        ]
        assert offer.changes[0].new == "a, b; a, c; b, c"

    def test_too_many_cells_are_split_into_single_attributes(self):
        offer = judge(proposal(("c", "e")), POLICY, FIVE, LIMITS, {})
        assert offer.terms.marginals == (("c",), ("e",))
        assert [change.reason for change in offer.changes] == ["TOO_MANY_CELLS"]

    def test_what_is_forbidden_together_is_taken_apart(self):
        strict = replace(POLICY, largest_order=3, largest_marginal_cells=100, forbidden=(("a", "b"),))
        offer = judge(proposal(("a", "b", "c")), strict, FIVE, LIMITS, {})
        assert offer.terms.marginals == (("a", "c"), ("b", "c"))

    def test_the_dearest_go_first(self):
        poor = replace(POLICY, most_per_card=Price(statistics=7))
        offer = judge(proposal(("a", "b"), ("b", "c")), poor, FIVE, LIMITS, {})
        assert offer.terms.marginals == (("a", "b"),)
        assert offer.price == Price(statistics=6)
        assert [(change.old, change.new, change.reason) for change in offer.changes] == [
            ("b, c", "", "PRICE_TOO_HIGH")
        ]

    def test_rows_and_generator_come_within_bounds(self):
        offer = judge(proposal(("a",), rows=5_000, generator="deep"), POLICY, FIVE, LIMITS, {})
        assert (offer.terms.rows, offer.terms.generator) == (1_000, "ipf")
        assert [change.reason for change in offer.changes] == ["TOO_MANY_ROWS", "GENERATOR_NOT_ALLOWED"]

    def test_noise_that_is_not_offered_becomes_exact_counts(self):
        noisy = Privacy(Mechanism.GAUSSIAN, Neighbouring.REPLACE_ONE, rho=Decimal("0.1"))
        offer = judge(proposal(("a",), privacy=noisy), POLICY, FIVE, LIMITS, {})
        assert offer.terms.privacy == Privacy()
        assert offer.price == Price(statistics=2)

    @pytest.mark.parametrize(
        ("policy", "asked", "reasons"),
        [
            (
                replace(POLICY, largest_marginal_cells=1),
                proposal(("a", "b")),
                ("TOO_MANY_CELLS", "NOTHING_LEFT"),
            ),
            (
                replace(POLICY, most_per_card=Price()),
                proposal(("a",)),
                ("PRICE_TOO_HIGH", "NOTHING_LEFT"),
            ),
            (
                replace(POLICY, mechanisms=(Mechanism.LAPLACE,)),
                proposal(("a",)),
                ("MECHANISM_NOT_OFFERED",),
            ),
            (
                replace(POLICY, mechanisms=(Mechanism.LAPLACE,)),
                proposal(
                    ("a",), privacy=Privacy(Mechanism.LAPLACE, Neighbouring.ADD_REMOVE, Decimal("0.5"))
                ),
                ("PRICE_TOO_HIGH",),
            ),
        ],
    )
    def test_nothing_near(self, policy, asked, reasons):
        assert judge(asked, policy, FIVE, LIMITS, {}) == Refusal(reasons)


WIDE = Domain.of({f"x{number}": 10 for number in range(12)} | {f"y{number}": 2 for number in range(19)})


class TestS10Bounds:
    @pytest.mark.parametrize(
        "asked",
        [
            proposal(WIDE.attributes[:12]),
            proposal(*((name,) for name in WIDE.attributes[:12])),
            proposal(*(WIDE.attributes[12 + k :] for k in range(4))),
            proposal(("x1",), rows=10**8),
            proposal(("x1",), audit=AuditTerms(runs=1_000)),
        ],
        ids=["marginal", "model", "parts", "rows", "runs"],
    )
    def test_s10_too_much_is_refused_before_any_work(self, asked):
        rich = replace(POLICY, largest_order=8, largest_marginal_cells=1_000, most_rows=10**9)
        seconds = []
        for _ in range(5):
            began = time.perf_counter()
            with pytest.raises(TooLargeError):
                judge(asked.in_order_of(WIDE), rich, WIDE, LIMITS, {})
            seconds.append(time.perf_counter() - began)
        assert sorted(seconds)[2] < 0.05

    def test_s10_the_number_of_marginals_is_bounded(self):
        many = Domain.of({f"a{number}": 2 for number in range(100)})
        pairs = list(combinations(many.attributes, 2))[: LIMITS.marginals + 1]
        with pytest.raises(TooLargeError, match="number of marginals"):
            check_size(proposal(*pairs), many, LIMITS)
