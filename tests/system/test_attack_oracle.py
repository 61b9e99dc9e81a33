"""Attack: ask measures beside the records about one person's hidden attribute.

Adversary: an enrolled analyst who knows all of a person but one attribute, or an auditor who does. Once,
a release of one row with a seed chosen so that the row was a guess, and the number of replicated uniques
of that release, said whether the guess was right: four questions for any attribute of anybody, past sets
that the policy forbids together and past noise.

The attack runs in two worlds of equal psi: in one the person is in good health, in the other somebody
else is, and the person is not. Whatever differs between the worlds was learnt about the person.
"""

import secrets
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from gencard.client.card_report import run_measures
from gencard.core.errors import GencardError, TooLargeError
from gencard.core.generators.contract import rng_of
from gencard.core.generators.registry import generator_named
from gencard.measures.evaluation.evaluation import finding_to_json_object
from gencard.v1 import measures_pb2
from tests.system.house import build, request_id
from tests.system.raw_calls import call, configure

SCHEMA = """
title = "People of a small town"
declared_by = "the tests"
reviewed = true

[[attributes]]
name = "age"
labels = [{ages}]

[[attributes]]
name = "work"
labels = ["none", "part", "full"]

[[attributes]]
name = "health"
labels = ["good", "bad"]
"""
AGES = [f"a{number}" for number in range(12)]
RECORDS = 240
ALONE, OTHER = 0, 1
"""Two people, each the only one of their age: the one who is attacked, and one of the other health."""

WORK = 2

RUN = "/gencard.v1.MeasuresService/RunMeasures"
CAP = "{ statistics = 100_000, rho = 0.5 }"


def people(healthy):
    """Made-up people, of whom two are unique by age; one of these two is in good health."""
    rng = np.random.default_rng(11)
    age = rng.integers(2, len(AGES), RECORDS)
    age[[ALONE, OTHER]] = ALONE, OTHER
    work = rng.integers(0, 3, RECORDS)
    work[[ALONE, OTHER]] = WORK
    health = rng.integers(0, 2, RECORDS)
    health[[ALONE, OTHER]] = int(healthy == OTHER), int(healthy == ALONE)
    return pd.DataFrame(
        {
            "age": np.array(AGES)[age],
            "work": np.array(["none", "part", "full"])[work],
            "health": np.array(["good", "bad"])[health],
        }
    )


@contextmanager
def world(folder, healthy, policy, **limits):
    """A running service over one of the two populations, under one of the policies."""
    folder.mkdir()
    ages = ", ".join(f'"{age}"' for age in AGES)
    house = build(folder, people(healthy), SCHEMA.format(ages=ages))
    house.edit(dict.fromkeys(("most_per_card", "dataset", "project", "analyst"), CAP))
    text = house.settings_file.read_text().partition("\n[[black_boxes]]")[0] + "\n"
    line, keys = 'schema = "schema.toml"\n', 'measures = { keys = ["age"], target = "health" }\n'
    house.settings_file.write_text(text.replace(line, line + keys))
    configure(house, "datasets.policy", **policy)
    configure(house, "limits", **limits)
    try:
        yield house.start()
    finally:
        house.stop()


def agreed(house, named=()):
    """A card of one-way marginals: nothing in psi ties a person's age to a person's health."""
    analyst = house.analyst()
    marginals = [("age",), ("work",), ("health",)]
    return analyst.propose("survey", marginals, purpose="a test", rows=500, measures=named).accept()


def seed_of_guess(card, guess):
    """A seed by which a release of one row is the guess; found offline, by psi and the generator."""
    generator = generator_named(card.terms.generator, structural_zeros=(), max_cells=1_000)
    model = generator.fit(card.psi, card.agreement.domain)
    for seed in range(200_000):
        if model.sample(1, rng=rng_of(seed)).codes[0].tolist() == list(guess):
            return seed
    raise AssertionError


def attack(house, person, names, *, offline):
    """All that the attacker is told: by the old question for each guess, then by each measure."""
    card = agreed(house, names if person == "ana" else ())
    card.release(5, progress=False)
    told = []
    for health in (0, 1):
        seed = seed_of_guess(card, (ALONE, WORK, health)) if offline else health
        release = card.release(1, seed=seed, progress=False)
        if offline:
            assert release.dataset.codes[0].tolist() == [ALONE, WORK, health]
        old_field = b"\x0a" + bytes([len(release.name)]) + release.name.encode()
        for request in (
            measures_pb2.RunMeasuresRequest(card=release.name, measures=names, request_id=request_id()),
            old_field + measures_pb2.RunMeasuresRequest(request_id=request_id()).SerializeToString(),
        ):
            reason = call(house.channel(person), RUN, request).reason
            told.append(reason)
    with house.analyst(person) as asking:
        told += [answer(asking, card.name, name) for name in names]
    return told


def answer(person, card, name):
    """A measure of the card, or the reason why there is none."""
    try:
        finding = run_measures(person._connection, card, [name], False).findings[name]
    except GencardError as error:
        return error.reason, str(error)
    return finding_to_json_object(finding)


@pytest.fixture
def same_draws(monkeypatch):
    """The controller's own seeds, which nobody knows, are the same in both worlds."""
    monkeypatch.setattr(secrets, "randbits", lambda bits: 2**62 - 57)


