"""Delivered files are the checked files: no changed byte, number, type, order or index is accepted."""

import shutil
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from gencard.client.checking.bundle import Bundle, Keys, Outcome, verify
from gencard.client.checking.checks import check_delivered_file
from gencard.client.common.rows import has_apostrophes, neutral, read_rows, write_rows
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidInputError, VerificationError
from gencard.run.levels import Numbers

NOW = datetime(2026, 11, 21, tzinfo=UTC)
MUTATIONS = 250
"""In each of four kinds of bundle: 1,000 in all."""


@pytest.fixture
def release(ana):
    """Rows with text, whole numbers, an order, numbers inside intervals, and missing values."""
    marginals = [("sex", "age"), ("children", "health")]
    card = ana.propose("survey", marginals, purpose="To see").accept()
    return card.release(rows=40, seed=9)


@pytest.fixture
def keys(release, ana):
    return Keys.of(ana._connection.credentials)


def is_accepted(folder, keys):
    """Return whether every check passes and none is left out."""
    try:
        checks = verify(Bundle.of([folder]), keys, NOW)
    except InvalidInputError:
        return False
    return not {Outcome.FAILED, Outcome.NOT_CHECKED} & {check.outcome for check in checks}


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """A byte changed, added or lost, an end cut off, or two parts exchanged."""
    data, place = bytearray(content), int(rng.integers(len(content)))
    match rng.integers(5):
        case 0:
            data[place] ^= 1 << int(rng.integers(8))
        case 1:
            data.insert(place, int(rng.integers(256)))
        case 2:
            del data[place]
        case 3:
            del data[place:]
        case 4:
            first, second = sorted(int(cut) for cut in rng.integers(len(content), size=2))
            data[:] = data[first:second] + data[:first] + data[second:]
    return bytes(data)


@pytest.mark.parametrize("values", ["numbers", "levels"])
@pytest.mark.parametrize("rows", ["rows.csv", "rows.parquet"])
def test_no_mutation_of_any_file_is_accepted(release, keys, tmp_path, rows, values):
    kept = release.save(tmp_path / "kept", rows=rows, values=values)
    assert is_accepted(kept, keys)
    contents = {file.name: file.read_bytes() for file in sorted(kept.iterdir())}
    rng = np.random.Generator(np.random.PCG64(len(rows) + len(values)))
    tries, accepted = 0, []
    while tries < MUTATIONS:
        name = str(rng.choice(sorted(contents)))
        changed = mutated(contents[name], rng)
        if changed == contents[name]:
            continue
        tries += 1
        (kept / name).write_bytes(changed)
        if is_accepted(kept, keys):
            accepted.append((name, tries))
        (kept / name).write_bytes(contents[name])
    assert accepted == []
    assert is_accepted(kept, keys)


@pytest.mark.parametrize("values", ["numbers", "levels"])
@pytest.mark.parametrize("column", ["sex", "age", "children", "health"])
def test_one_value_of_any_column(release, keys, tmp_path, column, values):
    kept = release.save(tmp_path / "kept", values=values)
    table = parquet.read_table(kept / "rows.parquet")
    values = table.column(column).to_pylist()
    place = next(place for place, value in enumerate(values) if value != values[0])
    values[0], values[place] = values[place], values[0]
    position = table.schema.get_field_index(column)
    field = table.schema.field(column)
    plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    changed = pa.array(values, plain)
    changed = changed.dictionary_encode() if pa.types.is_dictionary(field.type) else changed
    parquet.write_table(table.set_column(position, column, changed), kept / "rows.parquet")
    assert not is_accepted(kept, keys)


class TestNumbers:
    """The attack that was found: every number moved inside the interval that was released."""

    @pytest.mark.parametrize("rows", ["rows.csv", "rows.parquet"])
    def test_numbers_moved_inside_their_intervals(self, release, keys, tmp_path, rows):
        kept = release.save(tmp_path / "kept", rows=rows)
        lower = [interval.left + 0.5 for interval in release.to_frame("levels")["age"]]
        if rows.endswith("csv"):
            frame = release.frame.assign(age=lower)
            frame.to_csv(kept / rows, index=False, lineterminator="\r\n")
        else:
            table = parquet.read_table(kept / rows)
            table = table.set_column(table.schema.get_field_index("age"), "age", pa.array(lower))
            parquet.write_table(table, kept / rows, write_statistics=False)
        assert not is_accepted(kept, keys)
        named = "the values in line 2" if rows.endswith("csv") else "the values of 'age'"
        with pytest.raises(VerificationError, match=named):
            check_delivered_file(kept / rows, release.dataset, release.coding, [9])


