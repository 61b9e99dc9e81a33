"""Results of the benchmarks of distances and of the reconstruction audit, at small size."""

import json

import numpy as np
import pytest

from benchmarks import dcr, dcr_once, person_noise, reconstruction
from benchmarks.peers import Peer, Peers, record
from gencard.core.card.budget import Neighbouring
from gencard.core.card.privacy import Mechanism
from tests.core.seeded_noise import SeededNoise
from tests.shared_data import oracle_file


@pytest.fixture
def job(tmp_path):
    """Two numbers and two attributes of levels."""
    rng = np.random.default_rng(3)
    tables = (np.column_stack([rng.normal(size=(60, 2)), rng.integers(0, 4, (60, 2))]) for _ in "12")
    left, right = tables
    spans = np.ptp(np.vstack([left, right])[:, :2], axis=0)
    return dcr._written(tmp_path / "job.npz", {"left": left, "right": right, "spans": spans})


def test_two_programs_agree_on_a_job(job):
    one, other = (
        dcr_once.PROGRAMS[name](dcr_once.Job(str(job), 40, 50))() for name in ("gencard", "scipy")
    )
    np.testing.assert_allclose(one, other, atol=1e-12)


def test_a_program_tells_its_seconds_and_its_memory(job, capsys):
    dcr_once.main("gencard", str(job), 40, 50)
    told = json.loads(capsys.readouterr().out)
    assert told["seconds"] > 0
    assert told["peak"] > 10


def test_fewer_records_are_scaled_by_the_square(job):
    run = dcr.measured("gencard", job, 20, 20, 60)
    assert (run.rows, run.given) == (60, 20)
    assert run.shown.startswith("~")


def test_a_recorded_program_is_scaled_and_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(dcr, "_SETTINGS", {"gower": ""})
    monkeypatch.setattr(dcr, "_MOST", {"gower": 20})
    peers = Peers(run=False, file=tmp_path / "recorded.toml")
    figures = {"seconds": [2.0], "peak": [50.0], "total": [7.0]}
    record(Peer("gower", "Adult, 20 x 20", "0.1", "", "x", "2026-11-22", figures), peers.file)
    (run,) = dcr._theirs(peers, tmp_path, 60)
    assert (run.seconds, run.name) == (18.0, "gower (recorded)")
    ours = dcr.Run("gencard", 60, 60, 1.0, 50.0, 7.0)
    assert dcr._differing([ours, run]) == 0


@pytest.mark.shared
def test_the_records_that_are_nearest_to_nobody_bring_all_ranges():
    oracle_file("metrics/adult_clearbox_train.csv")
    found = dcr.adult()
    both = np.vstack([found["left"], found["right"]])
    assert found["left"].shape == found["right"].shape == (32_561, 13)
    np.testing.assert_array_equal(found["spans"], np.ptp(both[:, :4], axis=0))
    np.testing.assert_array_equal(np.ptp(found["right"][:2, :4], axis=0), found["spans"])
    assert (found["right"][0, 4:] > found["left"][:, 4:].max(axis=0)).all()


def test_blind_rows_are_refuted_seldom_and_copies_bounded_below_their_epsilon():
    labels = []
    for seed, (label, once) in enumerate(reconstruction.blind_cases()):
        labels.append(label)
        if seed % 5 == 0:
            assert np.nansum(reconstruction.repeated(once, 40, seed) > 0, axis=0).max() <= 9
    assert len(labels) == len(set(labels)) == 16
    for case in (reconstruction.POWER[1], reconstruction.POWER[-1]):
        found = reconstruction.repeated(case.run, 3, 0)
        assert np.nanmax(found) < case.epsilon
        assert (found[:, 2] > 3).all()


@pytest.mark.parametrize("mechanism", [Mechanism.LAPLACE, Mechanism.GAUSSIAN])
@pytest.mark.parametrize("relation", Neighbouring)
def test_s67_no_bound_passes_the_claim_for_persons_and_noise_for_records_is_found_out(
    tmp_path, mechanism, relation
):
    rows = person_noise.bounds(tmp_path, 10, mechanism, relation, 300, SeededNoise(3))
    proved = {row.way: row.proved > row.claim for row in rows}
    assert proved == {"for a person": False, "for one record": True, "not limited": True}
