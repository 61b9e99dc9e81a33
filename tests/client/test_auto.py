"""The generator ``auto``: chosen by the sizes, named on the card, replaced where it is refused."""

from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest

from gencard.client.terms import mean
from gencard.core import errors
from tests.system.house import build

NAMES = [f"q{index}" for index in range(24)]
PLAIN = [("sex", "health")]


def test_the_card_names_the_choice(ana, world):
    card = ana.propose("survey", PLAIN, purpose="x", generator="auto")
    assert card.terms.generator == "ipf"
    assert card.negotiation.proposed.generator == "ipf"
    plan = ana.plan("survey", "health ~ sex")
    assert dict(plan.lines())["Generator"] == "ipf"
    assert plan.ask.keywords["generator"] == "ipf"


@pytest.mark.parametrize(
    "refusal", [errors.ModelTooLargeError(limit=5, largest="x"), errors.NotFittableError(remedy="x")]
)
def test_the_next_one_is_proposed_where_one_is_refused(ana, world, monkeypatch, refusal):
    monkeypatch.setattr(
        "gencard.client.catalogue.suited_generators", lambda *_: ("graphical", "support-raking")
    )
    world.faults.fail["ProposeCard"] = [refusal]
    card = ana.propose("survey", PLAIN, purpose="x", generator="auto")
    assert card.negotiation.proposed.generator == "support-raking"
    assert len(world.cards) == 1
    world.faults.fail["ProposeCard"] = [refusal, refusal]
    with pytest.raises(type(refusal)) as caught:
        ana.propose("survey", PLAIN, purpose="x", generator="auto")
    assert "auto" not in str(caught.value)
    assert len(world.cards) == 1


def test_a_counter_offer_names_the_choice_too(ana, world):
    card = ana.propose("survey", PLAIN, purpose="x", generator="graphical")
    assert card.counter(generator="auto").negotiation.proposed.generator == "ipf"


def test_a_controller_that_states_no_bound_gets_the_usual_one(ana, world, monkeypatch):
    monkeypatch.setattr("gencard.client.catalogue.list_generators", lambda _: [])
    card = ana.propose("survey", PLAIN, purpose="x", generator="auto")
    assert card.negotiation.proposed.generator == "ipf"


def test_another_refusal_is_final(ana, world, monkeypatch):
    monkeypatch.setattr(
        "gencard.client.catalogue.suited_generators", lambda *_: ("graphical", "support-raking")
    )
    world.faults.fail["ProposeCard"] = [errors.ProposalRefusedError(reasons="ORDER_TOO_HIGH")]
    with pytest.raises(errors.ProposalRefusedError):
        ana.propose("survey", PLAIN, purpose="x", generator="auto")
    assert world.cards == {}


def records():
    rng = np.random.default_rng(2)
    group = rng.integers(0, 3, 2_000)
    return pd.DataFrame({name: (group + rng.integers(0, 3, 2_000)) % 4 for name in NAMES}).astype(str)


SCHEMA = "\n".join(
    ['title = "Wide"', 'declared_by = "the tests"', "reviewed = true"]
    + [f'[[attributes]]\nname = "{name}"\nlabels = ["0", "1", "2", "3"]' for name in NAMES]
)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    built = build(tmp_path_factory.mktemp("wide"), records(), SCHEMA)
    built.start()
    with built.analyst("ana") as analyst:
        yield analyst
    built.stop()


@pytest.mark.parametrize(
    ("marginals", "name"),
    [
        ([*pairwise(NAMES[:6])], "ipf"),
        ([*pairwise(NAMES)], "graphical"),
        ([*combinations(NAMES, 2)], "support-raking"),
    ],
)
def test_a_controller_offers_the_choice_without_a_change(wide, marginals, name):
    card = wide.propose("survey", marginals, purpose="x", generator="auto", dry_run=True)
    assert (card.terms.generator, card.changes) == (name, ())


def test_all_columns_of_a_wide_file_become_rows(wide):
    release = wide.synthesize("survey", rows=4_000, accept=True, progress=False)
    card = wide.card(release.card)
    assert card.terms.generator == "support-raking"
    assert len(card.terms.marginals) == 276
    drawn, real = (
        pd.crosstab(frame["q3"].astype(str), frame["q17"].astype(str), normalize=True)
        for frame in (release.to_frame(), records())
    )
    assert np.abs(drawn.to_numpy() - real.to_numpy()).max() < 0.02


@pytest.mark.parametrize("marginals", [[mean("q0")], [], [mean("q0"), ("q1", "q2")]])
def test_moments_are_answered_as_with_a_name(wide, marginals):
    def answered(name):
        try:
            card = wide.propose("survey", marginals, purpose="x", generator=name, dry_run=True)
        except errors.GencardError as error:
            return str(error)
        return card.terms, card.changes

    assert answered("auto") == answered("maximum-entropy" if marginals else "ipf")
