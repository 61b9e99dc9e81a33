"""One table of bad and strange input over all measures: a typed error, or the right value."""

from dataclasses import dataclass

import numpy as np
import pytest

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    DomainMismatchError,
    InvalidDatasetError,
    InvalidInputError,
    InvalidNumberError,
    TooLargeError,
)
from gencard.measures.privacy.attacks import Tables, inference, linkability, singling_out
from gencard.measures.privacy.canaries import reconstruct_cells
from gencard.measures.privacy.dcr import equal_share
from gencard.measures.privacy.disclosure import disclosure_risk, replicated_uniques
from gencard.measures.privacy.distances import Missing, Records, gower_of
from gencard.measures.privacy.nearest import nearest
from gencard.measures.utility.fidelity import Gap, gap_error
from gencard.measures.utility.propensity import regression_propensity, tree_propensity
from gencard.measures.utility.table_utility import marginal_error, mean_measure, table_utilities
from tests.core.mixed import closer, half_ties, membership

NAMES = ("a", "b")


def rng():
    return np.random.default_rng(0)


# Coded records ----------------------------------------------------------------------------------

BY_CODES = {
    "table utility": lambda one, other: table_utilities(one, other, 1)[("a",)].voas_williamson,
    "mean table utility": lambda one, other: mean_measure(
        table_utilities(one, other, 2).values(), "S_pMSE"
    ),
    "marginal error": lambda one, other: marginal_error(one, other, NAMES),
    "regression": lambda one, other: regression_propensity(one, other, {}, order=1).pmse,
    "tree": lambda one, other: tree_propensity(one, other, {}, rng=rng(), permutations=1).pmse,
    "uniques": lambda one, other: float(replicated_uniques(one, other).replicated),
    "disclosure": lambda one, other: disclosure_risk(one, other, ("a",), "b").attribute.correct,
    "canaries": lambda one, other: reconstruct_cells(one, other).nu,
}
"""Each returns 0 where two datasets agree and hold no unique, but for what is told of everybody."""


def coded(sizes, rows):
    return Dataset(Domain(NAMES, sizes), np.array(rows, int).reshape(-1, 2))


def expected(name, value, uniques=0.0, told=0.0):
    return {"uniques": uniques, "disclosure": told}.get(name, value)


@pytest.mark.parametrize("name", BY_CODES)
class TestCodes:
    def test_other_attributes_are_refused(self, name):
        one, other = coded((2, 3), [[0, 0]] * 4), coded((3, 2), [[0, 0]] * 4)
        with pytest.raises(DomainMismatchError):
            BY_CODES[name](one, other)
        with pytest.raises(DomainMismatchError):
            BY_CODES[name](one, Dataset(Domain(("b", "a"), (2, 3)), one.codes))

    def test_no_record_is_refused_or_counted_as_none(self, name):
        some, none = coded((2, 3), [[0, 0]] * 4), coded((2, 3), [])
        for pair in ((some, none), (none, some), (none, none)):
            if name == "uniques":
                assert BY_CODES[name](*pair) == 0
            else:
                with pytest.raises(InvalidInputError):
                    BY_CODES[name](*pair)

    def test_one_record_and_its_copy(self, name):
        one = coded((2, 3), [[1, 2]])
        if name == "mean table utility":
            assert BY_CODES[name](one, one) is None
            return
        assert BY_CODES[name](one, one) == pytest.approx(expected(name, 0, uniques=1, told=1), abs=1e-9)

    def test_constant_attributes(self, name):
        """Constant records, and attributes that can hold one level only."""
        for sizes in ((1, 1), (5, 5)):
            one, other = (coded(sizes, [[0, 0]] * rows) for rows in (7, 9))
            if name == "mean table utility":
                assert BY_CODES[name](one, other) is None
                continue
            assert BY_CODES[name](one, other) == pytest.approx(expected(name, 0, told=7), abs=1e-9)

    def test_six_hundred_levels_are_told_apart(self, name):
        """Codes 0 and 256 are one where somebody counts in bytes."""
        rows = np.repeat(np.arange(600), 2)
        one = coded((600, 600), np.stack([rows, rows], axis=1))
        far = coded((600, 600), np.stack([(rows + 256) % 600, rows], axis=1))
        if name == "regression":
            with pytest.raises(TooLargeError):
                BY_CODES[name](one, far)
            return
        assert BY_CODES[name](one, one) == pytest.approx(expected(name, 0, told=1200), abs=1e-9)
        moved = {
            "table utility": 0.0,  # each level is as frequent
            "mean table utility": None,
            "marginal error": np.sqrt(1200 / 600**2) / 600,
            "tree": None,
            "uniques": 0.0,
            "disclosure": 0.0,
            "canaries": 1200.0,
        }[name]
        if moved is not None:
            assert BY_CODES[name](one, far) == pytest.approx(moved, abs=1e-9)

    def test_levels_that_one_side_alone_has(self, name):
        """The sides have no level in common: they are as far apart as each measure goes."""
        one, other = coded((4, 4), [[0, 0], [1, 1]] * 50), coded((4, 4), [[2, 2], [3, 3]] * 50)
        most = {
            "table utility": 2 * 4 * 50,
            "mean table utility": None,
            "marginal error": np.sqrt(4 * 0.25 / 16),
            "regression": 0.25,
            "tree": 0.25,
            "uniques": 0,
            "disclosure": 0,
            "canaries": 200,
        }[name]
        if most is not None:
            assert BY_CODES[name](one, other) == pytest.approx(most, rel=1e-3, abs=1e-9)