def both(folder, policy, person, names, *, offline=True):
    """Return what the attacker sees in the two worlds."""
    found = []
    for healthy in (ALONE, OTHER):
        with world(folder / str(healthy), healthy, policy) as house:
            found.append(attack(house, person, names, offline=offline))
    return found


@pytest.mark.parametrize("person", ["ana", "aud"])
def test_one_row_and_a_question_tell_nothing(tmp_path, same_draws, person):
    """Psi is exact and all may be looked at together; but rows of a release are not looked at."""
    names = ("replicated-uniques",)
    policy = {"measures": '["replicated-uniques"]'}
    first, second = both(tmp_path, policy, person, names)
    assert first[:4] == ["NOT_FOUND", "INVALID_INPUT"] * 2
    assert first == second
    assert isinstance(first[-1], dict)


@pytest.mark.parametrize("person", ["ana", "aud"])
def test_nothing_looks_past_a_forbidden_set(tmp_path, same_draws, person):
    """No caller may see age and health together: measures of all attributes are refused."""
    names = ("replicated-uniques", "tables", "marginals")
    offered = '["replicated-uniques", "tables", "marginals"]'
    policy = {"measures": offered, "forbidden": '[["age", "health"]]'}
    first, second = both(tmp_path, policy, person, names)
    assert first == second
    assert first[4][0] == "RECORDS_PROTECTED"
    assert "forbidden" not in first[4][1]
    pairs = first[5]["pairs"]  # age x work, age x health, work x health
    assert [one is None for one in pairs] == [False, True, False]


def test_the_keys_and_the_target_are_a_table_too(tmp_path, same_draws):
    names = ("disclosure",)
    first, second = both(tmp_path, {"forbidden": '[["age", "health"]]'}, "aud", names)
    assert first == second
    assert first[-1][0] == "RECORDS_PROTECTED"


@pytest.mark.parametrize("person", ["ana", "aud"])
def test_beside_noise_nothing_is_measured(tmp_path, person):
    """rho = 0.01, and no exact counts: an analyst's card names no measure, an auditor is refused."""
    policy = {
        "mechanisms": '["gaussian"]',
        "noise": '{ mechanism = "gaussian", neighbouring = "replace-one", rho = "0.01" }',
    }
    names = ("replicated-uniques", "disclosure", "tables", "marginals")
    first, second = both(tmp_path, policy, person, names, offline=False)
    assert first == second
    reasons = {one[0] for one in first[4:]}
    assert reasons == {"RECORDS_PROTECTED" if person == "aud" else "PERMISSION_DENIED"}


def test_an_auditor_pays_as_everybody_does_and_once(tmp_path):
    with world(tmp_path / "one", ALONE, {"measures": '["replicated-uniques"]'}) as house:
        card = agreed(house, ("replicated-uniques",))
        card.release(5, progress=False)
        with house.analyst("aud") as auditor, house.analyst() as analyst:
            before = auditor.budget("survey").spent.statistics
            first = run_measures(auditor._connection, card.name, ["replicated-uniques"], False)
            assert auditor.budget("survey").spent.statistics == before + 4
            lines = len(analyst.spends())
            for person in (auditor, analyst):
                again = run_measures(person._connection, card.name, ["replicated-uniques"], False)
                assert again == first
            assert auditor.budget("survey").spent.statistics == before + 4
            assert len(analyst.spends()) == lines


def test_uniques_are_taken_out_only_where_the_whole_table_may_be_had(tmp_path):
    """Otherwise a row that is there says of every person of this age that the health is another one."""
    with world(tmp_path / "one", ALONE, {"without_uniques": "true"}) as house, house.analyst() as ana:
        asked = {"purpose": "a test", "rows": 500, "without_uniques": True}
        wide = ana.propose("survey", [("age",), ("work",), ("health",)], **asked)
        assert not wide.terms.without_uniques  # three attributes, and the policy allows two together
        narrow = ana.propose("survey", [("age",), ("health",)], **asked)
        assert narrow.terms.without_uniques
        whole = ana.price("survey", [("age", "health")]).statistics
        assert narrow.price.statistics == whole + 1
    forbidden = {"without_uniques": "true", "forbidden": '[["age", "health"]]'}
    with world(tmp_path / "two", ALONE, forbidden) as house, house.analyst() as ana:
        assert not ana.propose("survey", [("age",), ("health",)], **asked).terms.without_uniques


def test_releases_of_a_card_are_bounded_in_number_and_size(tmp_path):
    limits = {"card_releases": 4, "card_release_mib": 1}
    with world(tmp_path / "one", ALONE, {}, **limits) as house, house.analyst() as ana:
        marginals = [("age",), ("work",), ("health",)]
        asked = {"purpose": "a test", "rows": 100_000}
        many, large = (ana.propose("survey", marginals, **asked).accept() for _ in range(2))
        for seed in range(4):
            many.release(1, seed=seed, progress=False)
        with pytest.raises(TooLargeError, match=r"limits\.card_releases"):
            many.release(1, seed=4, progress=False)
        for seed in range(3):
            large.release(100_000, seed=seed, progress=False)
        with pytest.raises(TooLargeError, match=r"limits\.card_release_mib"):
            large.release(100_000, seed=3, progress=False)
