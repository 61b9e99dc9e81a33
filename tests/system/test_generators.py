"""Every generator, from proposal to replay, beside a cell that cannot occur."""

from decimal import Decimal

import pytest

from gencard.core import errors
from gencard.core.audit.report import Verdict
from gencard.core.card.budget import Neighbouring
from gencard.core.card.privacy import EXACT, Gaussian, Privacy
from gencard.core.card.terms import AuditTerms, Tier
from gencard.core.generators.registry import BY_CONSTRUCTION, GENERATORS, most_cells
from tests.system.house import SCHEMA, House, build, survey
from tests.system.raw_calls import configure, state_unchanged

ZEROS = """
[[structural_zeros]]
clique = ["sex", "work"]
cells = [["male", "full"]]
"""
CLIQUES = [("sex", "health"), ("health", "work"), ("sex", "work"), ("region",)]
NOISY = Gaussian(Neighbouring.ADD_REMOVE, Decimal("0.5"))


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """Both exact counts and noise are on offer; nobody of the survey is male and works full time."""
    records = survey()
    records = records[(records["sex"] != "male") | (records["work"] != "full")]
    house = build(tmp_path_factory.mktemp("generators"), records, SCHEMA + ZEROS)
    house.edit({"largest_order": "4", "most_per_card": "{ statistics = 500, rho = 1 }"})
    house.edit(dict.fromkeys(("dataset", "project", "analyst"), "{ statistics = 500, rho = 50 }"))
    noise = '{ mechanism = "gaussian", neighbouring = "add-remove", rho = "0.5" }'
    configure(house, "datasets.policy", mechanisms='["exact", "gaussian"]', noise=noise)
    yield house.start()
    house.stop()


@pytest.mark.parametrize("privacy", [EXACT, NOISY], ids=["exact", "noisy"])
@pytest.mark.parametrize("name", GENERATORS)
def test_from_proposal_to_replay(house: House, name: str, privacy: Privacy) -> None:
    cliques = [("sex", "health", "work", "region")] if name == "saturated" else CLIQUES
    with house.analyst() as analyst:
        card = analyst.propose(
            "survey", cliques, purpose="To see", generator=name, rows=2_000, privacy=privacy
        )
        assert card.changes == ()
        card.accept()
        data = card.generate(rows=2_000, seed=11, progress=False)
        assert not ((data["sex"] == "male") & (data["work"] == "full")).any()
        assert set(data["health"]) == {"good", "fair", "bad", "very bad"}
        assert house.controller.controller_state.fits.cards[-1] == card.name
        other = card.generate(rows=2_000, seed=12, progress=False)
        assert not data.equals(other)
        # rows of the kept fit, from a new one, and the other way round
        assert card.replay(other).rows == card.replay(data).rows == 2_000


def test_audits_put_no_record_where_none_can_be(house: House) -> None:
    """Generators refuse a psi that contradicts the zeros; an audit that caused it would blame them."""
    house.allow_audits(5)
    terms = AuditTerms(runs=6, alpha="0.0001")
    cliques = [("sex", "health"), ("health", "work"), ("region",)]
    with house.analyst() as analyst:
        card = analyst.propose("survey", cliques, purpose="To see", rows=2_000, audit=terms).accept()
        verdicts = {
            (box, where): card.audit(box, where=where, progress=False).verdict
            for box in ("leaky", "honest")
            for where in ("card", "made-up")
        }
        own = card.audit("spanning-tree", where="card", progress=False).verdict
    leaks = {key for key, verdict in verdicts.items() if verdict is Verdict.LEAKAGE}
    assert leaks == {("leaky", "card"), ("leaky", "made-up")}
    assert own is Verdict.NO_EVIDENCE


def test_the_catalogue_lists_them_with_needs_and_bounds(house: House) -> None:
    with house.analyst() as analyst:
        listed = {entry.name: entry for entry in analyst.generators()}
        offered = analyst.dataset("survey").policy.generators
    assert offered == BY_CONSTRUCTION
    for name in GENERATORS:
        assert listed[name].tier is Tier.BY_CONSTRUCTION
        limits = house.settings().limits
        bound = most_cells(name, model_cells=limits.model_cells, memory_mib=limits.memory_mib)
        assert listed[name].most_cells == bound <= limits.model_cells
        assert (listed[name].needs, listed[name].bound) == (
            GENERATORS[name].needs,
            GENERATORS[name].bound,
        )
    assert listed["saturated"].parameters == {"alpha": "0.0"}
    assert listed["support-raking"].parameters["support"] == "262144"
    assert listed["leaky"].bound == ""
    assert listed["leaky"].parameters == {"generator": "ipf", "marginal": "sex, health, work"}


def test_what_the_saturated_model_lacks_is_said_before_anything_is_spent(house: House) -> None:
    with (
        house.analyst() as analyst,
        state_unchanged(house),
        pytest.raises(errors.InvalidInputError, match="needs one marginal on all attributes"),
    ):
        analyst.propose("survey", CLIQUES, purpose="To see", generator="saturated")


@pytest.fixture
def small_house(tmp_path):
    house = build(tmp_path)
    house.edit({"model_cells": "23"})
    yield house.start()
    house.stop()


def test_a_tree_that_is_too_large_is_refused_with_the_sets_that_cause_it(small_house: House) -> None:
    with (
        small_house.analyst() as analyst,
        state_unchanged(small_house),
        pytest.raises(errors.ModelTooLargeError) as caught,
    ):
        analyst.propose("survey", CLIQUES, purpose="To see", generator="graphical")
    assert caught.value.fields == {"largest": "24 on (sex, health, work); 2 on (region)", "limit": "23"}
    assert 'generator="auto"' in str(caught.value)
