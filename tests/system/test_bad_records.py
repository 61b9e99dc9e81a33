"""The table of bad records and disks: each has its typed error, and nothing but budget is ever lost."""

import re

import pytest

from gencard.controller.jobs import tasks
from gencard.core import errors
from tests.system.house import House, build
from tests.system.raw_calls import agreed, state_unchanged

HEADER = b"sex,health,work,region,age\n"
RECORD = b"female,good,none,north,30\n"
BAD = {
    "undeclared": HEADER + RECORD + b"CANARY,good,none,north,30\n",
    "empty": HEADER,
    "garbled": HEADER + b'"\n' * 50 + b"\xff\xfe\x00" * 100,
    "lacking": b"sex,health\nfemale,good\n",
}
GIVEN = ("cards", "psis", "releases", "audits")
"""Tables of what is given away. A failed release leaves its own trace in the others."""


def add_dataset(house: House, name: str, content: bytes) -> None:
    """One more dataset in the settings, under the schema, policy and caps of the first."""
    path = house.folder / f"{name}.csv"
    path.write_bytes(content)
    head, first, *rest = re.split(r"(?m)^(?=\[\[)", house.settings_file.read_text())
    entry = re.sub(r"(?m)^name = .*$", f'name = "{name}"', first)
    entry = re.sub(r"(?m)^data = .*$", f'data = "{path}"', entry)
    house.settings_file.write_text("".join([head, first, entry, *rest]))


@pytest.fixture(scope="module")
def records_house(tmp_path_factory):
    """Datasets whose records are wrong in all the ways that records are."""
    house = build(tmp_path_factory.mktemp("records"))
    good = (house.folder.parent / "survey.csv").read_bytes()
    for more, name in enumerate(("gone", "changed", "going"), 1):
        add_dataset(house, name, good + more * RECORD)
    for name, content in BAD.items():
        add_dataset(house, name, content)
    house.start()
    (house.folder / "gone.csv").unlink()
    with (house.folder / "changed.csv").open("ab") as file:
        file.write(RECORD)
    yield house
    house.stop()


@pytest.mark.parametrize(
    ("dataset", "error", "held"),
    [
        ("undeclared", errors.MeasurementRefusedError, 1),
        ("empty", errors.MeasurementRefusedError, 1),
        ("lacking", errors.MeasurementRefusedError, 1),
        ("garbled", errors.DatasetUnavailableError, 0),
        ("gone", errors.DatasetUnavailableError, 0),
        ("changed", errors.DatasetChangedError, 0),
    ],
)
def test_bad_records(records_house, dataset, error, held):
    """A failure that depends on the records costs one statistic; any other costs nothing."""
    with records_house.analyst() as analyst:
        card = agreed(analyst, ("sex", "work"), dataset=dataset)
        with state_unchanged(records_house, GIVEN), pytest.raises(error) as caught:
            card.generate(5, progress=False)
        assert analyst.budget(dataset).spent.statistics == held
    assert "CANARY" not in f"{caught.value} {caught.value.fields}"


def test_records_that_vanish_in_mid_run(records_house, monkeypatch):
    executor = records_house.controller.operations._executor
    submit = executor.submit

    def remove_and_submit(task, *args, **more):
        if task is tasks.MEASURE:
            (records_house.folder / "going.csv").unlink()
        return submit(task, *args, **more)

    monkeypatch.setattr(executor, "submit", remove_and_submit)
    with records_house.analyst() as analyst:
        card = agreed(analyst, ("sex", "work"), dataset="going")
        with state_unchanged(records_house, GIVEN), pytest.raises(errors.DatasetUnavailableError):
            card.generate(5, progress=False)
        assert analyst.budget("going").spent.statistics == 0


def test_rows_that_cannot_be_kept(records_house):
    """Psi stays measured, and the next try costs nothing."""
    releases = records_house.controller.controller_state.settings.state.releases
    releases.write_bytes(b"a file where the folder should be")
    with records_house.analyst() as analyst:
        card = agreed(analyst, ("sex", "work"))
        given = ("cards", "releases", "audits")
        with state_unchanged(records_house, given), pytest.raises(errors.StorageError):
            card.generate(5, progress=False)
        spent = analyst.budget("survey").spent
        releases.unlink()
        assert len(card.generate(5, progress=False)) == 5
        assert analyst.budget("survey").spent == spent
