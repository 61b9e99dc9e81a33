"""Differences between what was asked and what is offered: none is missed, none is made up."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.card.budget import Neighbouring
from gencard.core.card.card import NOT_EXPLAINED, STEWARD, Change, changes_between
from gencard.core.card.privacy import EXACT, Gaussian, Transform
from gencard.core.card.sums import Moment, MomentKind, Sum
from gencard.core.card.terms import Analyses, AuditTerms, Proposal

NOISE = Gaussian(Neighbouring.REPLACE_ONE, Decimal("0.1"))
ASKED = Proposal(
    dataset="survey",
    purpose="To see",
    marginals=(("age", "sex", "work"), ("health", "work"), ("age",)),
    generator="ipf",
    rows=100,
    moments=(Moment(MomentKind.MEAN, ("age",)),),
)
OTHER = {
    "purpose": "To look",
    "rows": 5,
    "generator": "independent",
    "privacy": NOISE,
    "without_uniques": True,
    "measures": ("dcr",),
    "moments": (),
    "marginals": (("age", "sex"), ("health", "work"), ("age",)),
    "audit": AuditTerms(runs=20, order=2, alpha="0.01"),
    "analyses": Analyses(kinds=("linear",), checked_runs=2),
    "where": "sex == 'F'",
    "histograms": ("age",),
    "sums": (Sum(("age",), ("sex",)),),
}


def without_moments(terms: Proposal) -> Proposal:
    return replace(terms, moments=())


class TestNothingIsMissed:
    @pytest.mark.parametrize("field", OTHER)
    def test_each_field(self, field):
        asked = replace(ASKED, moments=()) if field == "privacy" else ASKED
        changes = changes_between(asked, replace(asked, **{field: OTHER[field]}))
        assert {change.field.split(".")[0] for change in changes} == {field}
        assert {change.reason for change in changes} == {NOT_EXPLAINED}

    def test_the_transform(self):
        asked = without_moments(ASKED)
        (change,) = changes_between(asked, replace(asked, transform=Transform(rounding=5)))
        assert change.field == "transform"

    def test_every_field_of_the_terms_is_compared(self):
        """A field that is added to the terms must be added here, and to the differences."""
        assert set(Proposal.__dataclass_fields__) == {*OTHER, "dataset", "weights", "transform"}

    def test_analyses_are_compared_part_by_part_and_kind_by_kind(self):
        asked = replace(ASKED, analyses=Analyses(("linear", "means"), checked_runs=2))
        offered = replace(ASKED, analyses=Analyses(("means",), checked_runs=1))
        given = Change("analyses.kinds", "linear", "", "KIND_NOT_OFFERED")
        assert changes_between(asked, offered, [given]) == (
            given,
            Change("analyses.checked_runs", "2", "1", NOT_EXPLAINED),
        )

    @given(st.permutations(ASKED.marginals))
    def test_order_is_no_difference(self, marginals):
        turned = tuple(clique[::-1] for clique in marginals)
        assert changes_between(ASKED, replace(ASKED, marginals=turned)) == ()

    @given(st.sets(st.integers(0, 2)), st.booleans())
    def test_marginals_left_out_are_named_one_by_one(self, kept, added):
        marginals = [ASKED.marginals[place] for place in sorted(kept)]
        marginals += [("region",)] if added or not kept else []
        changes = changes_between(ASKED, replace(ASKED, marginals=tuple(marginals)))
        gone = {", ".join(ASKED.marginals[place]) for place in {0, 1, 2} - kept}
        assert {change.old for change in changes if change.old} == gone
        assert [change.new for change in changes if not change.old] == ["region"] * (added or not kept)


class TestMarginals:
    def test_a_marginal_is_followed_by_its_parts(self):
        offered = replace(ASKED, marginals=(("age", "sex"), ("sex", "work"), *ASKED.marginals[1:]))
        (change,) = changes_between(ASKED, offered)
        assert (change.old, change.new) == ("age, sex, work", "age, sex; sex, work")

    def test_one_that_was_asked_besides_is_no_part(self):
        offered = replace(ASKED, marginals=ASKED.marginals[1:])
        (change,) = changes_between(ASKED, offered)
        assert (change.old, change.new) == ("age, sex, work", "")


class TestWeights:
    @staticmethod
    def weighted(*weights):
        return replace(without_moments(ASKED), privacy=NOISE, weights=weights)

    @pytest.mark.parametrize("other", [(2, 2, 2), (1, 1, 1), ()])
    def test_equal_parts_of_the_budget_are_no_difference(self, other):
        assert changes_between(self.weighted(3, 3, 3), self.weighted(*other)) == ()

    def test_shifted_parts_are(self):
        (change,) = changes_between(self.weighted(3, 1, 1), self.weighted(1, 1, 1))
        assert (change.field, change.old, change.new) == ("weights", "3, 1, 1", "1, 1, 1")

    def test_a_heavy_statistic_that_nobody_asked_for_takes_the_budget(self):
        asked = self.weighted()
        marginals = (*asked.marginals, ("region",))
        offered = replace(asked, marginals=marginals, weights=(1, 1, 1, 1_000_000))
        fields = [change.field for change in changes_between(asked, offered)]
        assert fields == ["weights", "marginals"]

    def test_a_part_has_the_weight_of_its_whole(self):
        asked = self.weighted(3, 1, 1)
        offered = replace(asked, marginals=(("age", "sex"), *asked.marginals[1:]))
        assert [change.field for change in changes_between(asked, offered)] == ["marginals"]

    def test_exact_counts_have_none(self):
        (change,) = changes_between(self.weighted(3, 1, 1), replace(self.weighted(), privacy=EXACT))
        assert change.field == "privacy"


class TestReasons:
    def test_the_policys_where_it_gave_one_else_the_other(self):
        offered = replace(ASKED, rows=5, marginals=(("age", "sex"), ("health", "work")))
        policy = (
            Change("marginals", "age, sex, work", "age, sex; age, work", "ORDER_TOO_HIGH"),
            Change("marginals", "age, work", "", "PRICE_TOO_HIGH"),
        )
        reasons = {
            (change.field, change.old): change.reason
            for change in changes_between(ASKED, offered, policy, STEWARD)
        }
        assert reasons == {
            ("rows", "100"): STEWARD,
            ("marginals", "age, sex, work"): "ORDER_TOO_HIGH, PRICE_TOO_HIGH",
            ("marginals", "age"): STEWARD,
        }

    def test_a_reason_for_what_did_not_change_is_no_change(self):
        assert changes_between(ASKED, ASKED, (Change("rows", "100", "5", "TOO_MANY_ROWS"),)) == ()
