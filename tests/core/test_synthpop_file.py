"""Kept trees: what is read back is what was fitted, or nothing."""

import numpy as np
import pytest

from gencard.boxes.synthpop import CodeRule, Options, SynthPop
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError
from gencard.core.generators.model_file import archived, unarchived

NAN = float("nan")
DOMAIN = Domain.of({"a": 3, "b": 2, "c": 4})
BOX = SynthPop(
    Options(smoothing="density", rules=(CodeRule("b", 1, (("a", (0,)),)),)), {"c": (1.0, 2.0, 3.0, NAN)}
)


def parts():
    """Header and arrays of a fit that has all that a fit can have."""
    a, more = np.random.default_rng(0).integers(3, size=(2, 400))
    dataset = Dataset.of_columns(DOMAIN, [a, a % 2, (a + more % 2) % 4])
    return unarchived(BOX.fit(dataset, seed=0).save(), most_bytes=10**6, version=1)


class TestFile:
    def test_it_is_data_only(self):
        header, arrays = parts()
        assert SynthPop().load(archived(header, arrays)).save() == archived(header, arrays)
        assert {array.dtype.kind for array in arrays.values()} <= {"i", "f"}

    @pytest.mark.parametrize(
        "saved", [b"", b"PK", b"x" * 100, archived({}, {}), archived({"version": 1}, {})]
    )
    def test_other_bytes_are_refused(self, saved):
        with pytest.raises(BlackBoxError):
            SynthPop().load(saved)

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("1.0.donors", lambda a: a + 2),
            ("0.0.donors", lambda a: a - 1),
            ("2.0.donors", lambda a: a - 1),
            ("1.0.donors", lambda a: a[:-1]),
            ("1.0.donors", lambda a: a.astype(float)),
            ("2.1.starts", lambda a: a[::-1].copy()),
            ("2.1.starts", lambda a: a[:-1]),
            ("2.1.starts", np.zeros_like),
            ("2.1.tree", lambda a: a[:, :0]),
            ("2.1.tree", lambda a: a[:3]),
            ("2.1.tree", np.zeros_like),
            ("2.1.tree", lambda a: a.astype(float)),
            ("2.1.tree", lambda a: a + 1),
            ("2.1.places", lambda a: a[:-1]),
            ("2.1.places", lambda a: a.astype(float)),
            ("2.numbers", lambda a: a[:-1]),
            ("2.numbers", lambda a: a * NAN),
            ("2.numbers", lambda a: a * np.inf),
        ],
    )
    def test_arrays_that_do_not_fit_are_refused(self, name, change):
        header, arrays = parts()
        with pytest.raises(BlackBoxError):
            SynthPop().load(archived(header, {**arrays, name: change(arrays[name])}))

    @pytest.mark.parametrize(
        "change",
        [
            {"version": 2}, {"kind": "table"}, {"sizes": [3, 2]}, {"sizes": [3, 2, 9]},
            {"steps": []}, {"attributes": ["a", "b", "b"]},
        ],
    )  # fmt: skip
    def test_headers_that_do_not_fit_are_refused(self, change):
        header, arrays = parts()
        with pytest.raises(BlackBoxError):
            SynthPop().load(archived({**header, **change}, arrays))

    @pytest.mark.parametrize(
        "change",
        [
            {"axis": 1}, {"axis": 7}, {"predictors": [[0], [2]]}, {"predictors": [[0], [9]]},
            {"predictors": []}, {"bandwidth": -1.0}, {"bandwidth": "1"}, {"rules": [1]},
            {"rules": [{"attribute": "c", "code": 9, "where": {}}]},
            {"rules": [{"attribute": "c", "code": 0, "where": {"c": [1]}}]},
        ],
        ids=str,
    )  # fmt: skip
    def test_steps_that_do_not_fit_are_refused(self, change):
        header, arrays = parts()
        header["steps"][2] |= change
        with pytest.raises(BlackBoxError):
            SynthPop().load(archived(header, arrays))
