"""Cards on records of persons, and on a part of the records, over real TLS and with real jobs."""

import numpy as np
import pytest

from gencard.client.terms import stddevs
from gencard.core.card.privacy import laplace
from gencard.core.errors import ProposalRefusedError, RunRefusedError
from tests.system.house import SCHEMA, build, survey
from tests.system.raw_calls import configure

NOISE = '{ mechanism = "laplace", neighbouring = "add-remove", epsilon = "1" }'
CAP = "{ statistics = 1_000, epsilon = 9 }"
NOISY = {"epsilon": 2, "neighbouring": "add-remove"}
PERSONS = SCHEMA.replace('declared_by = "the tests"', 'declared_by = "the tests"\nperson = "id"')
PERSONS = PERSONS.replace("reviewed = true", "reviewed = true\nmost_records = 3")
PERSONS = f"""{PERSONS}integer = true

[[attributes]]
name = "old"
of = "age"
edges = [16, 65, 95]
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    data = survey(900)
    data["id"] = [f"the-person-{one:05}" for one in np.random.default_rng(2).integers(0, 200, 900)]
    house = build(tmp_path_factory.mktemp("persons"), data, PERSONS)
    house.edit({"most_per_card": CAP, "project": CAP, "analyst": CAP, "dataset": CAP})
    configure(house, "datasets.policy", mechanisms='["exact", "laplace"]', noise=NOISE)
    try:
        yield house.start()
    finally:
        house.stop()


@pytest.fixture(scope="module")
def ana(house):
    with house.analyst() as analyst:
        yield analyst


def propose(analyst, marginals, **how):
    return analyst.propose("survey", marginals, purpose="a test", rows=5_000, **how)


def test_s67_card_receipt_and_noise_are_for_a_person(house, ana):
    assert ana.dataset("survey").most_records == 3
    card = propose(ana, [("sex", "age"), ("old",)], **NOISY).accept()
    assert not card.changes
    assert card.signed.most_records == card.terms.privacy.most_records == 3
    assert str(card.terms.privacy).endswith("a person with at most 3 records")
    assert ("Records", card.signed.counted) in card.lines()
    each = laplace(1, neighbouring="add-remove")
    assert stddevs(card.terms) == (each.stddev(3.0),) * 2
    release = card.release(rows=500, seed=7)
    assert release.receipt.most_records == 3
    rows = release.to_frame()
    assert (rows["age"] == rows["age"].round()).all()
    assert card.replay(release)
    kept = [path for path in house.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not any(b"the-person-" in path.read_bytes() for path in kept)


def test_exact_counts_are_of_the_records_that_count(ana):
    card = propose(ana, [("sex",), ("health",)]).accept()
    assert card.signed.most_records == 3
    release = card.release(rows=100, seed=1)
    assert release.receipt.most_records == 3
    totals = {int(table.to_numpy().sum()) for table in card.tables().values()}
    assert len(totals) == 1
    assert totals.pop() < 600


def test_a_card_on_a_part_of_the_records_is_one_whose_statistics_hold_its_attributes(ana):
    card = propose(ana, [("health",), ("health", "sex")], where="sex == 'female'")
    assert card.terms.marginals == (("sex", "health"),)
    assert card.price == propose(ana, [("health", "sex")]).price
    assert ("Only where", "sex == 'female'") in card.lines()
    with pytest.raises(ProposalRefusedError, match="WHERE"):
        card.counter(marginals=[("health",)])
    assert card.accept().signed.terms.where == "sex == 'female'"
    release = card.release(rows=50, seed=1)
    assert set(release.to_frame()["sex"]) == {"female", "male"}
    own, same, other = (
        card.answer("~ health", "crosstab", **how).to_frame()
        for how in ({}, {"where": "sex == 'female'"}, {"where": "sex == 'male'"})
    )
    assert own.equals(same)
    assert not own.equals(other)


def test_runs_count_persons_not_records(tmp_path):
    """Nine persons have the 27 records of the south."""
    data = survey(900)
    data = data[data.region == "north"].reset_index(drop=True)
    data["id"] = [f"p{row // 3:05}" for row in range(len(data))]
    data["region"] = np.where(data.index < 27, "south", "north")
    house = build(tmp_path, data, PERSONS)
    house.raise_caps()
    granted = {"kinds": ["means", "linear"], "checked_runs": 9}
    configure(house, "datasets.policy", analyses='{ kinds = ["means", "linear"], checked_runs = 9 }')
    house.start()
    try:
        with house.analyst() as analyst:
            card = propose(analyst, [("sex",)], analyses=granted).accept()
            assert card.run("age ~ sex", "means", progress=False).estimates.n == len(data) // 5 * 5
            for kind in ("means", "linear"):
                with pytest.raises(RunRefusedError):
                    card.run("age ~ region", kind, progress=False)
    finally:
        house.stop()
