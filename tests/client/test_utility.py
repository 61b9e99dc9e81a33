"""Utility as an analyst meets it: rows and records in files, from the shell, as JSON."""

import json
import shutil
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.client.common import rows as rows_files
from gencard.client.common.rows import read_rows, write_rows
from gencard.client.findings.fidelity import UTILITY_FORMAT, UtilityOptions, utility_report
from gencard.client.shell.main import app
from gencard.core.card.sums import level_values
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import DomainMismatchError, UnknownAttributeError
from gencard.measures.utility.fidelity import Gap, gap_error
from gencard.measures.utility.table_utility import marginal_error
from gencard.wire.canonical import json_bytes
from gencard.wire.psi import coding_document
from tests.client.fake_world import CODING, RECORDS
from tests.client.test_views import rich_text


def rng():
    return np.random.default_rng(1)


def resampled(seed=2, rows=1_500):
    return RECORDS.take(np.random.default_rng(seed).integers(len(RECORDS), size=rows))


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def files(tmp_path):
    """Rows, records and schema; of 300 records, which say as much about words and files as all do."""
    paths = [tmp_path / name for name in ("rows.csv", "records.parquet", "schema.json")]
    write_rows(resampled(rows=300), CODING, paths[0])
    write_rows(RECORDS.take(np.arange(300)), CODING, paths[1])
    paths[2].write_bytes(json_bytes(coding_document(CODING)))
    return paths


class TestReport:
    def test_a_resample_is_as_good_as_one(self):
        found = utility_report(resampled(), RECORDS, CODING, rng=rng())
        assert [width for width, _ in found.tables] == [1, 2]
        assert dict(found.tables)[2] == pytest.approx(1, abs=0.5)
        assert found.regression.standardised == pytest.approx(1, abs=0.7)
        assert found.predictions is None
        assert "Target" not in rich_text(found)

    def test_worse_rows_are_told(self):
        codes = resampled().codes.copy()
        codes[:, 0] = 0
        found = utility_report(Dataset(RECORDS.domain, codes), RECORDS, CODING, rng=rng())
        assert found.regression.standardised > 10
        assert found.tree.standardised > 10
        assert "sex" in found.worst[0]

    def test_a_target_is_predicted(self):
        found = utility_report(
            resampled(), RECORDS, CODING, UtilityOptions("health", ("sex", "age")), rng=rng()
        )
        assert len(found.predictions.forest.importances) == 2
        assert found.predictions.regression.on_real == pytest.approx(1 / 3, abs=0.1)
        shown = rich_text(found)
        assert "Similarity" in shown
        assert "health" in shown
        assert "<table" in found._repr_html_()

    def test_too_many_parameters_are_said(self):
        """600 levels: no regression, but a tree."""
        coding = Coding((Attribute("a", Labels(tuple(map(str, range(600))))),))
        one = Dataset(coding.domain, np.arange(600)[:, None])
        found = utility_report(one, one, coding, rng=rng())
        assert found.regression is None
        assert "too many parameters" in rich_text(found)
        assert found.document()["regression"] is None

    def test_pairs_are_left_out_where_they_are_too_many(self):
        coding = Coding(tuple(Attribute(name, Labels(tuple(map(str, range(25))))) for name in "ab"))
        one = Dataset(coding.domain, rng().integers(25, size=(300, 2)))
        assert utility_report(one, one, coding, rng=rng()).regression.parameters <= 49

    def test_wrong_attributes(self):
        with pytest.raises(UnknownAttributeError):
            utility_report(resampled(), RECORDS, CODING, UtilityOptions("nobody"), rng=rng())
        with pytest.raises(DomainMismatchError):
            utility_report(resampled(), RECORDS.project(("sex",)), CODING, rng=rng())


