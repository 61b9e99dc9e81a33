"""check --show-values: all undeclared values with their counts, and lines that declare them."""

import tomllib

import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.controller.drafting.undeclared import undeclared_values
from gencard.controller.records.schema_file import schema_of_table
from gencard.controller.settings import DatasetTable, Settings
from gencard.controller.shell.main import app
from gencard.core.errors import UndeclaredLevelError

CANARY = "CANARY Ann Smith"


def entry_of(tmp_path, **columns):
    file = tmp_path / "records.csv"
    pd.DataFrame(columns).to_csv(file, index=False)
    amounts = {"statistics": 9}
    policy = dict.fromkeys(("largest_order", "largest_marginal_cells", "most_marginals", "most_rows"), 9)
    return DatasetTable(
        name="survey",
        data=file,
        schema=tmp_path / "schema.toml",
        policy=policy | {"most_per_card": amounts},
        caps=dict.fromkeys(("dataset", "project", "analyst"), amounts),
    )


def undeclared(tmp_path, table, values):
    """Return the undeclared values of one attribute, and the attribute's table after mending."""
    entry = entry_of(tmp_path, a=values)
    attribute = {"name": "a"} | table
    schema = {"title": "t", "declared_by": "d", "attributes": [attribute]}
    (one,) = undeclared_values(entry, schema_of_table(schema))
    left = undeclared_values(entry, schema_of_table(schema | {"attributes": [attribute | one.mended]}))
    return one, [values.counts for values in left]


@pytest.mark.parametrize(
    ("table", "values", "counts", "mended"),
    [
        (
            {"labels": ["f", "m"]},
            ["f", "x", "x", "d"],
            {"x": 2, "d": 1},
            {"labels": ["f", "m", "x", "d"]},
        ),
        ({"labels": ["f", "m"]}, ["f", "k.A.", None], {"": 1, "k.A.": 1}, {"missing": ["k.A."]}),
        ({"labels": ["f", "m"]}, ["f", None, "m"], {"": 1}, {"missing": True}),
        ({"labels": ["1", "3"]}, ["1", "2", "-9"], {"-9": 1, "2": 1}, None),
        (
            {"labels": ["low", "high"], "ordered": True},
            ["low", "medium"],
            {"medium": 1},
            {"labels": ["low", "medium", "high"]},
        ),
        ({"edges": [10, 20]}, ["9.5", "131", "11"], {"131": 1, "9.5": 1}, {"edges": [9, 200]}),
        ({"edges": [0, 20]}, ["-8", "11", "?"], {"-8": 1, "?": 1}, {"missing": ["-8", "?"]}),
        (
            {"dates": ["2020-01-01", "2020-12-31"]},
            ["2019-11-30", "2021-02-03"],
            {"2019-11-30": 1, "2021-02-03": 1},
            {"dates": ["2019-11-01", "2021-02-28"]},
        ),
        (
            {"age_at": "2020-01-01", "edges": [0, 100]},
            ["1900-05-05", "1980-01-01"],
            {"1900-05-05": 1},
            {"edges": [0, 200]},
        ),
    ],
)
def test_the_mended_lines_declare_the_values(tmp_path, table, values, counts, mended):
    one, left = undeclared(tmp_path, table, values)
    assert one.counts == counts
    assert mended is None or one.mended == mended
    assert left == []


def test_very_many_labels_become_other(tmp_path):
    one, left = undeclared(tmp_path, {"labels": ["f"]}, ["f", *(f"v{n}" for n in range(150))])
    assert len(one.counts) == 150
    assert one.mended == {"labels": ["f", "other"], "other": "other"}
    assert left == []


def test_what_is_no_number_is_left_to_the_steward(tmp_path):
    one, left = undeclared(tmp_path, {"edges": [0, 9]}, ["1", "many", "12"])
    assert one.mended == {"edges": [0, 20]}
    assert one.notes == ("Not a number: 'many'. Correct the records, or add it to missing.",)
    assert left == [{"many": 1}]


class TestCommand:
    @pytest.fixture
    def settings(self, tmp_path):
        file = tmp_path / "survey.csv"
        people = pd.DataFrame(
            {"sex": ["f", "m"] * 20, "age": [n * 7 % 31 for n in range(40)], "work": ["no", "yes"] * 20}
        )
        people.to_csv(file, index=False)
        made = CliRunner().invoke(app, ["init", str(tmp_path / "house"), "--data", str(file)])
        assert made.exit_code == 0, made.output
        people.loc[0, "sex"], people.loc[1, "age"], people.loc[2:4, "work"] = CANARY, 400, CANARY
        people.to_csv(file, index=False)
        return tmp_path / "house" / "controller.toml"

    def test_all_attributes_are_named_in_one_run_and_no_value(self, settings):
        result = CliRunner().invoke(app, ["check", "--config", str(settings)])
        assert isinstance(result.exception, UndeclaredLevelError)
        assert result.exception.fields == {"attribute": "sex, age, work"}
        assert "CANARY" not in result.output + str(result.exception)

    def test_values_counts_and_lines_to_paste(self, settings):
        result = CliRunner().invoke(app, ["check", "--show-values", "--config", str(settings)])
        assert isinstance(result.exception, UndeclaredLevelError)
        assert "CANARY" not in str(result.exception)
        lines = result.stdout.splitlines()
        assert any(CANARY in line and " 3 " in line for line in lines)
        pasted = tomllib.loads("\n".join(lines[lines.index("# age") + 1 :]).partition("\n\n")[0])
        assert pasted["edges"][-1] == 400
        assert f'labels = ["f", "m", "{CANARY}"]' in lines

    def test_every_dataset_and_the_holdout_are_read(self, settings, capsys):
        words = 'schema = "schema.toml"'
        holdout = settings.parent / "others.csv"
        pd.DataFrame({"sex": ["z"], "age": [1], "work": ["no"]}).to_csv(holdout, index=False)
        text = settings.read_text().replace(words, f'{words}\nholdout = "{holdout}"')
        settings.write_text(text)
        assert Settings.load(settings).datasets[0].holdout == holdout
        result = CliRunner().invoke(app, ["check", "--config", str(settings)])
        assert result.exception.fields == {"attribute": "sex"}
        assert "sex, age, work" in result.stderr