def test_gaps_of_no_record_and_of_constant_attributes():
    gap = Gap("a", (0, 1), "b", ("c", (0,)))
    domain = Domain(("a", "b", "c"), (2, 3, 2))
    none, same, far = (Dataset(domain, np.array([[code, 0, 0]] * 3)) for code in (0, 0, 1))
    none = none.take(np.arange(0))
    assert gap_error(none, none, gap) == gap_error(same, same, gap) == 0
    assert gap_error(same, far, gap) == pytest.approx(np.sqrt(4 / 3))
    assert gap_error(none, none, gap, fewest=1) is gap_error(same, none, gap, fewest=1) is None
    assert gap_error(same, far, gap, fewest=1) == 2
    assert gap_error(same, far, gap, fewest=4) is None
    with pytest.raises(DomainMismatchError):
        gap_error(same, same.project(("a", "b")), gap)


# Numbers and levels -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Three:
    """Synthetic records, train and holdout."""

    synthetic: Records
    train: Records
    holdout: Records

    @property
    def gower(self):
        return gower_of(self.train, self.holdout)

    @property
    def tables(self):
        return Tables(self.synthetic, self.train, self.holdout)


BY_RECORDS = {
    "dcr": lambda t: half_ties(closer(t.synthetic, t.train, t.holdout, t.gower)),
    "equal share": lambda t: (
        equal_share(t.synthetic, t.train, t.holdout, t.gower, draws=2, rng=rng()).share
    ),
    "membership": lambda t: membership(t.tables, t.gower).area,
    "singling out": lambda t: singling_out(t.tables, width=2, attacks=5, rng=rng()).attack.share,
    "linkability": lambda t: (
        linkability(t.tables, t.gower, (("a",), ("b",)), attacks=1, count=1, rng=rng()).attack.share
    ),
    "inference": lambda t: inference(t.tables, t.gower, "b", attacks=1, rng=rng()).attack.share,
}
MAY_FIND_NOTHING = ("singling out",)
"""Attacks that end in an error, not in a share of 0, if they single out no record."""


def mixed(numbers, levels):
    return Records(NAMES, (np.array(numbers, float), np.array(levels, int)))


def value(name, three):
    try:
        return BY_RECORDS[name](three)
    except Exception as error:
        if name in MAY_FIND_NOTHING and type(error).__name__ == "ComputationError":
            return 0.0
        raise


