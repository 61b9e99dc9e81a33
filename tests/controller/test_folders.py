"""Folders of Parquet: the same psi as one file, one version for all files, no way out of the folder."""

import os
from itertools import combinations
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from typer.testing import CliRunner

from benchmarks import engine_rows, made_records
from gencard.controller.records import file_format as folders
from gencard.controller.records.file_format import ParquetFolder
from gencard.controller.records.vault import OpenRecords, Vault
from gencard.controller.settings import Settings
from gencard.controller.shell.main import app
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.errors import (
    DatasetChangedError,
    DatasetUnavailableError,
    EmptyDatasetError,
    GencardError,
    InvalidInputError,
    MissingAttributeError,
    TooLargeError,
    UndeclaredLevelError,
)
from gencard.core.statistics.measure import measure
from gencard.wire.psi import psi_document

SALT = b"salt"
CODING = Coding(
    (
        Attribute("region", Labels(("01", "Äpfel & Öl/x", "süd"), missing=True)),
        Attribute("sex", Labels(("f", "m"), missing=True)),
        Attribute("age", Edges((0.0, 18.0, 65.0, 120.0), missing=True)),
        Attribute("size", Labels(("1", "2.5", "3"))),
    )
)
PAIRS = list(combinations(CODING.domain.attributes, 2))
FRAME = pd.DataFrame(
    {
        "region": ["01", "Äpfel & Öl/x", None, "süd", "01", "süd"] * 20,
        "sex": ["f", "m", None, "f", "m"] * 24,
        "age": [0.0, 18.0, 64.99, 65.0, 120.0, None] * 20,
        "size": [1.0, 2.5, 3.0] * 40,
    }
)


def psi_of(path: Path) -> bytes:
    return psi_document(measure(Vault(path, CODING), PAIRS, CODING.domain))


def refusal(action, kind: type[GencardError]) -> GencardError:
    with pytest.raises(kind) as caught:
        action()
    assert caught.value.__context__ is None
    assert "süd" not in str(caught.value)
    return caught.value


@pytest.fixture
def folder(tmp_path) -> Path:
    """Three files of the records, one of them in a subfolder."""
    path = tmp_path / "records"
    (path / "later").mkdir(parents=True)
    for number, name in enumerate(("0.parquet", "1.parquet", "later/0.parquet")):
        FRAME[number::3].to_parquet(path / name)
    return path


class TestReading:
    def test_psi_is_that_of_one_file(self, folder, tmp_path):
        FRAME.to_parquet(tmp_path / "records.parquet")
        assert psi_of(folder) == psi_of(tmp_path / "records.parquet")

    @pytest.mark.parametrize("keys", ["region", "region, sex"])
    def test_psi_of_hive_partitions_is_that_of_one_file(self, tmp_path, keys):
        FRAME.to_parquet(tmp_path / "records.parquet")
        query = f"SELECT * FROM '{tmp_path}/records.parquet'"
        duckdb.execute(f"COPY ({query}) TO '{tmp_path}/hive' (FORMAT parquet, PARTITION_BY ({keys}))")
        assert ParquetFolder.at(tmp_path / "hive").keys == tuple(keys.split(", "))
        assert psi_of(tmp_path / "hive") == psi_of(tmp_path / "records.parquet")

    def test_a_column_has_a_type_that_holds_the_values_of_all_files(self, tmp_path):
        coding = Coding((Attribute("age", Edges((0.0, 17.5, 120.0))),))
        pd.DataFrame({"age": [17, 17]}).to_parquet(tmp_path / "0.parquet")
        pd.DataFrame({"age": [17.5, 17.4]}).to_parquet(tmp_path / "1.parquet")  # not cut to 17
        pd.DataFrame({"age": ["120.0"]}).to_parquet(tmp_path / "2.parquet")
        assert Vault(tmp_path, coding).count([("age",)])[0].tolist() == [3, 2]

    def test_the_records_are_read_up_to_a_limit(self, folder):
        vault = Vault(folder, CODING)
        assert len(vault.dataset(("sex", "age"), most_records=120)) == 120
        refusal(lambda: vault.dataset(("sex",), most_records=119), TooLargeError)

    def test_an_undeclared_value_in_one_file_is_refused_by_attribute(self, folder):
        FRAME.assign(sex="CANARY").to_parquet(folder / "2.parquet")
        for action in (Vault(folder, CODING).check, lambda: psi_of(folder)):
            assert refusal(action, UndeclaredLevelError).fields == {"attribute": "sex"}

    def test_names_that_spark_leaves_out_are_left_out(self, folder):
        before = psi_of(folder), Vault(folder, CODING).version(SALT)
        (folder / "_SUCCESS").touch()
        (folder / ".0.parquet.crc").write_bytes(b"crc")
        FRAME.to_parquet(folder / "_0.parquet")
        assert (psi_of(folder), Vault(folder, CODING).version(SALT)) == before

    def test_the_engine_reaches_no_other_file_of_the_folder(self, folder):
        with OpenRecords(folder) as records:
            FRAME.to_parquet(folder / "2.parquet")
            assert records.rows("SELECT count(*) FROM records") == [(120,)]
            for query in ("FROM '{}/2.parquet'", "FROM glob('{}/*')", "COPY records TO '{}/3.parquet'"):
                one = query.format(folder)
                refusal(lambda query=one: records.rows(query), DatasetUnavailableError)


