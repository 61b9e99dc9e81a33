import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.domain import LARGEST_SIZE, Domain
from gencard.core.errors import InvalidCliqueError, InvalidDomainError, UnknownAttributeError
from tests.core.strategies import domains

DOMAIN = Domain.of({"sex": 2, "age": 8, "health": 6})


@pytest.mark.parametrize(
    ("attributes", "sizes"),
    [
        (("a", "a"), (2, 2)),
        (("",), (2,)),
        (("a",), (0,)),
        (("a",), (-1,)),
        (("a",), (LARGEST_SIZE + 1,)),
        (("a", "b"), (2,)),
    ],
)
def test_nonsense_is_refused(attributes, sizes):
    with pytest.raises(InvalidDomainError):
        Domain(attributes, sizes)


def test_an_attribute_is_found_by_name():
    assert DOMAIN.axes(("health", "sex")) == (2, 0)
    assert DOMAIN.size("age") == 8
    assert "age" in DOMAIN
    assert "income" not in DOMAIN
    assert len(DOMAIN) == 3


def test_an_unknown_attribute_is_named():
    with pytest.raises(UnknownAttributeError, match="income"):
        DOMAIN.project(("sex", "income"))


def test_projection_keeps_the_order_asked_for():
    assert DOMAIN.project(("health", "sex")) == Domain(("health", "sex"), (6, 2))


def test_cells_are_exact_where_floats_are_not():
    names = tuple(f"a{i}" for i in range(40))
    assert Domain(names, (10,) * 40).cells == 10**40


@given(domains(most=5), st.randoms())
def test_one_set_of_attributes_has_one_name(domain, random):
    shuffled = random.sample(domain.attributes, len(domain))
    assert domain.canonical(shuffled) == domain.attributes


@pytest.mark.parametrize("clique", [(), ("sex", "sex")])
def test_a_clique_is_not_empty_and_repeats_nothing(clique):
    with pytest.raises(InvalidCliqueError):
        DOMAIN.canonical(clique)


def test_covered_by_keeps_what_is_named_in_the_domains_order():
    assert DOMAIN.covered_by([("health",), ("health", "sex")]) == Domain(("sex", "health"), (2, 6))
