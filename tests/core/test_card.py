from decimal import Decimal

import pytest

from gencard.core.card.budget import Neighbouring
from gencard.core.card.privacy import Laplace, Transform
from gencard.core.card.terms import LONGEST_PURPOSE, MOST_MARGINALS, MOST_ROWS, AuditTerms, Proposal
from gencard.core.domain import Domain
from gencard.core.errors import (
    InvalidCliqueError,
    InvalidInputError,
    InvalidNumberError,
    UnknownAttributeError,
)

NOISY = Laplace(Neighbouring.ADD_REMOVE, Decimal(1))
DOMAIN = Domain.of({"sex": 2, "age": 8, "health": 6})


def proposal(**changes):
    fields = {
        "dataset": "census",
        "purpose": "Teaching.",
        "marginals": (("sex", "age"), ("health",)),
        "generator": "ipf",
        "rows": 100,
    }
    return Proposal(**(fields | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"purpose": "  "},
        {"purpose": "x" * (LONGEST_PURPOSE + 1)},
        {"marginals": ()},
        {"marginals": tuple((f"a{i}",) for i in range(MOST_MARGINALS + 1))},
    ],
    ids=["blank purpose", "long purpose", "no marginal", "too many marginals"],
)
def test_a_proposal_says_what_it_wants(changes):
    with pytest.raises(InvalidInputError):
        proposal(**changes)


@pytest.mark.parametrize("rows", [0, -1, MOST_ROWS + 1])
def test_rows_are_bounded(rows):
    with pytest.raises(InvalidNumberError):
        proposal(rows=rows)


@pytest.mark.parametrize(
    "marginals",
    [((),), (("sex", "sex"),), (("sex", "age"), ("age", "sex"))],
    ids=["empty", "repeats", "twice"],
)
def test_cliques_are_sets_named_once(marginals):
    with pytest.raises(InvalidCliqueError):
        proposal(marginals=marginals)


def test_the_order_of_asking_does_not_matter():
    one = proposal(marginals=(("age", "sex"), ("health",), ("health", "age")))
    other = proposal(marginals=(("health",), ("age", "health"), ("sex", "age")))
    assert one != other
    assert one.in_order_of(DOMAIN) == other.in_order_of(DOMAIN)
    assert one.in_order_of(DOMAIN).marginals == (("health",), ("sex", "age"), ("age", "health"))


def test_an_undeclared_attribute_is_named():
    with pytest.raises(UnknownAttributeError, match="income"):
        proposal(marginals=(("income",),)).in_order_of(DOMAIN)


@pytest.mark.parametrize(
    "fields",
    [
        {"runs": 2},
        {"runs": 1001},
        {"order": 0},
        {"order": 9},
        {"alpha": "1"},
        {"alpha": "0"},
        {"alpha": "nan"},
    ],
)
def test_audit_terms_are_in_range(fields):
    with pytest.raises(InvalidNumberError, match="audit"):
        AuditTerms(**fields)


def test_audit_terms_have_defaults():
    assert AuditTerms() == AuditTerms(runs=10, order=3, alpha="0.05")


class TestWhatReadsRecordsOnceMore:
    """Measures, and replicated uniques taken out: neither noise nor rounding would bind them."""

    def test_it_goes_with_exact_counts(self):
        asked = proposal(measures=("nndr", "dcr"), without_uniques=True)
        assert asked.in_order_of(DOMAIN).measures == ("dcr", "nndr")

    @pytest.mark.parametrize(
        "wrong",
        [
            {"measures": ("dcr", "dcr")},
            {"measures": ("DCR",)},
            {"measures": ("",)},
            {"measures": tuple(f"m{number}" for number in range(51))},
            {"measures": ("dcr",), "privacy": NOISY},
            {"measures": ("dcr",), "transform": Transform(rounding=5)},
            {"without_uniques": True, "privacy": NOISY},
            {"without_uniques": True, "transform": Transform(rounding=5)},
        ],
    )
    def test_and_with_nothing_else(self, wrong):
        with pytest.raises(InvalidInputError):
            proposal(**wrong)
