import numpy as np
import pytest

from gencard.core.domain import Domain
from gencard.core.errors import InvalidPsiError, UnknownAttributeError
from gencard.core.statistics.psi import Measurement, Psi

DOMAIN = Domain.of({"sex": 2, "age": 3})


def psi_of(values, clique=("sex",), stddev=0.0):
    return Psi(DOMAIN, (Measurement(clique, values, stddev),))


@pytest.mark.parametrize(
    ("values", "stddev"),
    [
        (np.array([1, 2, 3]), 0.0),
        (np.array(1), 0.0),
        (np.array([1.0, np.nan]), 0.0),
        (np.array([1.0, np.inf]), 1.0),
        (np.array(["1", "2"]), 0.0),
        (np.array([1, None]), 0.0),
        (np.array([1, 2]), -1.0),
        (np.array([1, 2]), np.nan),
        (np.array([1, 2]), np.inf),
    ],
)
def test_a_psi_that_means_nothing_is_refused(values, stddev):
    with pytest.raises(InvalidPsiError):
        psi_of(values, stddev=stddev)


def test_psi_shows_itself_in_one_line():
    assert repr(psi_of(np.array([1, 2]))) == "<Psi: 2 counts in 1 marginals, 0 sums, exact>"
    assert "with noise" in repr(psi_of(np.array([1.0, 2.0]), stddev=1.0))


def test_an_empty_psi_is_refused():
    with pytest.raises(InvalidPsiError, match="no measurement"):
        Psi(DOMAIN, ())


def test_a_clique_of_psi_is_declared():
    with pytest.raises(UnknownAttributeError):
        psi_of(np.array([1, 2]), clique=("income",))


def test_the_values_are_read_only():
    values = np.array([1, 2])
    with pytest.raises(ValueError, match="read-only"):
        psi_of(values).measurements[0].values[0] = 5
    assert values.flags.writeable


def test_noise_makes_it_inexact():
    assert psi_of(np.array([1, 2])).exact
    assert not psi_of(np.array([1, 2]), stddev=0.5).exact
    assert psi_of(np.zeros((3, 2)), clique=("age", "sex")).cliques == (("age", "sex"),)
