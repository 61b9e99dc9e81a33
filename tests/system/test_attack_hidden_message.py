"""An author who hides: rows chosen so that they spell records out. Reviews decide, for no audit can."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gencard.client.card import Card
from gencard.client.checking.bundle import Bundle, Keys, Outcome, verify
from gencard.client.connection.credentials import Credentials
from gencard.controller.jobs import black_boxes
from gencard.core.audit.report import Verdict
from gencard.core.card.terms import Tier
from gencard.core.domain import Domain
from gencard.core.errors import BoxNotReviewedError, ProposalRefusedError
from tests.fixtures.hidden_message import box as hidden
from tests.system.house import REVIEWER, House, build
from tests.system.raw_calls import known_seeds
from tests.system.sandboxes import needs_sandbox
from tests.system.thread_jobs import run_jobs_in_threads

DOMAIN = Domain.of({"a": 12, "b": 10, "c": 12, "d": 8, "e": 2})
PAIRS = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
ROWS, UNIQUE = 10_000, 29
ENTRY = """
[[black_boxes]]
name = "chain"
kind = "program"
folder = "programs/chain"
command = ["python", "./box.py"]
description = "A chain of pairs; so its author says."
"""


def records() -> np.ndarray:
    """Cells of 2,029 records: a thousand pairs, and 29 that are unique."""
    cells = 1 + np.random.default_rng(5).choice(DOMAIN.cells - 1, 1_000 + UNIQUE, replace=False)
    return np.concatenate([np.repeat(cells[:1_000], 2), cells[1_000:]])


def survey() -> pd.DataFrame:
    codes = np.unravel_index(records(), DOMAIN.sizes)
    columns = zip(DOMAIN.attributes, codes, strict=True)
    return pd.DataFrame({name: [f"{name}{code}" for code in column] for name, column in columns})


def schema() -> str:
    text = 'title = "A table"\ndescription = ""\ndeclared_by = "the tests"\nreviewed = true\n'
    for name, size in zip(DOMAIN.attributes, DOMAIN.sizes, strict=True):
        labels = [f"{name}{code}" for code in range(size)]
        text += f'\n[[attributes]]\nname = "{name}"\nlabels = {labels}\n'
    return text


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    """A controller, not started, whose policy names the box of an author whom nobody knows."""
    built = build(tmp_path_factory.mktemp("hidden"), survey(), schema())
    built.raise_caps()
    many = "{ statistics = 1_000_000 }"
    built.edit({"generators": '["ipf", "chain"]', "most_per_card": many})
    program = built.folder / "programs" / "chain" / "box.py"
    program.parent.mkdir(parents=True)
    shutil.copyfile(hidden.__file__, program)
    text = built.settings_file.read_text()
    built.settings_file.write_text(text.split("[[black_boxes]]")[0] + ENTRY)
    return built


def proposed(house: House) -> Card:
    with house.analyst() as ana:
        return ana.propose("survey", PAIRS, purpose="a test", generator="chain", rows=ROWS)


@needs_sandbox
class TestUnreviewed:
    def test_the_policy_refuses_the_card(self, house):
        house.start()
        try:
            with pytest.raises(ProposalRefusedError, match="BOX_NOT_REVIEWED"):
                proposed(house)
            with house.analyst() as ana:
                entry = next(one for one in ana.generators() if one.name == "chain")
            assert (entry.tier, entry.reviewed_by) == (Tier.AUDITED, "")
        finally:
            house.stop()

    def test_a_review_of_other_bytes_is_none(self, house):
        text = house.settings_file.read_text()
        house.review("chain")
        program = house.folder / "programs" / "chain" / "box.py"
        program.write_text(program.read_text() + "# one line more\n")
        house.start()
        try:
            with pytest.raises(ProposalRefusedError, match="BOX_NOT_REVIEWED"):
                proposed(house)
        finally:
            house.stop()
            house.settings_file.write_text(text)


@dataclass(frozen=True)
class Admitted:
    """The card after its audit at the records, the verdict, and where a release of it lies."""

    card: Card
    verdict: Verdict
    folder: Path
    found: set[int]


@pytest.fixture(scope="module")
def admitted(house, tmp_path_factory) -> Iterator[Admitted]:
    """A real audit around the real records, and rows of a run in a real cell."""
    house.review("chain")
    with pytest.MonkeyPatch.context() as patch, known_seeds():
        run_jobs_in_threads(patch)
        patch.setattr(black_boxes, "box_of", lambda _recipe: hidden.box)
        patch.setattr(black_boxes, "_seed", lambda: 7)
        house.start()
        with house.analyst() as ana:
            card = ana.propose("survey", PAIRS, purpose="a test", generator="chain", rows=ROWS)
            verdict = card.accept().audit(where="card", progress=False).verdict
            release = card.release(ROWS, progress=False)
            folder = release.save(tmp_path_factory.mktemp("kept"))
        codes = release.dataset.codes.astype(np.int64)
        yield Admitted(card, verdict, folder, hidden.read(codes, DOMAIN))
        house.stop()


@needs_sandbox
class TestReviewed:
    def test_the_audit_at_the_records_finds_nothing(self, admitted):
        assert admitted.verdict is Verdict.NO_EVIDENCE

    def test_its_rows_hand_out_unique_records(self, admitted):
        """An audit is no evidence against an author who hides: this is the purpose of the review."""
        unique = set(records()[-UNIQUE:].tolist())
        assert admitted.found <= unique
        assert len(admitted.found) >= 20

    def test_the_card_says_who_reviewed_it_and_what_no_audit_finds(self, admitted):
        said, lines = admitted.card.signed, dict(admitted.card.lines())
        assert (said.tier, said.reviewed_by) == (Tier.AUDITED, REVIEWER)
        assert lines["Reviewed by"] == REVIEWER
        assert "an audit cannot find what an author hides on purpose" in lines["Reliable for"]

    def test_without_the_review_no_further_row_leaves(self, admitted, house):
        """An old card still verifies, but its rows wait for a review, too."""
        house.stop()
        text = house.settings_file.read_text()
        review = next(line for line in text.splitlines() if line.startswith("reviewed_by"))
        house.settings_file.write_text(text.replace(review, ""))
        house.start()
        with house.analyst() as ana, pytest.raises(BoxNotReviewedError):
            ana.card(admitted.card.name).release(10, progress=False)
        keys = Keys.of(Credentials.of_folder(house.person("ana")))
        checks = verify(Bundle.of([admitted.folder]), keys, datetime.now(UTC))
        assert Outcome.FAILED not in {check.outcome for check in checks}
