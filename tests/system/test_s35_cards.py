"""S35, S31: what runs in cells under cards: built-in boxes and programs, from the catalogue to rows."""

from collections.abc import Iterator
from decimal import Decimal
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from gencard.client.analyst import Analyst
from gencard.client.card import Card
from gencard.client.checking.checks import card_of_statement
from gencard.client.connection.tables import RemoteBox
from gencard.controller import operations as run_module
from gencard.core.audit.uniques import made_up
from gencard.core.card.budget import NO_CLAIM, Claim, Neighbouring
from gencard.core.card.card import CardState
from gencard.core.card.terms import AuditTerms, Tier
from gencard.core.errors import BoxNotLentError, GeneratorChangedError
from gencard.core.generators.contract import rng_of
from tests.system.house import House, build, survey
from tests.system.prepared_audits import audit_answer
from tests.system.raw_calls import known_seeds
from tests.system.sandboxes import needs_sandbox

pytestmark = needs_sandbox

PAIRS = list(combinations(("sex", "health", "work"), 2))
ROWS = 400
BOXES = """
[[black_boxes]]
name = "tree"
kind = "built_in"
box = "mst"
parameters = { epsilon = "2" }

[[black_boxes]]
name = "resample"
kind = "program"
folder = "programs/resample"
command = ["python", "./box.py"]
description = "A bootstrap."
claim = { by = "its author", epsilon = "3", delta = "0.00001", neighbouring = "replace-one" }

[[black_boxes]]
name = "renamed"
kind = "program"
folder = "programs/resample"
command = ["python", "./box.py"]

[[black_boxes]]
name = "bootstrap"
kind = "program"
folder = "programs/bootstrap"
command = ["python", "./box.py"]
"""
PROGRAM = """
from gencard.wire.black_box import black_box

@black_box
def resample(table, rows, *, rng):
    return table.dataset.take(rng.integers(len(table), size=rows))

resample.main()
"""


@pytest.fixture(scope="module")
def celled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A controller that offers a built-in box and a program."""
    house = build(tmp_path_factory.mktemp("celled"), survey(500))
    house.raise_caps()
    house.offer_private('["ipf", "tree", "resample", "renamed"]')
    house.edit({"black_boxes": '["resample"]'})
    with house.settings_file.open("a") as settings:
        settings.write(BOXES)
    for name, text in (("resample", PROGRAM), ("bootstrap", PROGRAM + "# of other bytes")):
        program(house, name).parent.mkdir(parents=True)
        program(house, name).write_text(text)
    house.review("resample", "renamed")
    yield house.start()
    house.stop()


def program(house: House, name: str = "resample") -> Path:
    return house.folder / "programs" / name / "box.py"


@pytest.fixture
def ana(celled: House) -> Iterator[Analyst]:
    with celled.analyst() as analyst:
        yield analyst


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the jobs; audits find no evidence at once, all other jobs are real."""
    names, real = [], run_module.Run.job

    def job(self, task, description):
        names.append(task.name)
        if task.name == "audit":
            return audit_answer("no-evidence", description)
        return real(self, task, description)

    monkeypatch.setattr(run_module.Run, "job", job)
    return names


def audited(analyst: Analyst, generator: str) -> Card:
    terms = {"purpose": "a test", "rows": ROWS, "audit": AuditTerms(runs=6)}
    card = analyst.propose("survey", PAIRS, generator=generator, **terms).accept()
    card.audit(where="card", progress=False)
    assert card.state is CardState.AUDITED
    return card


