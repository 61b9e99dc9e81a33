"""From a messy file to rows of the same types: what `init` drafts, a formula, a data frame."""

from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pytest

from gencard.client import Analyst
from gencard.controller.drafting.folder import draft
from gencard.core.errors import NotAcceptedError
from tests.messy_files import MESSY, survey
from tests.system.house import House
from tests.system.people import enrolled_person


@pytest.fixture(scope="module")
def frame(tmp_path_factory) -> pd.DataFrame:
    folder = tmp_path_factory.mktemp("messy")
    house = House(folder / "controller")
    made = draft(house.folder, MESSY["german"](folder), now=datetime.now(UTC))
    made.schema.write_text(made.schema.read_text().replace("reviewed = false", "reviewed = true"))
    house.edit({"address": '"localhost:0"'})
    house.start()
    ana = enrolled_person(house, folder / "ana")
    with Analyst.connect(house.address, folder=ana) as analyst:
        formula = "Alter ~ income + visit + health + smoker"
        wanted = {"kind": "linear", "rows": 2_000, "seed": 3, "accept": True, "progress": False}
        with pytest.raises(NotAcceptedError, match=r"gaussian.*where exact was asked for.*--rho"):
            analyst.synthesize("umfrage", formula, **wanted)
        noise = {"rho": "0.05", "neighbouring": "add-remove"}
        yield analyst.synthesize("umfrage", formula, **wanted, **noise).to_frame()
    house.stop()


def test_each_column_has_its_type(frame):
    assert frame["Alter"].dtype.kind in "iI"
    assert frame["health"].dtype.ordered
    assert frame["health"].cat.categories.tolist() == ["schlecht", "mittelmäßig", "gut", "sehr gut"]
    days = frame["visit"].dropna()
    assert isinstance(pd.Timestamp(days.iloc[0]).date(), date)
    assert pd.Timestamp("2023-01-01") <= pd.to_datetime(days).min()
    income = frame["income"].dropna().to_numpy(dtype=float)
    np.testing.assert_allclose(income, income.round(2), rtol=0, atol=1e-9)


def test_zeros_and_missing_values_are_as_frequent_as_in_the_records(frame):
    """Noise at the drafted budget moves a share of 2,000 records by a few in a hundred."""
    records = survey()["income"]
    assert frame["income"].isna().mean() == pytest.approx(0.05, abs=0.04)
    assert (frame["income"] == 0).mean() == pytest.approx(0.95 * (records == 0).mean(), abs=0.08)
