"""The policy: laws that hold for every proposal, and the counter-offers that people will read."""

import inspect
import time
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.boxes.registry import BOXES as REGISTRY
from gencard.boxes.registry import complete
from gencard.controller.boxes import GeneratorFacts, facts_of_generators
from gencard.controller.policy import judgement, statistics
from gencard.controller.policy.judgement import ProposalLimits, check_readable, check_size, judge
from gencard.controller.policy.statistics import price_of
from gencard.core.card.budget import Neighbouring, Price
from gencard.core.card.card import CounterOffer, Refusal
from gencard.core.card.privacy import EXACT, Gaussian, InsideGenerator, Laplace, Mechanism, Transform
from gencard.core.card.sums import Moment, MomentKind, Sum
from gencard.core.card.terms import NO_ANALYSES, Analyses, AuditTerms, Proposal, Tier
from gencard.core.domain import Domain
from gencard.core.errors import (
    InvalidInputError,
    InvalidNumberError,
    ModelTooLargeError,
    NotFittableError,
    TooLargeError,
    TooManyRecordsError,
)
from gencard.core.policy import AnalysesPolicy, AnswerRelease, MomentPolicy, Policy, TwoStewards
from gencard.core.statistics.marginals import dimension
from tests.core.strategies import domains, workloads

LIMITS = ProposalLimits(
    marginal_cells=1_000_000, model_cells=50_000_000, marginals=2_000, rows=10**7, runs=100
)
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
        largest_order_exact=draw(st.none() | st.integers(1, 4)),
        largest_marginal_cells=draw(st.integers(1, 30)),
        most_marginals=draw(st.integers(1, 6)),
        most_rows=draw(st.integers(1, 200)),
        generators=tuple(draw(st.permutations(["ipf", "maximum-entropy"]))[: draw(st.integers(1, 2))]),
        moments=MomentPolicy(tuple(draw(st.sets(st.sampled_from(MomentKind)))), draw(st.integers(1, 8))),
        most_per_card=Price(
            statistics=draw(st.integers(0, 60)), epsilon=Decimal(draw(st.integers(0, 2)))
        ),
        mechanisms=draw(st.sampled_from([(Mechanism.EXACT,), tuple(Mechanism), (Mechanism.LAPLACE,)])),
        forbidden=tuple(draw(st.lists(pairs, max_size=2))),
    )
    privacy = draw(st.sampled_from([EXACT, Laplace(Neighbouring.ADD_REMOVE, Decimal(1))]))
    generator = draw(st.sampled_from(["ipf", "maximum-entropy"]))
    moments = draw(st.lists(_moments(domain), max_size=4))
    asked = proposal(
        *draw(workloads(domain, widest=4)),
        rows=draw(st.integers(1, 400)),
        privacy=privacy,
        generator=generator,
        moments=tuple(dict.fromkeys(moment.in_order_of(domain) for moment in moments)),
    )
    if moments and draw(st.booleans()):
        asked = replace(asked, marginals=())
    return asked.in_order_of(domain), policy, domain


def _moments(domain):
    def of(kind, names, order):
        attributes = tuple(names[: kind.attributes])
        return Moment(kind, attributes, order if kind is MomentKind.MOMENT else 0)

    return st.builds(
        of, st.sampled_from(MomentKind), st.permutations(domain.attributes), st.integers(1, 8)
    )


