"""All pairs of a tree model by walking, against summing the whole table."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.boxes.marginal_models import pair_marginals
from gencard.core.generators.family import graphical
from gencard.core.statistics.marginals import project
from gencard.core.statistics.measure import measure_dataset
from tests.core.strategies import datasets, domains, workloads


def whole(model):
    """Every cell's probability, from the definition of the model."""
    table = np.ones(model.domain.sizes)
    for number, clique in enumerate(model.tree.cliques):
        joint = model.tables[number]
        kept = model.tree.separator(number)
        given_ = joint.sum(
            axis=tuple(axis for axis, name in enumerate(clique) if name not in kept), keepdims=True
        )
        conditional = np.divide(joint, given_, out=np.zeros_like(joint), where=given_ > 0)
        axes = tuple(axis for axis, name in enumerate(model.domain.attributes) if name not in clique)
        table = table * np.expand_dims(conditional, axes)
    return table


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_pair_is_that_of_the_whole_table(data):
    domain = data.draw(domains(fewest=2, most=5, largest=3))
    dataset = data.draw(datasets(domain, fewest=1, most=60))
    cliques = data.draw(workloads(domain))
    alone = [(name,) for name in domain.attributes if all(name not in c for c in cliques)]
    psi = measure_dataset(dataset, [*cliques, *alone])
    model = graphical(tolerance=1e-9).fit(psi.__class__(domain, psi.measurements), domain)
    pairs = data.draw(st.lists(st.sampled_from([*combinations(domain.attributes, 2)]), unique=True))
    found = pair_marginals(model, pairs)
    assert list(found) == pairs
    table = whole(model)
    for pair, marginal in found.items():
        np.testing.assert_allclose(marginal, project(table, domain.attributes, pair), atol=1e-7)