def test_the_catalogue_and_the_card_say_what_runs_and_what_it_claims(ana: Analyst, tasks) -> None:
    entries = {entry.name: entry for entry in ana.generators()}
    tree = entries["tree"]
    assert (tree.tier, entries["resample"].tier) == (Tier.PRIVATE, Tier.AUDITED)
    assert tree.claim is not None
    assert (tree.claim.epsilon, tree.parameters["epsilon"]) == (Decimal(2), "2")
    assert tree.claim.neighbouring in Neighbouring
    assert (entries["renamed"].claim, entries["renamed"].parameters) == (NO_CLAIM, {})
    declared = Claim(
        "Declared by its author, and not proved.",
        Decimal(3),
        Decimal("0.00001"),
        Neighbouring.REPLACE_ONE,
    )
    assert entries["resample"].claim == declared
    assert entries["resample"].digest == entries["renamed"].digest
    card = ana.propose("survey", PAIRS, purpose="a test", generator="tree", rows=ROWS)
    said = card_of_statement(card.offer.statement)
    assert (said.claim, dict(said.parameters)) == (tree.claim, tree.parameters)
    assert said.generator_digest == tree.digest
    assert "epsilon 2" in dict(card.lines())["Claims"]


@pytest.mark.parametrize(
    ("box", "alpha", "verdict"), [("tree", "0.000001", "no-evidence"), ("bootstrap", "0.05", "leakage")]
)
def test_s31_a_real_audit_of_real_cells(ana: Analyst, box: str, alpha: str, verdict: str) -> None:
    """Records, jobs and cells are real; MST keeps to the pairs, a bootstrap does not."""
    terms = {"purpose": "a test", "rows": ROWS, "audit": AuditTerms(runs=6, alpha=alpha)}
    card = ana.propose("survey", PAIRS, generator="ipf", **terms).accept()
    with known_seeds():
        assert card.audit(box, where="card", progress=False).verdict == verdict


def test_a_fit_is_made_once_and_its_claim_spent_once(celled: House, ana: Analyst, tasks) -> None:
    card = ana.propose("survey", PAIRS, purpose="a test", generator="tree", rows=ROWS).accept()
    first, second = (card.release(ROWS, progress=False).dataset for _ in range(2))
    assert tasks == ["keep", "draw", "draw"]
    assert not np.array_equal(first.codes, second.codes)
    (kept,) = (celled.settings().state.kept / card.name.rpartition("/")[2]).iterdir()
    assert kept.name == "fit"


def test_a_program_of_somebody_makes_the_rows(celled: House, ana: Analyst, tasks) -> None:
    card = audited(ana, "resample")
    assert len(card.release(100, progress=False).dataset) == 100
    (kept,) = (celled.settings().state.kept / card.name.rpartition("/")[2]).iterdir()
    assert kept.name == "rows"


def test_it_is_lent_to_who_makes_up_records(celled: House, ana: Analyst, tasks) -> None:
    card = audited(ana, "resample")
    records = made_up(card.agreement.domain, 300, rng=rng_of(1))
    rows = RemoteBox(ana._connection, card.name)(records, 50, seed=1)
    assert {tuple(row) for row in rows.codes.tolist()} <= {tuple(row) for row in records.codes.tolist()}
    assert any((celled.settings().state.work / "compiled" / "copies").rglob("*.pyc"))
    with pytest.raises(BoxNotLentError, match="'renamed'"):
        RemoteBox(ana._connection, card.name, "renamed")(records, 50, seed=1)


def test_one_flipped_byte_is_refused(celled: House, ana: Analyst, tasks) -> None:
    """Everywhere; and it runs again once the bytes are those of the card."""
    card = audited(ana, "resample")
    content = program(celled).read_bytes()
    program(celled).write_bytes(content.replace(b"rows, *", b"rows , *"))
    try:
        with pytest.raises(GeneratorChangedError):
            card.release(10, progress=False)
        with pytest.raises(GeneratorChangedError):
            card.audit(where="card", progress=False)
        with pytest.raises(GeneratorChangedError):
            RemoteBox(ana._connection, card.name)(
                made_up(card.agreement.domain, 30, rng=rng_of(1)), 5, seed=1
            )
    finally:
        program(celled).write_bytes(content)
    assert len(card.release(10, progress=False).dataset) == 10