def objections(terms: Proposal, policy: Policy, domain: Domain) -> list[str]:
    """The policy as a person would check it, line by line."""
    wrong = [
        (
            "order",
            any(
                len(clique) > policy.measuring(noisy=terms.privacy.noisy).largest_order
                for clique in terms.cliques
            ),
        ),
        ("cells", any(domain.project(c).cells > policy.largest_marginal_cells for c in terms.cliques)),
        ("forbidden", any(set(f) <= set(c) for f in policy.forbidden for c in terms.cliques)),
        ("marginals", not 1 <= len(terms.marginals) <= policy.most_marginals and not terms.moments),
        ("marginals", len(terms.marginals) > policy.most_marginals),
        ("moments", len(terms.moments) > policy.most_marginals),
        ("kinds", any(moment.kind not in policy.moments.kinds for moment in terms.moments)),
        ("order", any(moment.order > policy.moments.highest for moment in terms.moments)),
        ("takes none", bool(terms.moments) and terms.generator != "maximum-entropy"),
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
            assert set(outcome.terms.moments) <= set(asked.moments)

    @given(questions())
    def test_the_price_of_exact_counts_is_the_dimension_of_their_span(self, question):
        asked, _, domain = question
        exact = replace(asked, privacy=EXACT)
        marginals, all_of_it = (dimension(domain, c) for c in (asked.marginals, asked.cliques))
        price = price_of(exact, domain).statistics
        if not asked.moments:
            assert price == marginals
        assert marginals <= price
        assert price <= marginals + sum(2 * domain.size(m.attributes[0]) + 4 for m in asked.moments)
        if len(asked.moments) == 1:
            assert price <= all_of_it

    @given(questions())
    def test_an_acceptable_clique_is_lost_only_to_number_or_price(self, question):
        asked, policy, domain = question
        roomy = replace(policy, most_marginals=1_000, most_per_card=Price(10**6, Decimal(9), Decimal(9)))
        outcome = judge(asked, roomy, domain, LIMITS, {})
        roomy = replace(roomy, generators=("ipf",))
        alone = [c for c in asked.marginals if not objections(proposal(c), roomy, domain)]
        if isinstance(outcome, CounterOffer):
            assert set(alone) <= set(outcome.terms.marginals)

    @pytest.mark.parametrize("weights", [(), (5, 3, 1)])
    def test_weights_stay_with_what_is_kept(self, weights):
        noise = Laplace(Neighbouring.ADD_REMOVE, Decimal(1))
        policy = replace(
            POLICY,
            generators=("maximum-entropy",),
            moments=MomentPolicy((MomentKind.MEAN,)),
            mechanisms=tuple(Mechanism),
            most_per_card=Price(epsilon=Decimal(1)),
        )
        wanted = (Moment(MomentKind.MEAN, ("b",)), Moment(MomentKind.VARIANCE, ("c",)))
        asked = proposal(
            ("a", "b"), generator="maximum-entropy", privacy=noise, moments=wanted, weights=weights
        )
        offer = judge(asked.in_order_of(FIVE), policy, FIVE, LIMITS, {})
        assert offer.terms.moments == wanted[:1]
        assert offer.terms.weights == weights[:2]
        (change,) = offer.changes
        assert (change.old, change.new, change.reason) == ("variance of c", "", "MOMENT_NOT_OFFERED")
        assert offer.price == Price(epsilon=Decimal(1))

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"generators": ("ipf",)}, "GENERATOR_NOT_ALLOWED"),
            ({"transform": Transform(rounding=5)}, "TRANSFORM_REQUIRED"),
            ({"moments": MomentPolicy((MomentKind.MOMENT,), 3)}, "ORDER_TOO_HIGH"),
            ({"most_per_card": Price(statistics=2)}, "PRICE_TOO_HIGH"),
            ({"forbidden": (("b",),)}, "FORBIDDEN_TOGETHER"),
        ],
    )
    def test_a_moment_alone_is_refused_with_its_reason(self, changes, reason):
        policy = replace(
            POLICY, generators=("maximum-entropy",), moments=MomentPolicy((MomentKind.MOMENT,), 4)
        )
        asked = proposal(moments=(Moment(MomentKind.MOMENT, ("b",), 4),), generator="maximum-entropy")
        assert isinstance(judge(asked, policy, FIVE, LIMITS, {}), CounterOffer)
        outcome = judge(asked, replace(policy, **changes), FIVE, LIMITS, {})
        assert reason in outcome.reasons

    def test_an_exact_moment_costs_its_sums_and_nothing_beside_its_marginal(self):
        means = Moment(MomentKind.GROUP_MEANS, ("a", "e"))
        alone, beside, dear = (
            price_of(proposal(*marginals, moments=(means,), generator="maximum-entropy"), FIVE)
            for marginals in ((), (("a", "e"),), (("a",), ("b",)))
        )
        assert alone == Price(statistics=4 + 1)
        assert beside == Price(statistics=dimension(FIVE, [("a", "e")]))
        assert dear == Price(statistics=dimension(FIVE, [("a",), ("b",)]) + 4)

    def test_too_many_values_of_functions_are_refused(self):
        domain = Domain.of({"a": 400, "b": 400})
        asked = proposal(moments=(Moment(MomentKind.COVARIANCE, ("a", "b")),))
        with pytest.raises(TooLargeError, match="values of the moments"):
            check_size(asked, domain, LIMITS)

    def test_a_model_too_large_for_its_functions_is_refused(self):
        policy = replace(
            POLICY, generators=("maximum-entropy",), moments=MomentPolicy((MomentKind.VARIANCE,))
        )
        asked = proposal(moments=(Moment(MomentKind.VARIANCE, ("e",)),), generator="maximum-entropy")
        with pytest.raises(TooLargeError, match="times cells"):
            judge(asked, policy, FIVE, replace(LIMITS, model_cells=19), {})

    def test_a_model_that_the_memory_of_a_job_does_not_hold_is_refused_with_the_limit(self):
        domain = Domain.of(dict.fromkeys("abc", 355))
        asked = proposal(("a", "b"), ("b", "c"), ("a", "c"), generator="graphical")
        policy = replace(
            POLICY,
            generators=("graphical",),
            largest_marginal_cells=10**6,
            most_per_card=Price(statistics=10**6),
        )
        limit = r"limit of 42,705,640 cells: 44,738,875 on .*4,096 MiB \(limits.memory_mib\).*auto"
        with pytest.raises(ModelTooLargeError, match=limit):
            judge(asked, policy, domain, LIMITS, {})
        larger = replace(LIMITS, memory_mib=8_192)
        assert isinstance(judge(asked, policy, domain, larger, {}), CounterOffer)

    def test_no_record_is_in_sight(self):
        for module in (statistics, judgement):
            assert "vault" not in inspect.getsource(module)
        assert list(inspect.signature(judge).parameters) == [
            "proposal",
            "policy",
            "domain",
            "limits",
            "closed",
            "zeros",
            "facts",
            "coding",
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

    def test_exact_statistics_have_an_order_of_their_own(self):
        wide = replace(POLICY, largest_order=3, largest_marginal_cells=100, largest_order_exact=1)
        wide = replace(wide, mechanisms=(Mechanism.EXACT, Mechanism.GAUSSIAN))
        wide = replace(wide, most_per_card=Price(statistics=100, rho=Decimal(9)))
        exact = judge(proposal(("a", "b", "c")), wide, FIVE, LIMITS, {})
        assert exact.terms.marginals == (("a",), ("b",), ("c",))
        assert [change.reason for change in exact.changes] == ["ORDER_TOO_HIGH"]
        noise = Gaussian(Neighbouring.ADD_REMOVE, Decimal(1))
        noisy = judge(proposal(("a", "b", "c"), privacy=noise), wide, FIVE, LIMITS, {})
        assert noisy.terms.marginals == (("a", "b", "c"),)
        none = replace(wide, largest_order_exact=None)
        assert judge(proposal(("a", "b", "c")), none, FIVE, LIMITS, {}).terms.marginals == (
            ("a", "b", "c"),
        )
        higher = replace(wide, largest_order=2, largest_order_exact=3)
        assert len(judge(proposal(("a", "b", "c")), higher, FIVE, LIMITS, {}).terms.marginals) == 3

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
        noisy = Gaussian(Neighbouring.REPLACE_ONE, Decimal("0.1"))
        offer = judge(proposal(("a",), privacy=noisy), POLICY, FIVE, LIMITS, {})
        assert offer.terms.privacy == EXACT
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
                proposal(("a",), privacy=Laplace(Neighbouring.ADD_REMOVE, Decimal("0.5"))),
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
            began = time.thread_time()
            with pytest.raises(TooLargeError):
                judge(asked.in_order_of(WIDE), rich, WIDE, LIMITS, {})
            seconds.append(time.thread_time() - began)
        assert sorted(seconds)[2] < 0.05

    def test_s10_the_number_of_marginals_is_bounded(self):
        many = Domain.of({f"a{number}": 2 for number in range(100)})
        pairs = list(combinations(many.attributes, 2))[: LIMITS.marginals + 1]
        with pytest.raises(
            TooLargeError, match=r"number of marginals, .*limit of .*\(limits\.marginals\)"
        ):
            check_size(proposal(*pairs), many, LIMITS)


RHO = InsideGenerator(Gaussian(Neighbouring.ADD_REMOVE, Decimal("0.5")))
EPSILON = InsideGenerator(Laplace(Neighbouring.REPLACE_ONE, Decimal(1)))
BOXES = {
    "trees": GeneratorFacts(Tier.AUDITED, "00", reviewed_by="sam"),
    "stranger": GeneratorFacts(Tier.AUDITED, "00"),
    "mst": GeneratorFacts(Tier.PRIVATE, "00", privacy=RHO),
    "aim": GeneratorFacts(Tier.PRIVATE, "00", privacy=RHO, within_workload=True),
    "privbayes": GeneratorFacts(Tier.PRIVATE, "00", privacy=EPSILON),
}


@pytest.mark.parametrize(
    "changes",
    [
        {"generator": "trees"},
        {"measures": ("dcr",)},
        {"without_uniques": True},
        {"analyses": Analyses(kinds=("linear",), checked_runs=1)},
        {"sums": (Sum(("a",)),)},
    ],
)
def test_work_at_more_records_than_memory_may_hold_is_refused_before_it_is_offered(changes):
    few, asked = replace(LIMITS, records=99), proposal(("a",), **changes)
    check_readable(proposal(("a",)), 100, few)
    for declared in (None, 99):
        check_readable(asked, declared, few)
    with pytest.raises(TooManyRecordsError):
        check_readable(asked, 100, few)


def facts(name):
    return BOXES[name] if name in BOXES else facts_of_generators(name)


class TestBlackBoxes:
    """Decisions of a policy about proposals that name a black box, by tier."""

    NOISE = Gaussian(Neighbouring.ADD_REMOVE, Decimal("0.25"))
    PRIVATE = replace(
        POLICY,
        generators=("ipf", "mst", "aim", "trees", "stranger"),
        most_per_card=Price(statistics=1_000, rho=Decimal(1)),
    )

    def judged(self, policy, *marginals, closed=None, **changes):
        asked = proposal(*(marginals or (("a", "b"),)), **changes)
        return judge(asked.in_order_of(FIVE), policy, FIVE, LIMITS, closed or {}, facts=facts)

    def test_a_private_box_costs_what_one_fit_spends_and_measures_no_psi(self):
        offer = self.judged(self.PRIVATE, generator="mst")
        assert (offer.terms.privacy, offer.price) == (RHO, Price(rho=Decimal("0.5")))
        (change,) = offer.changes
        assert (change.field, change.old, change.reason) == ("privacy", "exact", "GENERATOR_ADDS_NOISE")

    def test_a_policy_with_noise_alone_offers_it(self):
        policy = replace(self.PRIVATE, mechanisms=(Mechanism.GAUSSIAN,), noise=self.NOISE)
        assert self.judged(policy, generator="mst", privacy=self.NOISE).terms.privacy == RHO
        rounded = replace(self.PRIVATE, transform=Transform(rounding=5))
        terms = self.judged(rounded, generator="mst").terms
        assert (terms.privacy, terms.transform.rounding) == (RHO, 1)

    def test_weights_moments_measures_and_uniques_are_left_out(self):
        open_policy = replace(
            self.PRIVATE,
            measures=("dcr",),
            without_uniques=True,
            moments=MomentPolicy(tuple(MomentKind)),
        )
        mean = Moment(MomentKind.MOMENT, ("e",), 1)
        exact = self.judged(
            open_policy, generator="mst", measures=("dcr",), without_uniques=True, moments=(mean,)
        ).terms
        assert (exact.measures, exact.without_uniques, exact.moments) == ((), False, ())
        noisy = self.judged(open_policy, generator="mst", privacy=self.NOISE, weights=(3,)).terms
        assert (noisy.weights, noisy.privacy) == ((), RHO)

    def test_it_is_offered_in_place_of_another_only_where_nothing_else_is(self):
        assert self.judged(self.PRIVATE, generator="deep").terms.generator == "ipf"
        alone = replace(self.PRIVATE, generators=("mst",), mechanisms=(Mechanism.GAUSSIAN,))
        alone = replace(alone, noise=self.NOISE)
        assert self.judged(alone, generator="ipf").terms.generator == "mst"

    @pytest.mark.parametrize(
        ("changes", "closed", "why"),
        [
            ({"most_per_card": Price(statistics=1_000)}, {}, "PRICE_TOO_HIGH"),
            ({"noise": EPSILON}, {}, "NEIGHBOURING_NOT_OFFERED"),
            ({}, {Mechanism.GENERATOR: "NEIGHBOURING_NOT_OFFERED"}, "NEIGHBOURING_NOT_OFFERED"),
            ({"forbidden": (("a", "c"),)}, {}, "FORBIDDEN_TOGETHER"),
        ],
        ids=["over the cap", "another relation", "another relation was granted", "forbidden together"],
    )
    def test_it_is_refused(self, changes, closed, why):
        policy = replace(self.PRIVATE, **changes)
        apart = [("a", "b"), ("b", "c")]
        assert self.judged(policy, *apart, closed=closed, generator="mst") == Refusal((why,))

    def test_a_box_that_keeps_to_the_workload_may_cover_what_is_forbidden_together(self):
        policy = replace(self.PRIVATE, forbidden=(("a", "c"),))
        assert self.judged(policy, ("a", "b"), ("b", "c"), generator="aim").terms.generator == "aim"

    def test_what_it_could_never_fit_is_refused_before_it_costs_anything(self):
        domain = Domain.of({"a": 65_536, "b": 65_536, "c": 10})
        limits = replace(LIMITS, marginal_cells=10**10)
        policy = replace(self.PRIVATE, largest_marginal_cells=10**10)
        for name in ("mst", "aim"):
            check = partial(REGISTRY[name].check, complete(REGISTRY[name], {}))
            with pytest.raises(TooLargeError):
                judge(
                    proposal(("a", "b"), ("b", "c"), generator=name),
                    policy,
                    domain,
                    limits,
                    {},
                    facts=lambda name, check=check: replace(facts(name), check=check),
                )

    def test_s31_a_box_that_nobody_reviewed_is_refused(self):
        """The policy offers nothing in its place, so that the analyst sees the reason."""
        assert self.judged(self.PRIVATE, generator="stranger") == Refusal(("BOX_NOT_REVIEWED",))
        assert self.judged(self.PRIVATE, generator="trees").terms.generator == "trees"


class TestWhatReadsRecordsOnceMore:
    """Measures of releases, and replicated uniques taken out: only where the policy says so."""

    OPEN = replace(POLICY, measures=("dcr", "nndr"), without_uniques=True)

    def judged(self, policy, **changes):
        return judge(proposal(("a", "b"), **changes), policy, FIVE, LIMITS, {}, facts=facts)

    def test_nothing_is_on_offer_where_nothing_is_said(self):
        offer = self.judged(POLICY, measures=("dcr",), without_uniques=True)
        assert (offer.terms.measures, offer.terms.without_uniques) == ((), False)
        assert [(one.field, one.reason) for one in offer.changes] == [
            ("measures", "MEASURE_NOT_OFFERED"),
            ("without_uniques", "MEASURE_NOT_OFFERED"),
        ]

    def test_what_is_on_offer_is_granted_and_the_rest_is_left_out(self):
        offer = self.judged(self.OPEN, measures=("dcr", "tables"))
        assert offer.terms.measures == ("dcr",)
        assert [(one.old, one.new) for one in offer.changes] == [("tables", "")]

    def test_a_release_without_uniques_costs_one_more(self):
        plain, without = (self.judged(self.OPEN, without_uniques=one) for one in (False, True))
        assert without.price.statistics == plain.price.statistics + 1
        assert without.terms.without_uniques

    @pytest.mark.parametrize("transform", [Transform(rounding=5), Transform(threshold=3)])
    def test_rounding_and_checks_close_both(self, transform):
        policy = replace(self.OPEN, transform=transform)
        offer = self.judged(policy, measures=("dcr",), without_uniques=True)
        assert (offer.terms.measures, offer.terms.without_uniques) == ((), False)
        reasons = {one.field: one.reason for one in offer.changes}
        assert reasons["measures"] == reasons["without_uniques"] == "READS_RECORDS_ONCE_MORE"
        assert offer.price == self.judged(policy).price

    def test_a_black_box_offered_in_place_of_a_generator_keeps_its_uniques(self):
        offer = self.judged(replace(self.OPEN, generators=("trees",)), without_uniques=True)
        assert (offer.terms.generator, offer.terms.without_uniques) == ("trees", False)
        reasons = {one.field: one.reason for one in offer.changes}
        assert reasons["without_uniques"] == "GENERATOR_READS_RECORDS"

    def test_a_generator_offered_in_place_of_a_black_box_may_be_rid_of_them(self):
        offer = self.judged(self.OPEN, generator="trees", without_uniques=True)
        assert (offer.terms.generator, offer.terms.without_uniques) == ("ipf", True)

    def test_noise_in_place_of_exact_counts_closes_both(self):
        noise = Laplace(Neighbouring.ADD_REMOVE, Decimal(1))
        policy = replace(
            self.OPEN,
            mechanisms=(Mechanism.LAPLACE,),
            noise=noise,
            most_per_card=Price(epsilon=Decimal(1)),
        )
        offer = self.judged(policy, measures=("dcr",), without_uniques=True)
        assert (offer.terms.measures, offer.terms.without_uniques) == ((), False)
        reasons = {one.field: one.reason for one in offer.changes}
        assert reasons["measures"] == reasons["without_uniques"] == "READS_RECORDS_ONCE_MORE"

    def test_an_unknown_measure_is_an_error(self):
        with pytest.raises(InvalidInputError):
            self.judged(self.OPEN, measures=("nonsense",))


class TestRunsOnTheRecords:
    """Runs are measured as the card is, and reviewed ones go with counts as they are alone."""

    MOST = AnalysesPolicy(
        kinds=("crosstab", "linear"), checked_runs=3, reviewed_runs=2, libraries=("numpy", "pandas")
    )
    OPEN = replace(POLICY, analyses=MOST)
    WANTED = Analyses(
        ("linear",), 2, reviewed_runs=1, programs=("ab" * 32,), libraries=("numpy",), numbers=50
    )
    NOISE = Laplace(Neighbouring.ADD_REMOVE, Decimal(1))

    def judged(self, policy, analyses, **changes):
        asked = proposal(("a", "b"), analyses=analyses, **changes)
        return judge(asked, policy, FIVE, LIMITS, {}, facts=facts)

    def test_what_is_on_offer_is_granted_as_asked(self):
        offer = self.judged(self.OPEN, self.WANTED)
        assert (offer.terms.analyses, offer.changes) == (self.WANTED, ())
        assert offer.terms.analyses.price == Price(statistics=2 * 50 + 500)

    def test_nothing_is_on_offer_where_nothing_is_said(self):
        offer = self.judged(POLICY, self.WANTED)
        assert offer.terms.analyses == NO_ANALYSES
        assert {one.reason for one in offer.changes} == {"RUNS_NOT_OFFERED"}

    def test_more_is_brought_within_bounds(self):
        offer = self.judged(self.OPEN, Analyses(("cox", "linear"), 9, numbers=500))
        assert offer.terms.analyses == Analyses(("linear",), 3, numbers=100)
        assert {one.field: one.reason for one in offer.changes} == {
            "analyses.kinds": "KIND_NOT_OFFERED",
            "analyses.checked_runs": "TOO_MANY_RUNS",
            "analyses.numbers": "TOO_MANY_NUMBERS",
        }

    def test_a_library_that_is_not_on_offer_leaves_no_program(self):
        offer = self.judged(self.OPEN, replace(self.WANTED, libraries=("torch",)))
        assert offer.terms.analyses == replace(self.WANTED, reviewed_runs=0, programs=(), libraries=())
        assert {one.reason for one in offer.changes} == {"LIBRARY_NOT_OFFERED"}

    def test_noise_in_place_of_exact_counts_measures_the_runs_too(self):
        policy = replace(
            self.OPEN,
            mechanisms=(Mechanism.LAPLACE,),
            noise=self.NOISE,
            most_per_card=Price(epsilon=Decimal(1)),
        )
        offer = self.judged(policy, self.WANTED)
        assert offer.terms.analyses == Analyses(("linear",), 2, numbers=50, privacy=self.NOISE)
        assert offer.terms.analyses.price == Price(epsilon=Decimal(2))
        reasons = {one.field: one.reason for one in offer.changes}
        assert reasons["analyses.privacy"] == "MEASURED_AS_THE_CARD"
        assert reasons["analyses.programs"] == "READS_RECORDS_ONCE_MORE"

    def test_a_run_keeps_a_budget_of_its_own(self):
        own = Laplace(Neighbouring.ADD_REMOVE, Decimal("0.25"))
        policy = replace(
            self.OPEN, mechanisms=(Mechanism.LAPLACE,), most_per_card=Price(epsilon=Decimal(1))
        )
        asked = Analyses(("linear",), 2, privacy=own)
        offer = self.judged(policy, asked, privacy=self.NOISE)
        assert (offer.terms.analyses, offer.changes) == (asked, ())

    @pytest.mark.parametrize("transform", [Transform(rounding=5), Transform(threshold=3)])
    def test_rounding_and_checks_close_both(self, transform):
        offer = self.judged(replace(self.OPEN, transform=transform), self.WANTED)
        assert offer.terms.analyses == NO_ANALYSES
        reasons = {one.reason for one in offer.changes if one.field.startswith("analyses")}
        assert reasons == {"READS_RECORDS_ONCE_MORE"}

    @pytest.mark.parametrize(
        "wrong",
        [
            {"kinds": ("linear",)},
            {"checked_runs": 1},
            {"kinds": ("linear", "crosstab"), "checked_runs": 1},
            {"kinds": ("Linear",), "checked_runs": 1},
            {"kinds": ("linear",), "checked_runs": 1_001},
            {"kinds": ("linear",), "checked_runs": 1, "numbers": 0},
            {"reviewed_runs": 1},
            {"reviewed_runs": 1, "programs": ("AB" * 32,)},
            {"programs": ("ab" * 32,)},
            {"reviewed_runs": 1, "programs": ("ab" * 32,), "libraries": ("../x",)},
            {"kinds": ("linear",), "checked_runs": 1, "privacy": NOISE},
        ],
    )
    def test_what_cannot_be_is_no_proposal(self, wrong):
        with pytest.raises((InvalidInputError, InvalidNumberError)):
            proposal(("a", "b"), analyses=Analyses(**wrong))


def test_columns_need_programs_and_from_tables_a_step():
    """A draft names all numbers and offers no run."""
    offered = AnalysesPolicy(reviewed_runs=2, columns=("b", "a"))
    assert offered.most.columns == ("a", "b")
    assert replace(offered, reviewed_runs=0).most == NO_ANALYSES
    policy = replace(POLICY, analyses=replace(offered, stored=True)).without_numbers(("b", "c"))
    assert (policy.analyses.columns, policy.analyses.stored) == (("b",), True)
    assert (
        not replace(POLICY, analyses=replace(offered, stored=True)).without_numbers(()).analyses.stored
    )


def test_analysts_receive_a_policy_without_the_rules_of_its_runs():
    own = {"stored": True, "threshold": 50, "rounding": 20, "influence": None}
    runs = AnalysesPolicy(("linear",), 3, release=AnswerRelease.STEWARD, **own)
    policy = replace(POLICY, analyses=runs, stewards=2, two_stewards=()).for_persons(5)
    public = policy.public
    assert public == replace(
        POLICY,
        analyses=AnalysesPolicy(("linear",), 3, release=AnswerRelease.STEWARD),
        two_stewards=tuple(TwoStewards),
    )
    assert public.public == public
    assert public.decided_by_two == policy.decided_by_two


def test_no_policy_offers_at_once_what_two_stewards_decide():
    for two in ({"stewards": 2}, {"two_stewards": (TwoStewards.EXACT_COUNTS,)}):
        with pytest.raises(InvalidInputError, match=r"policy\.automatic"):
            replace(POLICY, automatic=True, **two)


class TestTrial:
    """Marginals that support raking would miss are refused when they are proposed: nothing is paid."""

    WIDE = Domain.of({f"a{number}": 100 for number in range(8)})
    RAKING = replace(
        POLICY,
        largest_marginal_cells=10_000,
        most_marginals=100,
        generators=("support-raking",),
        mechanisms=(Mechanism.EXACT, Mechanism.LAPLACE),
        most_per_card=Price(statistics=10**6, epsilon=Decimal(9)),
    )

    def asked(self, **changes):
        return proposal(*combinations(self.WIDE.attributes, 2), generator="support-raking", **changes)

    def test_exact_marginals_are_tried_on_made_up_records(self):
        with pytest.raises(NotFittableError) as caught:
            judge(self.asked(), self.RAKING, self.WIDE, LIMITS, {})
        assert "Use the generator" in caught.value.fields["remedy"]

    def test_noisy_ones_are_met_as_nearly_as_they_come(self):
        """Under noise the fit never fails, so nothing is tried."""
        noisy = Laplace(Neighbouring.ADD_REMOVE, Decimal(1))
        outcome = judge(self.asked(privacy=noisy), self.RAKING, self.WIDE, LIMITS, {})
        assert isinstance(outcome, CounterOffer)

    def test_small_ones_are_offered(self):
        outcome = judge(
            proposal(("a", "b"), ("b", "c"), generator="support-raking"), self.RAKING, FIVE, LIMITS, {}
        )
        assert isinstance(outcome, CounterOffer)