class TestVersion:
    @pytest.mark.parametrize(
        "change",
        [
            lambda folder: FRAME[:1].to_parquet(folder / "2.parquet"),
            lambda folder: FRAME[:1].to_parquet(folder / "1.parquet"),
            lambda folder: (folder / "1.parquet").unlink(),
            lambda folder: (folder / "1.parquet").rename(folder / "2.parquet"),
            lambda folder: (folder / "later").rename(folder / "earlier"),
        ],
        ids=["added", "changed", "removed", "renamed", "moved"],
    )
    def test_a_change_of_any_file_is_another_version(self, folder, change):
        vault = Vault(folder, CODING)
        version = vault.version(SALT)
        vault.confirm(version, SALT)
        assert vault.version(b"other") != version
        change(folder)
        refusal(lambda: vault.confirm(version, SALT), DatasetChangedError)

    def test_it_is_not_that_of_another_folder_with_the_same_bytes(self, tmp_path):
        versions = set()
        for names in (("a", "b c"), ("a b", "c")):
            folder = tmp_path / "-".join(names)
            folder.mkdir()
            for name in names:
                FRAME.to_parquet(folder / f"{name}.parquet")
            versions.add(Vault(folder, CODING).version(SALT))
        assert len(versions) == 2


def _link(target: str):
    return lambda folder: (folder / "2.parquet").symlink_to(folder / target)


def _write(name: str, **changed: object):
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        FRAME.assign(**changed).to_parquet(folder / name)

    return write


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            (_link("../outside.parquet"), "symbolic link"),
            (_link("0.parquet"), "symbolic link"),
            (lambda folder: (folder / "link").symlink_to("/etc"), "symbolic link"),
            (lambda folder: (folder / "_link").symlink_to(folder), "symbolic link"),
            (lambda folder: os.mkfifo(folder / "2.parquet"), "not a Parquet file"),
            (lambda folder: (folder / "more.csv").write_text("sex\nf\n"), "not a Parquet file"),
            (lambda folder: (folder / "_delta_log").mkdir(), "Delta table"),
            (lambda folder: (folder / "later" / "_temporary").mkdir(), "being written"),
            (_write("*.parquet"), "in its name"),
            (_write("region=süd/0.parquet"), "the same keys"),
            (_write("2.parquet", more=1), "the same columns"),
            (lambda folder: FRAME[["sex"]].to_parquet(folder / "2.parquet"), "the same columns"),
        ],
    )
    def test_what_is_not_simply_the_records(self, folder, change, problem):
        FRAME.to_parquet(folder.parent / "outside.parquet")
        change(folder)
        error = refusal(Vault(folder, CODING).check, InvalidInputError)
        assert problem in str(error)
        assert str(error).startswith("data: ")

    @pytest.mark.parametrize(
        ("name", "problem"),
        [("a=1/a=2/0.parquet", "each once"), ("SEX=f/0.parquet", "a column inside its files")],
    )
    def test_partitions_that_mean_two_things(self, tmp_path, name, problem):
        _write(name)(tmp_path / "records")
        error = refusal(Vault(tmp_path / "records", CODING).check, InvalidInputError)
        assert problem in str(error)

    def test_a_path_that_would_be_read_as_a_partition(self, tmp_path):
        _write("0.parquet")(tmp_path / "sex=f")
        assert "=" in str(refusal(Vault(tmp_path / "sex=f", CODING).check, InvalidInputError))

    def test_a_folder_without_records(self, tmp_path):
        (tmp_path / "empty").mkdir()
        refusal(Vault(tmp_path, CODING).check, EmptyDatasetError)
        FRAME[:0].to_parquet(tmp_path / "0.parquet")
        refusal(Vault(tmp_path, CODING).check, EmptyDatasetError)

    def test_a_garbled_or_a_missing_file(self, folder):
        refusal(Vault(folder, Coding((Attribute("nope", Labels(("a",))),))).check, MissingAttributeError)
        (folder / "2.parquet").write_bytes(b"PAR1" + b"x" * 99 + b"PAR1")
        refusal(Vault(folder, CODING).check, DatasetUnavailableError)
        (folder / "2.parquet").write_bytes(b"")
        refusal(Vault(folder, CODING).check, DatasetUnavailableError)

    def test_more_files_than_can_be_opened(self, folder, monkeypatch):
        monkeypatch.setattr(folders, "MOST_FILES", 2)
        refusal(Vault(folder, CODING).check, TooLargeError)


def test_the_vault_counts_what_group_bys_count(tmp_path, monkeypatch):
    monkeypatch.setattr(made_records, "PIECE", 700)
    made_records.write(tmp_path, 0, 2_000)
    assert len(list(tmp_path.iterdir())) == 3
    tables = Vault(tmp_path, made_records.CODING).count(engine_rows.sets())
    statements = engine_rows.statements(f"'{tmp_path}/*.parquet'")
    for statement, table in zip(statements, tables, strict=True):
        rows = duckdb.execute(statement).fetchall()
        assert sorted(row[-1] for row in rows) == sorted(table[table > 0].tolist())


def test_init_and_check_take_a_folder(folder, tmp_path):
    def run(*words: object) -> str:
        result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    run("init", tmp_path / "house", "--data", folder)
    settings = tmp_path / "house" / "controller.toml"
    assert "all declared" in run("check", "--config", settings)
    (entry,) = Settings.load(settings).datasets
    assert (entry.name, entry.data) == ("records", folder)
    run("dataset", "add", "second", folder, "--config", settings)
    with pytest.raises(InvalidInputError, match="contains the same records"):
        app(["check", "--config", str(settings)], standalone_mode=False)
