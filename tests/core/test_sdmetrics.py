"""SDMetrics 0.32.0 on 300 records of Adult: each of its privacy figures that has a counterpart here."""

import json

import numpy as np
import pytest

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.measures.privacy.dcr import closer_share
from gencard.measures.privacy.disclosure import disclosure_risk
from gencard.measures.privacy.distances import gower_of
from gencard.measures.privacy.nearest import nearest
from tests.core.mixed import adult
from tests.core.oracles import coded, read
from tests.shared_data import oracle_file

TRAIN, HOLDOUT, SYNTHETIC = "adult300_train.csv", "adult300_holdout.csv", "adult299_synthetic.csv"

pytestmark = pytest.mark.shared


def figures(name):
    return json.loads(oracle_file("metrics/sdmetrics_adult300.json").read_text())[name]


def test_dcr_overfitting_protection():
    """SDMetrics takes the ranges of train and of holdout separately; ties go to holdout."""
    train, holdout, synthetic = adult(TRAIN, HOLDOUT, SYNTHETIC)
    distances = [nearest(synthetic, real, gower_of(real)).distance for real in (train, holdout)]
    share, case = closer_share(*distances, (300, 300)), figures("DCROverfittingProtection")
    percentages = case["synthetic_data_percentages"]
    assert min(2 * (1 - share.strict), 1.0) == pytest.approx(case["score"], abs=1e-12)
    assert share.strict == pytest.approx(percentages["closer_to_training"], abs=1e-12)
    assert 1 - share.strict == pytest.approx(percentages["closer_to_holdout"], abs=1e-12)


@pytest.mark.parametrize(("name", "measure"), [("cap", "across_covered"), ("zero_cap", "across")])
def test_correct_attribution(name, measure):
    keys, sensitive = tuple(figures("keys")), tuple(figures("sensitive"))
    train, synthetic = coded(f"metrics/{TRAIN}", f"metrics/{SYNTHETIC}")
    attribution = disclosure_risk(train, synthetic, keys, *sensitive).attribution
    case = figures(f"DisclosureProtection_{name}")
    assert 1 - getattr(attribution, measure) == pytest.approx(case["cap_protection"], abs=1e-12)


def test_correct_attribution_with_a_numeric_key_and_two_targets():
    """Age is cut into ten intervals of the train range; occupation and income are one target."""
    keys = (*figures("keys"), "age")
    train, synthetic = grouped(keys, ("occupation", "income"))
    attribution = disclosure_risk(train, synthetic, keys, "occupation, income").attribution
    protection = figures("DisclosureProtection_cont")["cap_protection"]
    assert 1 - attribution.across_covered == pytest.approx(protection, abs=1e-12)


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