class TestFrames:
    @pytest.fixture
    def card(self, release, ana):
        return ana.card(release.name.partition("/releases/")[0])

    def test_both_forms_replay(self, card, release):
        assert card.replay(release.frame.copy()).rows == 40
        assert card.replay(release.to_frame("levels")).rows == 40

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            (lambda frame: frame[frame.columns[::-1]], "columns or their order"),
            (lambda frame: frame.assign(more=1), "columns or their order"),
            (lambda frame: frame.set_index(frame.index + 1), "the index"),
            (lambda frame: frame.astype({"sex": object}), "the type of 'sex'"),
            (lambda frame: frame.assign(age=frame["age"] + 1e-9), "the values of 'age'"),
        ],
        ids=["order", "more", "index", "type", "values"],
    )
    def test_any_other_frame_does_not(self, card, release, change, named):
        with pytest.raises(VerificationError, match=named):
            card.replay(change(release.frame.copy()))


class TestParquetOfAnotherVersion:
    """The bytes differ, so columns, types and values are compared."""

    @staticmethod
    def rewritten(path, **options):
        """The same table by a writer that calls itself another version of pyarrow."""
        parquet.write_table(parquet.read_table(path), path, **options)
        written = parquet.ParquetFile(path).metadata.created_by.encode()
        major = int(written.split()[-1].split(b".")[0])
        other = written.replace(b"version %d." % major, b"version %d." % (major - 1))
        assert len(other) == len(written)
        path.write_bytes(path.read_bytes().replace(written, other))

    def test_equal_rows_pass(self, release, keys, tmp_path):
        kept = release.save(tmp_path / "kept")
        self.rewritten(kept / "rows.parquet", write_statistics=False)
        assert is_accepted(kept, keys)

    def test_what_could_mislead_a_reader_does_not(self, release, keys, tmp_path):
        kept = release.save(tmp_path / "kept")
        self.rewritten(kept / "rows.parquet", write_statistics=True)
        assert not is_accepted(kept, keys)


class TestFormulas:
    """Spreadsheets run cells that begin with =, +, -, @ or a tab."""

    LABELS = ("=1+1", "+1-1", "-1+1", "@SUM(A1)", "\t=1", "'=1+1", "''=1", "-5", "+49", "fair")
    CODING = Coding((Attribute("=cmd", Labels(LABELS)), Attribute("plain", Labels(("a", "b")))))

    def test_no_cell_is_run_and_every_label_comes_back(self, tmp_path):
        codes = np.stack([np.arange(10), np.arange(10) % 2], axis=1)
        dataset = Dataset(self.CODING.domain, codes)
        write_rows(dataset, self.CODING, tmp_path / "rows.csv", Numbers(1))
        cells = pd.read_csv(tmp_path / "rows.csv", dtype=str)
        texts = [*cells.columns, *cells.iloc[:, 0]]
        running = [text for text in texts if text[0] in "=+-@\t\r"]
        assert running == ["-5", "+49"]
        assert read_rows(tmp_path / "rows.csv", self.CODING, dataset.domain).digest() == dataset.digest()
        assert has_apostrophes(self.CODING, dataset.domain)

    def test_different_texts_stay_different(self):
        assert len({neutral(text) for text in self.LABELS}) == len(self.LABELS)

    def test_a_file_by_another_program_is_read_as_it_is(self, tmp_path):
        frame = pd.DataFrame({"=cmd": self.LABELS[:4], "plain": list("abab")})
        frame.to_csv(tmp_path / "rows.csv", index=False)
        dataset = read_rows(tmp_path / "rows.csv", self.CODING, self.CODING.domain)
        assert dataset.codes[:, 0].tolist() == [0, 1, 2, 3]


class TestPlaces:
    def test_another_release_is_not_written_over(self, release, ana, tmp_path):
        release.save(tmp_path / "kept")
        before = (tmp_path / "kept/receipt.json").read_bytes()
        other = ana.card(release.name.partition("/releases/")[0]).release(rows=5, seed=1)
        with pytest.raises(InvalidInputError, match="already exists"):
            other.save(tmp_path / "kept")
        assert (tmp_path / "kept/receipt.json").read_bytes() == before
        release.save(tmp_path / "kept")
        (tmp_path / "kept/verdict.json").write_text("{}")
        other.save(tmp_path / "kept", rows="rows.csv", replace=True)
        assert (tmp_path / "kept/receipt.json").read_bytes() == other.envelope
        assert not (tmp_path / "kept/rows.parquet").exists()
        assert not (tmp_path / "kept/verdict.json").exists()
        shutil.rmtree(tmp_path / "kept")
