"""Runs of an audit that are kept: none is made twice, and none that breaks the contract is kept."""

from pathlib import Path

import numpy as np
import pytest

from gencard.controller.audits import Journals
from gencard.controller.base.disk import StateFiles
from gencard.controller.jobs.black_boxes import JournaledBox
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError, StorageError

DOMAIN = Domain.of({"a": 2, "b": 300})
RECORDS = Dataset.of_columns(DOMAIN, [np.array([0, 1, 1]), np.array([299, 0, 7])])


class Counting:
    """Hands its input on, and counts how often it was asked."""

    calls = 0

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        self.calls += 1
        return dataset.take(np.arange(rows) % len(dataset))


def test_a_run_is_made_once_and_comes_back_as_it_was(tmp_path: Path) -> None:
    box = Counting()
    journal = JournaledBox(box, tmp_path)
    first = journal(RECORDS, 5, seed=2**64 - 1)
    again = JournaledBox(box, tmp_path)(RECORDS, 5, seed=2**64 - 1)
    assert box.calls == 1
    assert again.domain == first.domain
    np.testing.assert_array_equal(again.codes, first.codes)
    journal(RECORDS, 5, seed=0)
    assert box.calls == 2


def test_a_run_that_breaks_the_contract_is_not_kept(tmp_path: Path) -> None:
    def short(dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        return dataset.take(np.arange(rows - 1))

    with pytest.raises(BlackBoxError):
        JournaledBox(short, tmp_path)(RECORDS, 3, seed=1)
    assert not list(tmp_path.iterdir())


def test_journals_are_private_and_go_when_they_are_not_wanted(tmp_path: Path) -> None:
    journals = Journals(StateFiles(tmp_path))
    kept, gone, forgotten = (journals.open(f"cards/x/audits/{name}") for name in "abc")
    assert {path.stat().st_mode & 0o777 for path in (kept, gone, forgotten)} == {0o700}
    (kept / "1.run").touch()
    journals.forget("cards/x/audits/c")
    assert journals.open("cards/x/audits/a") == kept
    journals.keep(["cards/x/audits/a"])
    assert list((tmp_path / "journals").iterdir()) == [kept]
    assert (kept / "1.run").exists()


def test_where_none_can_be_kept_the_audit_does_not_begin(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        Journals(StateFiles(tmp_path / "file")).open("cards/x/audits/a")
