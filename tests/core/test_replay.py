import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidNumberError, VerificationError
from gencard.core.generators.contract import replay, rng_of, synthesise
from gencard.core.generators.family import ipf
from gencard.core.statistics.measure import measure_dataset

DOMAIN = Domain.of({"a": 2, "b": 3})
DATASET = Dataset(DOMAIN, np.array([[0, 0], [0, 1], [1, 2], [1, 1]]))
PSI = measure_dataset(DATASET, [("a", "b")])


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_has_sixty_four_bits(seed):
    with pytest.raises(InvalidNumberError, match="seed"):
        rng_of(seed)


def test_the_stream_is_numpys_pcg64_for_ever():
    assert rng_of(7).bit_generator.random_raw(2).tolist() == [11530976094092348043, 16550673365885938325]


@given(st.integers(0, 2**64 - 1))
def test_the_same_psi_and_seed_give_the_same_bytes(seed):
    release = synthesise(ipf(), PSI, DOMAIN, 50, seed)
    assert replay(ipf(), PSI, DOMAIN, 50, seed, digest=release.digest()).digest() == release.digest()


@pytest.mark.parametrize("change", [{"seed": 8}, {"rows": 49}, {"psi": "other"}])
def test_a_release_from_anything_else_is_found_out(change):
    terms = {"psi": PSI, "rows": 50, "seed": 7} | change
    if terms["psi"] == "other":
        terms["psi"] = measure_dataset(DATASET.take(np.arange(3)), [("a", "b")])
    digest = synthesise(ipf(), terms["psi"], DOMAIN, terms["rows"], terms["seed"]).digest()
    with pytest.raises(VerificationError):
        replay(ipf(), PSI, DOMAIN, 50, 7, digest=digest)
