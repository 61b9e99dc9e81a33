"""S34: what a caller makes up goes into no black box of the controller unless the settings lend it."""

import re

import pytest

from gencard.client.connection.tables import RemoteBox
from gencard.controller.jobs import tasks
from gencard.core.errors import BoxNotLentError, NotFoundError
from tests.system.every_method import made_up
from tests.system.house import House, build

BOXES = ("honest", "leaky", "copier", "ipf", "reduced-space")
"""Three black boxes of the settings, and two generators."""


@pytest.fixture
def lending_nothing(tmp_path) -> House:
    """A controller as it is drafted: black boxes, and no table of those that are lent."""
    house = build(tmp_path)
    text = house.settings_file.read_text()
    house.settings_file.write_text(re.sub(r"(?m)^\[lending\]\nblack_boxes = .*$", "", text))
    assert house.settings().lending.black_boxes == ()
    yield house.start()
    house.stop()


def test_s34_no_black_box_is_lent_by_default(lending_nothing, monkeypatch):
    """An analyst and an auditor ask for each; the error says what a steward has to write."""
    monkeypatch.setattr(tasks, "RUN_BLACK_BOX", None)  # any run would fail otherwise
    with lending_nothing.analyst() as ana, lending_nothing.analyst("aud") as aud:
        card = ana.propose("survey", [("sex", "health")], purpose="a test", rows=100).accept()
        records = made_up(20).project(card.agreement.domain.attributes)
        for who in (ana, aud):
            for name in BOXES:
                with pytest.raises(BoxNotLentError, match=f"'{name}'") as refused:
                    RemoteBox(who._connection, card.name, name)(records, 5, seed=1)
                assert "black_boxes in the [lending] section" in refused.value.advice
        with pytest.raises(NotFoundError):
            RemoteBox(ana._connection, card.name, "nobody")(records, 5, seed=1)


def test_s34_a_named_black_box_is_lent_and_no_other(tmp_path):
    house = build(tmp_path)
    house.edit({"black_boxes": '["honest"]'})
    with house.start().analyst() as ana:
        card = ana.propose("survey", [("sex", "health")], purpose="a test", rows=100).accept()
        records = made_up(20).project(card.agreement.domain.attributes)
        assert len(RemoteBox(ana._connection, card.name, "honest")(records, 5, seed=1)) == 5
        with pytest.raises(BoxNotLentError):
            RemoteBox(ana._connection, card.name, "leaky")(records, 5, seed=1)
    house.stop()
