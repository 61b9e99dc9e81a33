"""Both forms of the table: a triangle for a large one of pairs, plain for cliques across three parts."""

import hashlib

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gencard.core.coding import StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.generators.contract import TargetMarginal
from gencard.core.generators.family import ipf
from gencard.core.generators.fitting import Triangle, three_parts
from gencard.core.statistics.measure import measure_dataset
from tests.core.strategies import domains, workloads
from tests.core.tables import BIG, STRADDLING, dense_dataset, errors, pairs, textbook

TIGHT = ipf(tolerance=1e-10)


@pytest.mark.parametrize("cliques", [pairs(BIG), STRADDLING], ids=["triangle", "plain"])
def test_the_fixed_point_is_the_textbooks(cliques):
    psi = measure_dataset(dense_dataset(BIG, 20_000), cliques)
    model = TIGHT.fit(psi, BIG)
    assert max(errors(model, psi)) <= 1e-10 * (1 + 1e-6)
    np.testing.assert_allclose(model.probabilities, textbook(psi, BIG, 40), atol=1e-10)


@pytest.mark.parametrize("cliques", [pairs(BIG), STRADDLING], ids=["triangle", "plain"])
def test_structural_zeros_stay_zero(cliques):
    zeros = StructuralZeros(("e", "a"), ((3, 1), (9, 0)))
    start = np.ones(BIG.sizes)
    start[1, :, :, :, 3] = start[0, :, :, :, 9] = 0
    dataset = dense_dataset(BIG, 20_000)
    kept = start[tuple(dataset.codes.T.astype(int))] > 0
    psi = measure_dataset(
        dataset.take(np.flatnonzero(kept)), [c for c in cliques if not {"a", "e"} <= set(c)]
    )
    model = ipf((zeros,), tolerance=1e-9).fit(psi, BIG)
    assert np.all(model.probabilities[start == 0] == 0)
    np.testing.assert_allclose(model.probabilities, textbook(psi, BIG, 60, start), atol=1e-8)


def test_structural_zeros_of_attributes_outside_the_domain_say_nothing():
    domain = Domain.of({"a": 2, "b": 2})
    psi = measure_dataset(Dataset(domain, np.array([[0, 0], [0, 1], [1, 1]])), [("a", "b")])
    zeros = (StructuralZeros(("a", "z"), ((0, 0), (1, 1))),)
    np.testing.assert_array_equal(
        ipf(zeros).fit(psi, domain).probabilities, ipf().fit(psi, domain).probabilities
    )


def test_forms_are_chosen_as_the_test_says():
    assert three_parts(BIG, pairs(BIG))
    assert three_parts(BIG, STRADDLING) is None
    assert three_parts(Domain.of({"a": 200, "b": 200}), [("a", "b")]) is None


@settings(deadline=None)
@given(st.data())
def test_no_clique_touches_three_parts(data):
    domain = data.draw(domains(fewest=5, most=5, largest=12))
    cliques = data.draw(workloads(domain))
    parts = three_parts(domain, cliques)
    assume(parts)
    assert sorted(name for part in parts for name in part) == sorted(domain.attributes)
    assert not any(all(set(part) & set(clique) for part in parts) for clique in cliques)


def test_a_triangle_sums_and_scales_like_the_table_that_it_stands_for():
    zeros = [StructuralZeros(("b", "c"), ((1, 1),))]
    triangle = Triangle(BIG, three_parts(BIG, pairs(BIG)), zeros)
    for block, names in enumerate(triangle.blocks):
        ratio = (np.arange(BIG.project(names).cells) % 7 + 0.5).reshape(BIG.project(names).sizes)
        before = triangle.expanded()
        triangle.scale(block, ratio)
        in_order = np.transpose(ratio, np.argsort(BIG.axes(names)))
        others = tuple(axis for axis, name in enumerate(BIG.attributes) if name not in names)
        np.testing.assert_allclose(triangle.expanded(), before * np.expand_dims(in_order, others))
    for block, names in enumerate(triangle.blocks):
        others = tuple(axis for axis, name in enumerate(BIG.attributes) if name not in names)
        expected = np.transpose(
            triangle.expanded().sum(axis=others), np.argsort(np.argsort(BIG.axes(names)))
        )
        np.testing.assert_allclose(triangle.marginal(block), expected)
    assert np.all(triangle.expanded()[:, 1, 1] == 0)


def test_the_bits_are_the_same_for_ever():
    """Golden: sums, products and quotients in a fixed order give these bits on every machine."""
    digests = []
    for cliques in (pairs(BIG), STRADDLING):
        model = ipf().fit(measure_dataset(dense_dataset(BIG, 9_999), cliques), BIG)
        digests.append(hashlib.sha256(model.probabilities.tobytes()).hexdigest()[:16])
    assert digests == ["609b17f669356f47", "41aa0d1db08902d2"]


def test_what_a_fit_compares_is_added_up_in_order():
    """The end of a fit must not depend on the order in which a version of numpy adds."""
    rng = np.random.default_rng(3)
    target, table = TargetMarginal.of(("a",), rng.random(5_000), ("a",)), rng.random(5_000)
    error = 0.0
    for distance in np.abs(table - target.shares).tolist():
        error += distance
    assert target.error(table) == error