class TestShell:
    def test_two_files_and_a_schema(self, run, files, tmp_path):
        rows, records, schema = files
        shown = run("utility", rows, records, "--schema", schema, "--target", "health")
        assert shown.exit_code == 0, shown.stderr
        assert "S_pMSE" in shown.stdout
        assert "Similarity" in shown.stdout

    @pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
    def test_columns_that_the_schema_lacks_are_named(self, run, files, tmp_path, ending, monkeypatch):
        rows, records, schema = files
        more = pd.read_parquet(records).astype(str).assign(note="x", pay="1")
        path = tmp_path / f"more.{ending}"
        write = {"csv": more.to_csv, "xlsx": more.to_excel}.get(ending)
        more.to_parquet(path) if write is None else write(path, index=False)
        read = Mock(wraps=rows_files.read_stored)
        monkeypatch.setattr(rows_files, "read_stored", read)
        words = ("utility", rows, path, "--schema", schema)
        shown = run(*words)
        expected = "Not compared, since the schema has no such attribute: note, pay"
        assert shown.exit_code == 0, shown.stderr
        assert shown.stdout.count("Not compared") == 1
        assert expected in shown.stdout
        assert read.call_count == (ending == "xlsx"), "a workbook is read once"
        printed = run(*words, "--json")
        assert expected in printed.stderr
        json.loads(printed.stdout)
        assert "Not compared" not in run("utility", rows, records, "--schema", schema).stdout

    def test_as_json_it_is_the_same_every_time(self, run, files, tmp_path):
        rows, records, schema = files
        report = tmp_path / "utility.json"
        words = (
            "utility",
            rows,
            records,
            "--schema",
            schema,
            "--target",
            "sex",
            "--from",
            "age",
            "--json",
        )
        told = json.loads(run(*words, "--report", report).stdout)
        assert told["format"] == UTILITY_FORMAT
        assert told == json.loads(report.read_text()) == json.loads(run(*words).stdout)

    def test_the_error_of_a_marginal_and_of_a_gap(self, run, files):
        rows, records, schema = files
        words = ("utility", rows, records, "--schema", schema, "--marginal", "sex,health", "--json")
        gap = ("--gap", "sex=female,male", "--within", "health")
        told = json.loads(run(*words, *gap).stdout)
        one, other = (read_rows(path, CODING, CODING.domain) for path in (rows, records))
        assert told["marginals"] == [["sex × health", marginal_error(other, one, ("sex", "health"))]]
        assert told["gap"] == gap_error(other, one, Gap("sex", (0, 1), "health"))
        looked = json.loads(run(*words, *gap, "--among", "children=1,2").stdout)
        assert looked["gap"] != told["gap"]
        for wrong in (
            ("--gap", "sex=female"),
            ("--within", "health"),
            ("--gap", "sex=female,x", "--within", "health"),
        ):
            shown = run(*words, *wrong)
            assert shown.exit_code == 1
            assert "gap: " in shown.stderr

    def test_a_folder_that_was_kept(self, run, agreed, files, tmp_path):
        kept = agreed.release(500, seed=3, progress=False).save(tmp_path / "kept")
        shown = run("utility", kept, files[1], "--report", tmp_path / "out.json")
        assert shown.exit_code == 0, shown.stderr
        assert "Written" in shown.stdout

    def test_what_is_missing_is_said(self, run, files, tmp_path):
        rows, records, schema = files
        assert "schema: is required" in run("utility", rows, records).stderr
        shutil.copy(records, tmp_path / "records.txt")
        shown = run("utility", rows, tmp_path / "records.txt", "--schema", schema)
        assert shown.exit_code == 1
        assert "a name that ends in .csv" in shown.stderr
        assert "nobody" in run("utility", rows, records, "--schema", schema, "--target", "nobody").stderr


def test_levels_that_are_numbers():
    coding = Coding(
        (
            Attribute("name", Labels(("a", "b"))),
            Attribute("code", Labels(("7", "8"), integer=True)),
            Attribute("children", Labels(("0", "1"), integer=True, ordered=True, missing=True)),
            Attribute("age", Edges((0, 10, 30))),
        )
    )
    values = level_values(coding)
    assert set(values) == {"children", "age"}
    assert values["age"] == (5.0, 20.0)
    np.testing.assert_array_equal(values["children"], [0, 1, np.nan])