@pytest.mark.parametrize("name", BY_RECORDS)
class TestRecords:
    def test_other_attributes_are_refused(self, name):
        one = mixed([0.0, 1.0], [0, 1])
        for other in (
            Records(("a", "c"), one.columns),
            Records(("b", "a"), one.columns[::-1]),
            Records(NAMES, (np.array([0, 1]), np.array([0, 1]))),
            one.project(("a",)),
        ):
            for three in (Three(other, one, one), Three(one, other, one), Three(one, one, other)):
                with pytest.raises(DomainMismatchError):
                    BY_RECORDS[name](three)

    def test_no_record_is_refused(self, name):
        one, none = mixed([0.0, 1.0], [0, 1]), mixed([], [])
        for three in (Three(none, one, one), Three(one, none, one), Three(one, one, none)):
            with pytest.raises(InvalidDatasetError):
                BY_RECORDS[name](three)

    def test_one_record_each(self, name):
        """A copy of the one in train; the one in holdout differs in all."""
        three = Three(mixed([1.0], [2]), mixed([1.0], [2]), mixed([5.0], [3]))
        assert value(name, three) == 1.0

    def test_all_is_missing(self, name):
        """Missing is a value like others, but nobody is asked for a secret that there is not."""
        gone = mixed([np.nan] * 3, [-1] * 3)
        three = Three(gone, gone, gone)
        if name == "inference":
            with pytest.raises(InvalidNumberError):
                value(name, three)
        else:
            expected = {"singling out": 0.0, "linkability": None}.get(name, 0.5)
            assert expected is None or value(name, three) == expected
            assert 0 <= value(name, three) <= 1

    def test_all_is_constant(self, name):
        """All distances are equal, and every record's secret is known."""
        three = Three(*(mixed([3.0] * rows, [1] * rows) for rows in (4, 3, 5)))
        expected = {"singling out": 0.0, "inference": 1.0, "linkability": None}.get(name, 0.5)
        found = value(name, three)
        assert expected is None or found == expected

    def test_levels_that_train_does_not_have(self, name):
        three = Three(
            mixed([1.0] * 3, [7, 8, 9]), mixed([1.0] * 3, [0, 1, 2]), mixed([1.0] * 3, [3] * 3)
        )
        expected = {"singling out": 0.0, "inference": 0.0, "linkability": None}.get(name, 0.5)
        found = value(name, three)
        assert expected is None or found == expected

    def test_six_hundred_levels(self, name):
        """256 levels on, a copy is none."""
        levels = np.arange(600)
        three = Three(
            mixed(np.zeros(300), levels[:300]),
            mixed(np.zeros(300), levels[:300]),
            mixed(np.zeros(300), levels[300:]),
        )
        far = Three(three.synthetic, three.holdout, three.train)
        found, swapped = value(name, three), value(name, far)
        assert 0 <= swapped <= found <= 1
        if name in ("dcr", "equal share", "membership"):
            assert (found, swapped) == (1.0, 0.0)

    @pytest.mark.filterwarnings("error")
    def test_numbers_as_large_as_they_may_be(self, name):
        """Distances neither overflow nor lose what is between."""
        big = 2.0**1022
        copy, other = mixed([big, -big, 5.0], [0, 1, 2]), mixed([0.0, big / 2, -big / 2], [3, 4, 5])
        assert value(name, Three(copy, copy, other)) >= value(name, Three(copy, other, copy))
        for wrong in (np.inf, -np.inf, 2.0**1023):
            with pytest.raises(InvalidDatasetError):
                mixed([wrong], [0])


@pytest.mark.parametrize("missing", Missing)
@pytest.mark.parametrize("scale", [2.0**1022, 1.0, 5e-324])
def test_scale_changes_no_nearest_record(missing, scale):
    """From the largest numbers to the smallest that floats hold."""
    numbers = np.array([0, 1, 0.5, np.nan, 1])
    levels = [0, 0, 1, 1, -1]
    plain, scaled = mixed(numbers, levels), mixed(numbers * scale, levels)
    if scale == 5e-324:
        plain = mixed(np.round(numbers / 2) * 2, levels)  # there is nothing between
        scaled = mixed(np.round(numbers / 2) * 2 * scale, levels)
    found, same = (
        nearest(table, table.take(np.array([1, 2, 3])), gower_of(table, missing=missing))
        for table in (plain, scaled)
    )
    np.testing.assert_allclose(found.distance, same.distance, atol=1e-12)
    np.testing.assert_array_equal(found.position, same.position)


def test_six_hundred_levels_have_as_many_clones_as_copies():
    """Two of these are copies; codes modulo 256 would find more."""
    real = Records(("a",), (np.arange(256),))
    synthetic = Records(("a",), (np.array([3, 255, 259, 511, 599]),))
    found = nearest(synthetic, real, gower_of(real))
    assert np.sum(found.distance == 0) == 2
