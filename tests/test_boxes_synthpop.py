"""The benchmark of sequential trees: utility as synthpop computes it, and both programs."""

import json

import numpy as np
import pandas as pd
import pytest

from benchmarks.boxes_synthpop import by_rpart, has_rpart, ours
from benchmarks.mixed import mixed, utility
from gencard.boxes.synthpop import Options
from tests.shared_data import oracle_file


def records(count=200):
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b", None], count)
    number = np.where(rng.random(count) < 0.2, np.nan, rng.integers(9, size=count) * (group == "a"))
    return pd.DataFrame({"group": group.astype(object), "number": number})


@pytest.mark.shared
def test_utility_is_that_of_synthpop():
    files = [oracle_file(f"synthpop/pairD_mixed_{name}.csv") for name in ("orig", "syn1")]
    original, synthetic = map(pd.read_csv, files)
    tables = json.loads(oracle_file("synthpop/pairD_mixed.json").read_text())["utility_twoway_syn1"]
    expected = np.mean([table["S_VW"] for table in tables])
    assert utility(original, synthetic) == pytest.approx(expected, abs=1e-9)


def test_codes_stand_for_what_they_came_from():
    frame = records()
    pd.testing.assert_frame_equal(mixed(frame).decoded(mixed(frame).dataset), frame)


def test_either_program_makes_records_that_can_be_compared():
    found = [ours(mixed(records()), Options(), 3)]
    if has_rpart():
        found.append(by_rpart(mixed(records()), 3))
    for runs in found:
        assert runs.seconds < 60
        assert 0 < runs.mean < 5
