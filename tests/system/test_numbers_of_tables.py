"""Histograms and sums of a table of a database over TLS, beside the records, with noise and exact."""

import duckdb
import numpy as np
import pytest
from typer.testing import CliRunner

from gencard.client import histogram, total
from gencard.controller.shell.main import app as steward_shell
from gencard.core.errors import DatasetChangedError, MeasurementRefusedError
from gencard.core.policy import NumbersOffer
from tests.system.house import build
from tests.system.raw_calls import configure
from tests.system.test_exact_sums import SCHEMA, survey

pytest.importorskip("ibis")
PHI = (
    ("sex", "work"),
    histogram("pay"),
    total("pay", by=["sex"]),
    total("pay", "pay"),
    total("age", by=["work"]),
)
CENTRE = 5_000
CELLS = [0, 500, 1_000, 2_000, 3_000, 9_500, 10_001]


@pytest.fixture(scope="module")
def records():
    """None of them is large, so that exact sums pass the rules."""
    frame = survey()
    return frame.assign(pay=frame.pay.clip(upper=2_600))


@pytest.fixture(scope="module")
def house(records, tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    file, frame = folder / "people.duckdb", records  # noqa: F841  # DuckDB reads it by its name
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    made = build(folder, records, SCHEMA)
    made.offer_private('["ipf"]')
    made.edit({"data": f'"duckdb:///{file}?table=people"', "format": "{}"})
    noise = '{ mechanism = "gaussian", neighbouring = "add-remove", rho = "0.5" }'
    offered = {"histograms": '"exact"', "sums": '"exact"', "noise": noise}
    configure(made, "datasets.policy", mechanisms='["exact", "gaussian"]', **offered)
    yield made.start()
    made.stop()


def truth(records) -> dict[str, list[int]]:
    """Sums in units, by pandas."""
    table = records.assign(units=records.pay - CENTRE, years=records.age - 50)
    return {
        "sum of pay by sex": table.groupby("sex").units.sum().tolist(),
        "sum of age by work": (
            table.dropna().groupby("work").age.agg(lambda own: (own - 50).sum())
        ).tolist(),
        "sum of pay * pay": [int((table.units**2).sum())],
    }


@pytest.mark.parametrize("noise", [{}, {"rho": "0.5", "neighbouring": "add-remove"}])
def test_psi_holds_those_of_the_records(house, records, noise):
    person = "bob" if noise else "ana"  # of whom each has one card
    if noise:
        house.enrol(person)
    with house.analyst(person) as analyst:
        assert analyst.dataset("survey").policy.sums is NumbersOffer.EXACT
        card = analyst.propose("survey", PHI, purpose="A test", rows=400, **noise)
        assert card.changes == ()
        agreed = card.accept()
        release = agreed.release(400, seed=3, progress=False)
        psi, expected = agreed.psi, truth(records)
        assert agreed.replay(release)
    assert {str(one.sum) for one in psi.sums} == expected.keys()
    for one in psi.sums:
        assert (one.stddev > 0) is bool(noise)
        errors = np.subtract(one.values, expected[str(one.sum)])
        assert (np.abs(errors) <= 6 * one.stddev).all()
    (counts,) = psi.histograms
    errors = np.subtract(counts.counts, np.histogram(records.pay, CELLS)[0])
    assert (np.abs(errors) <= 6 * counts.stddev).all()


def test_exact_sums_are_judged_at_the_records(house):
    with house.analyst() as analyst:
        card = analyst.propose(
            "survey", [("sex",), total("pay", by=["region"])], purpose="A test", rows=9
        )
        with pytest.raises(MeasurementRefusedError):
            card.accept().generate(rows=5, progress=False)


def test_check_counts_the_small_cells_of_histograms(house):
    said = CliRunner().invoke(steward_shell, ["check", "-c", str(house.settings_file)])
    assert said.exit_code == 0
    assert "histogram of age" in said.output  # three records have none


def test_a_changed_value_is_another_version(house):
    """One step more, inside the same cell of the histogram: no two sums can be subtracted."""
    with house.analyst() as analyst:
        card = analyst.propose("survey", [("sex",), total("pay")], purpose="A test", rows=9).accept()
        address = house.folder.parent / "people.duckdb"
        with duckdb.connect(str(address)) as connection:
            connection.execute("UPDATE people SET pay = pay + 1 WHERE rowid = 7")
        with pytest.raises(DatasetChangedError):
            card.generate(rows=5, progress=False)
