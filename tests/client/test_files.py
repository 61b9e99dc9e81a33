"""Rows in files: written and read again they are the same codes."""

import csv
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from gencard.client.common.formats import appearing, check_free
from gencard.client.common.rows import cells_of, read_rows, write_rows
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import DomainMismatchError, InvalidInputError, UndeclaredLevelError
from gencard.run.levels import Numbers
from gencard.run.session import frame_of
from tests.client.test_frames import CODING, datasets


def there_and_back(dataset, coding, name, numbers=None):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_rows(dataset, coding, path, numbers)
        assert [file.name for file in Path(folder).iterdir()] == [name]
        return read_rows(path, coding, dataset.domain)


@pytest.mark.parametrize(
    "place",
    ["/proc/x.csv", "/proc", "/", "", "a" * 300, "nul\0", "/dev/null/x", "/proc/a/b/c"],
    ids=lambda place: repr(place[:12]),
)
def test_a_place_that_cannot_be_written_is_refused_before_work_and_after(place):
    with pytest.raises(InvalidInputError, match=r"^output: cannot write"):
        check_free(Path(place), replace=True)
    with (
        pytest.raises(InvalidInputError, match=r"^output: cannot write"),
        appearing(Path(place), "output") as part,
    ):
        part.write_text("x")


def test_a_folder_that_will_be_made_may_be_written(tmp_path):
    check_free(tmp_path / "a" / "b" / "c", replace=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
class TestRoundTrip:
    @settings(deadline=None)
    @given(drawn=datasets())
    def test_the_codes_are_the_same(self, drawn, name):
        coding, dataset = drawn
        assert there_and_back(dataset, coding, name).digest() == dataset.digest()

    @settings(deadline=None)
    @given(drawn=datasets())
    def test_so_they_are_where_numbers_were_drawn(self, drawn, name):
        coding, dataset = drawn
        assert there_and_back(dataset, coding, name, Numbers(3)).digest() == dataset.digest()

    @pytest.mark.parametrize("numbers", [None, Numbers(3)], ids=["intervals", "numbers"])
    def test_many_batches(self, name, numbers):
        codes = np.random.default_rng(1).integers(0, CODING.domain.sizes, (250_001, 3))
        dataset = Dataset(CODING.domain, codes)
        assert there_and_back(dataset, CODING, name, numbers).digest() == dataset.digest()

    def test_a_file_holds_the_numbers_of_the_frame(self, name, tmp_path):
        codes = np.random.default_rng(1).integers(0, CODING.domain.sizes, (150_000, 3))
        dataset = Dataset(CODING.domain, codes)
        write_rows(dataset, CODING, tmp_path / name, Numbers(3))
        read = pd.read_csv if name.endswith("csv") else pd.read_parquet
        expected = frame_of(dataset, CODING, Numbers(3))["age"]
        pd.testing.assert_series_equal(read(tmp_path / name)["age"], expected)

    @pytest.mark.parametrize("value", [-1.0, 66.0, float("inf")])
    def test_a_number_outside_the_edges_is_refused(self, name, value, tmp_path):
        frame = pd.DataFrame({"age": [17.5, value]})
        path = tmp_path / name
        frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_parquet(path)
        with pytest.raises(UndeclaredLevelError):
            read_rows(path, CODING, CODING.domain.project(("age",)))

    def test_an_undeclared_value_is_refused(self, name, tmp_path):
        frame = pd.DataFrame({"sex": ["male", "of token-7f3a"]})
        path = tmp_path / name
        frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_parquet(path)
        with pytest.raises(UndeclaredLevelError) as refused:
            read_rows(path, CODING, CODING.domain.project(("sex",)))
        assert "token-7f3a" not in str(refused.value)
        with pytest.raises(DomainMismatchError):
            read_rows(path, CODING, CODING.domain)

    def test_garbage_and_absent_files(self, name, tmp_path):
        path = tmp_path / name
        with pytest.raises(InvalidInputError):
            read_rows(path, CODING, CODING.domain)
        path.write_bytes(b"sex,children,age\nmale\n\xff\xfe")
        with pytest.raises(InvalidInputError):
            read_rows(path, CODING, CODING.domain)

    def test_a_place_that_cannot_be_written(self, name, tmp_path):
        dataset = Dataset(CODING.domain, np.zeros((2, 3), dtype=int))
        with pytest.raises(InvalidInputError):
            write_rows(dataset, CODING, tmp_path / "absent" / name)


def test_csv_as_people_read_it(tmp_path):
    write_rows(Dataset(CODING.domain, np.array([[1, 3, 1], [0, 0, 2]])), CODING, tmp_path / "a.csv")
    assert (
        tmp_path / "a.csv"
    ).read_bytes() == b'sex,children,age\r\nmale,"","[18, 65.5]"\r\nfemale,0,""\r\n'


def test_parquet_as_pandas_reads_it(tmp_path):
    write_rows(Dataset(CODING.domain, np.array([[1, 3, 1], [0, 0, 2]])), CODING, tmp_path / "a.parquet")
    frame = pd.read_parquet(tmp_path / "a.parquet")
    assert frame["children"].isna().tolist() == [True, False]
    assert frame["children"][1] == 0
    assert frame["sex"].tolist() == ["male", "female"]
    assert frame["age"].cat.ordered
    assert not frame["sex"].cat.ordered
    assert frame["age"].isna().tolist() == [False, True]


NASTY = (
    *("", "'", "''", "a,b", 'say "x"', "two\nlines", "\r", "=1+1", "'=1+1", "-5"),
    *("@x", " x ", "NA", "Zoë 漢字", "\ufeff"),
)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_labels_that_are_hard_to_write(tmp_path, name, missing):
    """An empty label beside missing values has its own cell, as missing values have."""
    labels = Labels(NASTY, missing=missing)
    coding = Coding((Attribute("=a,\n", labels), Attribute("b", Edges((0, 1)))))
    codes = np.array([[code, 0] for code in range(labels.size)])
    dataset = Dataset(coding.domain, codes)
    write_rows(dataset, coding, tmp_path / name)
    assert read_rows(tmp_path / name, coding, coding.domain).digest() == dataset.digest()


def test_no_two_labels_share_a_cell_and_none_is_a_formula(tmp_path):
    labels = Labels(NASTY, missing=True)
    coding = Coding((Attribute("a", labels), Attribute("b", Edges((0, 1)))))
    codes = np.array([[code, 0] for code in range(labels.size)])
    write_rows(Dataset(coding.domain, codes), coding, tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        cells = [cell for cell, _ in list(csv.reader(file))[1:]]
    assert len(set(cells)) == labels.size
    assert cells[-1] == ""
    assert not [cell for cell in cells if cell.startswith(("=", "@"))]


def test_texts_for_people_are_the_values_of_the_file(tmp_path):
    codes = np.random.default_rng(1).integers(0, CODING.domain.sizes, (20, 3))
    dataset = Dataset(CODING.domain, codes)
    write_rows(dataset, CODING, tmp_path / "a.csv", Numbers(3))
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        _, *lines = csv.reader(file)
    shown = cells_of(Dataset(CODING.domain, codes[:5]), CODING, Numbers(3))
    assert shown == [tuple(cell or "NA" for cell in line) for line in lines[:5]]


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(InvalidInputError):
        write_rows(Dataset(CODING.domain, np.zeros((1, 3), dtype=int)), CODING, tmp_path / "a.xls")
