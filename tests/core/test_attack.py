"""Attacks beside their baselines: singling out, linkability, inference."""

import json
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom

from gencard.core.errors import (
    ComputationError,
    DomainMismatchError,
    InvalidCliqueError,
    InvalidDatasetError,
    InvalidNumberError,
    UnknownAttributeError,
)
from gencard.measures.privacy.attacks import (
    Attack,
    Proportion,
    Tables,
    drawn,
    inference,
    linkability,
    singling_out,
)
from gencard.measures.privacy.distances import Gower, Missing, Records, gower_of
from tests.core.mixed import NUMERIC, tables
from tests.core.mixed import adult as files
from tests.core.oracles import read
from tests.core.populations import copied, records
from tests.shared_data import oracle_file

SIDES = (
    ("age", "work_class", "education", "marital_status", "capital_gain"),
    ("occupation", "relationship", "race", "sex", "hours_per_week"),
)


# Proportions and risks -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def peer():
    return json.loads(oracle_file("metrics/anonymeter_adult5000.json").read_text())


@pytest.mark.shared
def test_another_program_has_the_same_intervals(peer):
    for case in peer["wilson_success_rate"]:
        found = Proportion(case["k"], case["n"])
        middle, width = found.wilson(case["confidence"])
        assert (middle, width) == pytest.approx((case["rate"], case["error"]), abs=1e-12)
        assert found.interval(case["confidence"]) == pytest.approx(
            (max(0, middle - width), min(1, middle + width)), abs=1e-15
        )


@pytest.mark.shared
def test_another_program_has_the_same_risks(peer):
    for case in peer["residual_risk_95"]:
        rates = (Proportion(case[name], case["n"]) for name in ("n_success", "n_control"))
        risk = Attack(*rates, Proportion(0, 1)).risk()
        assert risk.estimate == pytest.approx(case["risk"], abs=1e-12)
        assert (risk.low, risk.high) == pytest.approx(case["ci"], abs=1e-12)


