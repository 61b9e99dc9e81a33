"""Gaps between two groups: by hand, in the words of a schema, and as a measure of a release."""

from itertools import product

import numpy as np
import pytest

from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidInputError, UnknownAttributeError
from gencard.measures.utility.fidelity import Gap, GapWords, gap_error, gap_of, gaps

CODING = Coding(
    (
        Attribute("sex", Labels(("f", "m", "x"))),
        Attribute("job", Labels(("cook", "judge", "none"))),
        Attribute("work", Labels(("full", "part"), missing=True)),
    )
)
WORDS = GapWords("sex", "m", "f", "job", "work", ("full", "missing"))


def drawn(seed, records=200):
    rng = np.random.default_rng(seed)
    domain = CODING.domain
    return Dataset.of_columns(domain, [rng.integers(0, size, records) for size in domain.sizes])


def by_hand(dataset, among):
    found = []
    for job in range(3):
        looked = [sex for sex, where, work in dataset.codes.tolist() if where == job and work in among]
        found.append((looked.count(1) - looked.count(0)) / max(1, len(looked)))
    return np.array(found)


@pytest.mark.parametrize(("among", "codes"), [(("work", (0, 2)), {0, 2}), (None, {0, 1, 2})])
def test_it_is_the_difference_of_shares_in_every_level(among, codes):
    gap = Gap("sex", (1, 0), "job", among)
    one, other = drawn(1), drawn(2)
    np.testing.assert_allclose(gaps(one, gap), by_hand(one, codes))
    error = np.sqrt(np.mean((by_hand(one, codes) - by_hand(other, codes)) ** 2))
    assert gap_error(one, other, gap) == pytest.approx(error)


def test_words_are_codes():
    assert gap_of(WORDS, CODING) == Gap("sex", (1, 0), "job", ("work", (0, 2)))
    assert gap_of(GapWords("sex", "m", "f", "job"), CODING) == Gap("sex", (1, 0), "job")
    assert WORDS.attributes == ("sex", "job", "work")


def test_every_pair_of_levels_has_the_gap_of_the_other_order_with_its_sign():
    for first, second in product("fmx", repeat=2):
        if first != second:
            there = gap_of(GapWords("sex", first, second, "job"), CODING)
            back = gap_of(GapWords("sex", second, first, "job"), CODING)
            np.testing.assert_allclose(gaps(drawn(3), there), -gaps(drawn(3), back))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (GapWords("sex", "m", "m", "job"), InvalidInputError),
        (GapWords("sex", "m", "f", "sex"), InvalidInputError),
        (GapWords("sex", "m", "nobody", "job"), InvalidInputError),
        (GapWords("sex", "m", "f", "job", "work"), InvalidInputError),
        (GapWords("sex", "m", "f", "job", levels=("full",)), InvalidInputError),
        (GapWords("sex", "m", "f", "job", "work", ("often",)), InvalidInputError),
        (GapWords("sex", "m", "f", "town"), UnknownAttributeError),
        (GapWords("age", "m", "f", "job"), UnknownAttributeError),
    ],
)
def test_words_that_mean_nothing(wrong, error):
    with pytest.raises(error):
        gap_of(wrong, CODING)
