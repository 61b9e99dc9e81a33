"""Rows of a real service keep to what the schema derives; older cards replay as before."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gencard.boxes.reference import ReferenceKind, ReferenceRecipe
from gencard.client.checking.bundle import Bundle, Keys, rebuild
from gencard.client.checking.checks import check_delivered_file
from gencard.client.connection.credentials import public_key
from gencard.controller.cards import book
from gencard.controller.jobs.black_boxes import draw
from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.jobs.tasks import KEPT_ROWS, DrawJob
from gencard.core.coding import Derivation
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.wire.keys import CARDS, LOG, KeyHistory
from tests.system.house import SCHEMA, running
from tests.system.raw_calls import agreed

OLDER = """
[[attributes]]
name = "older"
of = "age"
edges = [16, 45, 95]
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    schema = SCHEMA.replace(
        "edges = [16, 30, 45, 65, 95]", "edges = [16, 30, 45, 65, 95]\ninteger = true"
    )
    with running(tmp_path_factory.mktemp("derived"), schema=schema + OLDER) as made:
        yield made


def contradictions(frame):
    return int((frame["older"] != frame["age"]).sum())


def keys_of(house):
    def known(name):
        return public_key(house.person("ana") / name, name)

    own = load_pem_private_key((house.person("ana") / "signing_key.pem").read_bytes(), None).public_key()
    return Keys(
        KeyHistory(known("controller_card_key.pub"), CARDS),
        (own,),
        KeyHistory(known("log_key.pub"), LOG),
    )


def replayed(house, release, folder, rows):
    """Save a release, recompute it offline, and compare the file."""
    release.save(folder, rows)
    bundle = Bundle.of([folder])
    receipt, dataset, coding = rebuild(bundle, keys_of(house))
    assert dataset.digest() == receipt.rows_digest
    check_delivered_file(folder / rows, dataset, coding, [receipt.drawing_seed])
    return dataset


@pytest.mark.parametrize("rows", ["rows.csv", "rows.parquet"])
def test_no_row_contradicts_the_schema(house, tmp_path, rows):
    with house.analyst() as ana:
        card = agreed(ana, ("age",), ("older",))
        release = card.release(rows=1_000, seed=1, progress=False)
        assert card.agreement.card.derivations
        assert contradictions(release.frame) == 0
        replayed(house, release, tmp_path / "release", rows)


def test_rows_of_a_card_of_before_replay_as_they_were(house, tmp_path, monkeypatch):
    with house.analyst() as ana:
        with monkeypatch.context() as before:
            before.setattr(book, "derived_in", lambda *_: False)
            card = agreed(ana, ("age",), ("older",))
        release = card.release(rows=1_000, seed=1, progress=False)
        assert not card.agreement.card.derivations
        codes = release.dataset
        assert (codes.column("older") != (codes.column("age") >= 2)).mean() > 0.3
        replayed(house, release, tmp_path / "release", "rows.csv")


def test_a_card_without_derived_attributes_says_nothing_of_them(house):
    with house.analyst() as ana:
        assert b"derivations" not in agreed(ana, ("age",)).agreement.envelope


def test_what_a_black_box_makes_is_computed_too(tmp_path):
    domain = Domain(("age", "older"), (4, 2))
    kept = Dataset(domain, np.random.default_rng(1).integers(0, domain.sizes, (400, 2)))
    RowsFile(tmp_path / KEPT_ROWS).write(kept)
    recipe = ReferenceRecipe(ReferenceKind.HONEST, "ipf", (("age", "older"),))
    older = {"older": Derivation(("age",), (0, 0, 1, 1))}
    draw(DrawJob(recipe, domain, older, 300, tmp_path, tmp_path / "rows"), lambda *_: None)
    rows = RowsFile(tmp_path / "rows").dataset()
    assert len(rows) == 300
    assert np.array_equal(rows.column("older"), rows.column("age") >= 2)
