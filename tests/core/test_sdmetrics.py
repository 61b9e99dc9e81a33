"""SDMetrics 0.32.0 on 300 records of Adult: each of its privacy figures that has a counterpart here."""

import json

import numpy as np
import pytest

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.privacy.attacks.new_rows import new_rows
from gencard.core.privacy.distances.closer_share import closer_share
from gencard.core.privacy.distances.gower import gower_of
from gencard.core.privacy.distances.nearest import nearest
from gencard.core.privacy.tables.disclosure_protection import disclosure_protection
from gencard.core.privacy.tables.disclosure_risk import disclosure_risk
from gencard.core.privacy.tables.nearest_attribution import nearest_attribution
from gencard.core.privacy.tables.random_baseline import RandomBaseline, random_baseline, random_records
from tests.core.mixed import adult
from tests.core.oracles import coded, read
from tests.shared_data import oracle_file

TRAIN, HOLDOUT, SYNTHETIC = "adult300_train.csv", "adult300_holdout.csv", "adult299_synthetic.csv"

pytestmark = pytest.mark.shared


def figures(name):
    return json.loads(oracle_file("metrics/sdmetrics_adult300.json").read_text())[name]


def test_new_row_synthesis():
    train, synthetic = adult(TRAIN, SYNTHETIC)
    found, case = new_rows(synthetic, train), figures("NewRowSynthesis")
    assert (found.new, found.matched) == (case["num_new_rows"], case["num_matched_rows"])
    assert found.share == pytest.approx(case["score"], abs=1e-12)


def test_dcr_overfitting_protection():
    """Its ranges are those of train and of holdout, each for itself; ties go to holdout."""
    train, holdout, synthetic = adult(TRAIN, HOLDOUT, SYNTHETIC)
    distances = [nearest(synthetic, real, gower_of(real)).distance for real in (train, holdout)]
    share, case = closer_share(*distances, (300, 300)), figures("DCROverfittingProtection")
    percentages = case["synthetic_data_percentages"]
    assert share.protection == pytest.approx(case["score"], abs=1e-12)
    assert share.strict == pytest.approx(percentages["closer_to_training"], abs=1e-12)
    assert 1 - share.strict == pytest.approx(percentages["closer_to_holdout"], abs=1e-12)


def test_dcr_baseline_protection():
    """Its random table follows no seed: ours are to have medians like the one it had."""
    train, synthetic = adult(TRAIN, SYNTHETIC)
    case = figures("DCRBaselineProtection_seed0")
    medians = case["median_DCR_to_real_data"]
    rng, gower = np.random.default_rng(0), gower_of(train)
    found = [
        random_baseline(synthetic, train, random_records(train, 299, rng=rng), gower) for _ in range(3)
    ]
    for each in found:
        assert each.synthetic == pytest.approx(medians["synthetic_data"], abs=1e-12)
        assert each.random == pytest.approx(medians["random_data_baseline"], abs=0.02)
    given = RandomBaseline(found[0].synthetic, medians["random_data_baseline"])
    assert given.ratio == pytest.approx(case["score"], abs=1e-12)


@pytest.mark.parametrize("name", ["cap", "zero_cap", "generalized_cap"])
def test_disclosure_protection(name):
    keys, sensitive = tuple(figures("keys")), tuple(figures("sensitive"))
    train, synthetic = coded(f"metrics/{TRAIN}", f"metrics/{SYNTHETIC}")
    attribution = disclosure_risk(train, synthetic, keys, *sensitive).attribution
    attributed = {
        "cap": attribution.across_found,
        "zero_cap": attribution.across,
        "generalized_cap": nearest_attribution(train, synthetic, keys, *sensitive),
    }[name]
    check(disclosure_protection(attributed, train, sensitive), figures(f"DisclosureProtection_{name}"))


def test_disclosure_protection_of_a_number_and_of_two_targets():
    """Age in ten parts of the train's range besides the keys; occupation and income are one target."""
    keys = (*figures("keys"), "age")
    train, synthetic = grouped(keys, ("occupation", "income"))
    found = disclosure_risk(train, synthetic, keys, "occupation, income").attribution
    names = coded(f"metrics/{TRAIN}", f"metrics/{SYNTHETIC}")[0]
    check(
        disclosure_protection(found.across_found, names, ("occupation", "income")),
        figures("DisclosureProtection_cont"),
    )


def check(found, case):
    assert found.protection == pytest.approx(case["cap_protection"], abs=1e-12)
    assert found.baseline == pytest.approx(case["baseline_protection"], abs=1e-12)
    assert found.ratio == pytest.approx(case["score"], abs=1e-12)


def grouped(keys, targets):
    """Both files, with ages in groups, some attributes as one."""
    files = [read(f"metrics/{name}") for name in (TRAIN, SYNTHETIC)]
    ages = [float(row["age"]) for row in files[0] if row["age"]]
    edges = np.linspace(min(ages), max(ages), 11)[1:-1]
    for row in (row for file in files for row in file):
        if row["age"]:
            row["age"] = str(np.searchsorted(edges, float(row["age"])))  # closed on the right
        row[", ".join(targets)] = "/".join(row[name] for name in targets)
    names = (*keys, ", ".join(targets))
    levels = {name: sorted({row[name] for file in files for row in file}) for name in names}
    domain = Domain.of({name: len(levels[name]) for name in names})
    return [
        Dataset(domain, np.array([[levels[name].index(row[name]) for name in names] for row in file]))
        for file in files
    ]
