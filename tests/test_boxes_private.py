"""The benchmark of private boxes: what its targets say, and one run as it runs them."""

import json

import numpy as np
import pytest

from benchmarks import bench, box_once, boxes_private
from benchmarks.accuracy import Accuracy, figures
from benchmarks.boxes_private import Race
from benchmarks.peers import Peer
from gencard.boxes.registry import BOXES, complete

RACE = Race("mst", "dpmm MST", "", ".venv", ("x",), 2)


def found(*means, seconds=1.0):
    return [Accuracy(mean, 2 * mean, seconds) for mean in means]


@pytest.mark.parametrize(
    ("ours", "theirs", "met"),
    [
        (found(0.03, 0.031), found(0.04, 0.041, seconds=4.0), [True, True]),
        (found(0.05, 0.051), found(0.04, 0.041, seconds=4.0), [False, True]),
        (found(0.0405, 0.0415), found(0.04, 0.041, seconds=2.0), [True, False]),
        (found(0.03, 0.031), found(np.nan, np.nan), [False, False]),
    ],
    ids=["better", "worse", "no worse than chance, but slow", "no peer"],
)
def test_ours_must_be_no_worse_and_three_times_as_fast(ours, theirs, met):
    peer = Peer("dpmm MST", "adult", "1", "", bench.processor(), "2026-11-22", figures(theirs))
    targets = boxes_private._targets({"mst": ours}, {RACE: peer})
    assert [target.met for target in targets] == met


def test_one_run_has_no_error_of_its_mean():
    assert boxes_private._cells(figures(found(0.25))) == (1, 0.25, None, 0.5, 1.0)


@pytest.mark.parametrize("name", ["mst", "aim", "privbayes"])
def test_a_run_reads_a_job_and_writes_rows(tmp_path, name):
    job = tmp_path / "job.npz"
    codes = np.random.default_rng(0).integers(0, 3, (200, 3))
    np.savez(job, codes=codes.astype(np.uint8), sizes=np.array([3, 4, 3]))
    told = boxes_private._own(name)
    parameters = json.loads(told[-1])
    complete(BOXES[name], parameters)
    box_once.main(name, job, told[-1], 50, 1)
    rows = np.load(tmp_path / "job.npy")
    assert rows.shape == (50, 3)
    assert (rows < [3, 4, 3]).all()