@pytest.mark.parametrize("share", [0.001, 0.02, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("attempts", [50, 500])
def test_wilson_covers(share, attempts):
    """The exact probability that the interval holds the share, summed over all counts."""
    counts = np.arange(attempts + 1)
    held = [low <= share <= high for low, high in (Proportion(k, attempts).interval() for k in counts)]
    assert binom.pmf(counts, attempts, share)[held].sum() > 0.9


def test_wilson_covers_on_average():
    shares = np.linspace(0.0005, 0.9995, 1000)
    edges = np.array([Proportion(k, 100).interval(0.9) for k in range(101)])
    held = (edges[:, :1] <= shares) & (shares <= edges[:, 1:])
    cover = (binom.pmf(np.arange(101)[:, None], 100, shares) * held).sum(axis=0)
    assert cover.mean() == pytest.approx(0.9, abs=0.01)


@given(st.integers(1, 1000), st.data())
def test_intervals_hold_what_was_found(attempts, data):
    successes = data.draw(st.integers(0, attempts))
    found, failed = Proportion(successes, attempts), Proportion(attempts - successes, attempts)
    low, high = found.interval()
    assert 0 <= low <= found.share + 1e-15
    assert found.share - 1e-15 <= high <= 1
    assert failed.interval() == pytest.approx((1 - high, 1 - low), abs=1e-12)
    wide = found.interval(0.999)
    assert wide[0] - 1e-15 <= low < high <= wide[1] + 1e-15


@given(*[st.integers(0, 40)] * 3)
def test_risks_are_shares(hits, base, lucky):
    attack = Attack(*(Proportion(count, 40) for count in (hits, base, lucky)))
    risk = attack.risk()
    assert 0 <= risk.low <= risk.estimate <= risk.high <= 1
    assert (risk.estimate > 0) == (hits > base)
    if attack.beats_random_guessing():
        assert hits > lucky


def test_where_control_is_always_right_nothing_is_left_to_gain():
    risk = Attack(Proportion(300, 300), Proportion(300, 300), Proportion(3, 300)).risk()
    assert (risk.estimate, risk.low, risk.high) == (0, 0, 1)


# The attacks -----------------------------------------------------------------------------------


def made(tables, rng):
    """All three attacks on tables of ``population``, 300 targets each."""
    gower = gower_of(tables.train, tables.holdout)
    sides = (("a0", "a2"), ("a1", "a3"))
    return {
        "singling out": singling_out(tables, attacks=300, rng=rng),
        "portraits": singling_out(tables, width=3, attacks=300, rng=rng),
        "linkability": linkability(tables, gower, sides, attacks=300, count=3, rng=rng),
        "level": inference(tables, gower, "a3", attacks=300, rng=rng),
        "number": inference(tables, gower, "a1", attacks=300, rng=rng),
    }


def test_copies_are_found():
    rng = np.random.default_rng(3)
    for name, found in made(copied(rng, 1.0), rng).items():
        assert found.risk().low > 0.4, name
        assert found.beats_random_guessing(), name
    for name, found in made(copied(rng, 0.5), rng).items():
        assert 0 < found.risk(0.9).low < found.risk(0.9).high < 0.8, name


def test_an_honest_generator_is_not_convicted():
    """The interval of the gain is above 0 in few of 50 attacks."""
    rng = np.random.default_rng(4)
    found = [
        risk.risk(0.9).low > 0 for _ in range(10) for risk in made(copied(rng, 0, 300), rng).values()
    ]
    assert sum(found) <= 6


def test_the_same_seed_gives_the_same_attack():
    tables = copied(np.random.default_rng(5), 0.3)
    one, other, third = (made(tables, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one == other != third


def test_position_links_nothing():
    """Constant attributes tie all records; each side takes some at random, and luck does the same."""
    constant = records(np.zeros(100, int), np.zeros(100, int))
    tables = Tables(constant, *[records(*np.zeros((2, 2000), int))] * 2)
    found = linkability(
        tables, gower_of(constant), (("a0",), ("a1",)), attacks=2000, count=5,
        rng=np.random.default_rng(6),
    )  # fmt: skip
    chance = 1 - comb(95, 5) / comb(100, 5)
    for each in (found.attack, found.control, found.naive):
        assert each.share == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / 2000))


def test_all_neighbours_link_all():
    rng = np.random.default_rng(7)
    tables = copied(rng, 0, 20)
    sides = (("a0",), ("a1",))
    found = linkability(tables, gower_of(tables.train), sides, attacks=20, count=20, rng=rng)
    assert [each.share for each in (found.attack, found.control, found.naive)] == [1, 1, 1]


def test_numbers_are_guessed_within_the_tolerance_of_their_size():
    """Guesses of -100, for truths from -110 to 100: negative numbers and 0 are like any others."""
    known, truths = np.zeros(6, int), np.array([-110.0, -104, -100, -96, 0, 100])
    synthetic = Records(("k", "s"), (np.zeros(1, int), np.array([-100.0])))
    train = Records(("k", "s"), (known, truths))
    tables, gower = Tables(synthetic, train, train), gower_of(train)
    for tolerance, right in ((0, 1), (0.04, 2), (0.05, 3), (0.1, 4), (1, 4)):
        found = inference(
            tables, gower, "s", tolerance=tolerance, attacks=6, rng=np.random.default_rng(0)
        )
        assert [each.successes for each in (found.attack, found.control, found.naive)] == [right] * 3


def test_only_who_has_a_secret_is_attacked():
    synthetic = records(np.arange(4), np.array([0, 1, -1, -1]))
    real = records(np.array([0, 1, 2, 3, 3]), np.array([0, 1, 0, -1, -1]))
    tables, gower, rng = Tables(synthetic, real, real), gower_of(real), np.random.default_rng(0)
    found = inference(tables, gower, "a1", attacks=3, rng=rng)
    assert (found.attack.successes, found.attack.attempts) == (2, 3)
    with pytest.raises(InvalidNumberError):
        inference(tables, gower, "a1", attacks=4, rng=rng)


def test_what_cannot_be_compared_is_guessed_by_luck():
    synthetic = records(np.array([0, 0]), np.array([0, 1]))
    real = records(np.full(2000, -1), np.zeros(2000, int))
    gower = gower_of(synthetic, missing=Missing.PAIRWISE)
    tables, rng = Tables(synthetic, real, real), np.random.default_rng(8)
    found = inference(tables, gower, "a1", attacks=2000, rng=rng)
    assert found.attack.share == pytest.approx(0.5, abs=0.05)
    linked = linkability(tables, gower, (("a0",), ("a1",)), attacks=9, count=2, rng=rng)
    assert linked.attack.successes == 0


def test_conditions_are_tried_on_tables_of_one_size():
    """Each of 300 levels once in one table and ten times in the other, of which a tenth is drawn."""
    once, often = records(np.arange(300)), records(np.repeat(np.arange(300), 10))
    alone = hypergeom.pmf(1, 3000, 10, 300)
    for train, holdout, expected in ((once, often, (1, alone)), (often, once, (alone, 1))):
        tables = Tables(once, train, holdout)
        found = singling_out(tables, attacks=300, rng=np.random.default_rng(9))
        assert found.attack.attempts == found.control.attempts == found.naive.attempts == 300
        assert (found.attack.share, found.control.share) == pytest.approx(expected, abs=0.12)


def test_guesses_differ():
    one = records([0, 1], [0, 1])
    found = singling_out(Tables(one, one, one), width=2, attacks=50, rng=np.random.default_rng(0))
    assert (found.attack.successes, found.attack.attempts) == (2, 2)


def test_fewer_outliers_make_fewer_guesses():
    one = records(np.array([0, 0, 1]))
    found = singling_out(Tables(one, one, one), attacks=50, rng=np.random.default_rng(0))
    assert (found.attack.successes, found.attack.attempts) == (1, 1)
    none = records(np.array([0, 0]))
    for width, table in ((1, none), (2, records([0, 0], [1, 1]))):
        with pytest.raises(ComputationError):
            singling_out(
                Tables(table, table, table), width=width, attacks=5, rng=np.random.default_rng(0)
            )


# Beside another program ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def adult():
    """The first 5,000 records of each table, a missing level being a level, as that program had them."""
    parts = [
        read(f"metrics/adult_clearbox_{part}.csv")[:5000] for part in ("synthetic", "train", "holdout")
    ]
    rows = [[[value or "NA" for value in row.values()] for row in file] for file in parts]
    return Tables(*tables(tuple(parts[0][0]), NUMERIC, *rows))


def agrees(found, counts, attempts):
    """Return whether a count differs from the other program's counts by 4 standard errors at most."""
    shares = [(found.share + count / attempts) / 2 for count in counts]
    spreads = [np.sqrt(p * (1 - p) * (1 / attempts + 1 / found.attempts)) for p in shares]
    return all(
        abs(found.share - count / attempts) <= 4 * spread
        for count, spread in zip(counts, spreads, strict=True)
    )


def counts_of(peer, kind, name, **params):
    return [
        run[name]
        for run in peer["runs"]
        if run["kind"] == kind and params.items() <= run["params"].items()
    ]


@pytest.mark.shared
@pytest.mark.parametrize("secret", ["income", "occupation", "age"])
def test_inference_beside_another_program(peer, adult, secret):
    """The other program loses nearly all naive guesses; ours succeed as often as two records agree."""
    gower = gower_of(adult.train, adult.holdout)
    found = inference(adult, gower, secret, attacks=500, rng=np.random.default_rng(10))
    assert agrees(found.attack, counts_of(peer, "inference", "n_success", secret=secret), 500)
    assert agrees(found.control, counts_of(peer, "inference", "n_control", secret=secret), 500)
    column = [table.columns[table.attributes.index(secret)] for table in (adult.synthetic, adult.train)]
    if secret != "age":
        one, other = (np.bincount(codes, minlength=100) / len(codes) for codes in column)
        assert found.naive.share == pytest.approx(float(one @ other), abs=0.09)
        assert not agrees(found.naive, counts_of(peer, "inference", "n_baseline", secret=secret), 500)


@pytest.mark.shared
def test_linkability_beside_another_program(peer, adult):
    """The other program breaks ties by position on both sides, so it may link more; luck is the same."""
    gower = gower_of(adult.train, adult.holdout)
    rng = np.random.default_rng(11)
    found = linkability(adult, gower, SIDES, attacks=500, count=5, rng=rng)
    assert agrees(found.attack, counts_of(peer, "linkability", "n_success"), 500)
    assert agrees(found.control, counts_of(peer, "linkability", "n_control"), 500)
    assert agrees(found.naive, counts_of(peer, "linkability", "n_baseline"), 500)


@pytest.mark.shared
@pytest.mark.parametrize(("kind", "width"), [("univariate", 1), ("multivariate", 4)])
def test_singling_out_beside_another_program(peer, adult, kind, width):
    found = singling_out(adult, width=width, attacks=300, rng=np.random.default_rng(12))
    assert agrees(found.attack, counts_of(peer, f"singling_out/{kind}", "n_success"), 300)
    assert agrees(found.control, counts_of(peer, f"singling_out/{kind}", "n_control"), 300)


@pytest.mark.shared
def test_a_leak_singles_out():
    """Adult, 32,561 records, most synthetic ones being copies."""
    leak = Tables(*files(*(f"adult_clearbox_{part}.csv" for part in ("synthetic", "train", "holdout"))))
    found = singling_out(leak, width=6, attacks=150, rng=np.random.default_rng(15))
    assert found.risk().low > 0.05
    assert found.beats_random_guessing()


# Bad input -------------------------------------------------------------------------------------


def test_bad_numbers_are_refused():
    for counts in ((0, 0), (-1, 3), (4, 3)):
        with pytest.raises(InvalidNumberError):
            Proportion(*counts)
    half = Proportion(1, 2)
    for confidence in (0, 1, np.nan):
        for method in (half.interval, Attack(half, half, half).risk):
            with pytest.raises(InvalidNumberError):
                method(confidence)


def test_bad_tables_are_refused():
    one, none, other = records([0, 1]), records(np.zeros(0, int)), records([0], [0])
    for place in range(3):
        for bad, error in ((none, InvalidDatasetError), (other, DomainMismatchError)):
            with pytest.raises(error):
                Tables(*(bad if place == each else one for each in range(3)))
    tables, gower, rng = Tables(one, one, one), gower_of(other), np.random.default_rng(0)
    with pytest.raises(DomainMismatchError):
        inference(tables, gower, "a0", attacks=1, rng=rng)
    with pytest.raises(DomainMismatchError):
        linkability(tables, gower, (("a0",), ("a1",)), attacks=1, count=1, rng=rng)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"secret": "b"}, UnknownAttributeError),
        ({"tolerance": -0.1}, InvalidNumberError),
        ({"tolerance": np.nan}, InvalidNumberError),
        ({"attacks": 0}, InvalidNumberError),
        ({"attacks": 4}, InvalidNumberError),
    ],
)
def test_bad_inference_is_refused(change, error):
    one = records([0, 1, 2], [0, 1, 2], [0, 1, 2])
    gower = Gower(one.attributes, (None, None, None), (1.0, 1.0, 0.0))
    asked = {"secret": "a1", "attacks": 2, "rng": np.random.default_rng(0)} | change
    with pytest.raises(error):
        inference(Tables(one, one, one), gower, **asked)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"sides": (("a0",), ("b",))}, UnknownAttributeError),
        ({"sides": (("a0",), ())}, InvalidCliqueError),
        ({"sides": (("a0", "a0"), ("a1",))}, InvalidCliqueError),
        ({"sides": (("a0",), ("a1", "a0"))}, InvalidCliqueError),
        ({"count": 0}, InvalidNumberError),
        ({"count": 4}, InvalidNumberError),
        ({"attacks": 0}, InvalidNumberError),
        ({"attacks": 4}, InvalidNumberError),
    ],
)
def test_bad_linkability_is_refused(change, error):
    one = records([0, 1, 2], [0, 1, 2])
    asked = {"sides": (("a0",), ("a1",)), "attacks": 2, "count": 1} | change
    with pytest.raises(error):
        linkability(Tables(one, one, one), gower_of(one), rng=np.random.default_rng(0), **asked)


@pytest.mark.parametrize("change", [{"width": 0}, {"width": 3}, {"attacks": 0}])
def test_bad_singling_out_is_refused(change):
    one = records([0, 1, 2], [0, 1, 2])
    asked = {"attacks": 2, "rng": np.random.default_rng(0)} | change
    with pytest.raises(InvalidNumberError):
        singling_out(Tables(one, one, one), **asked)


def test_targets_are_different_records():
    table = records(np.arange(50))
    found = drawn(table, 20, np.random.default_rng(0)).columns[0]
    assert len(set(found.tolist())) == 20
