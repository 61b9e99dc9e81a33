"""The benchmark of nets: what its targets say, and one synthesis as it makes it."""

import sys

import numpy as np
import pytest

from benchmarks import bench, ctgan_once
from benchmarks.boxes_deep import Run, _recordable, _targets
from benchmarks.peers import Peer


def runs(*variations, seconds=1.0):
    return [Run(variation, seconds) for variation in variations]


@pytest.mark.parametrize(
    ("ours", "theirs", "met"),
    [
        (runs(0.20, 0.21), runs(0.205, 0.215, seconds=4.0), [True, True]),
        (runs(0.30, 0.31), runs(0.205, 0.215, seconds=4.0), [False, True]),
        (runs(0.10, 0.11), runs(0.205, 0.215, seconds=1.2), [True, False]),
    ],
    ids=["as good", "worse", "better, but slow"],
)
def test_ours_must_be_no_worse_within_noise_and_quicker(ours, theirs, met):
    peer = Peer("ctgan", "Adult", "1", "", bench.processor(), "2026-11-22", _recordable(theirs))
    assert [target.met for target in _targets(ours, peer)] == met


def test_one_synthesis(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the extra deep is not installed")
    job = tmp_path / "job.npz"
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(size, size=40) for size in (2, 5)])
    np.savez(job, codes=codes, sizes=[2, 5], numeric=[1])
    monkeypatch.setattr(sys, "argv", ["x", "gencard", str(job), "1", "30", "1"])
    ctgan_once.main()
    rows = np.load(tmp_path / "rows.npy")
    assert rows.shape == (30, 2)
    assert (rows < (2, 5)).all()
