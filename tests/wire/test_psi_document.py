"""psi as a document: one sequence of bytes for one psi."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.errors import InvalidPsiError
from gencard.wire.psi import psi_document, psi_of_document, stddev_text
from tests.wire.samples import PSI, psis

GOLDEN = (
    '{"attributes":["sex","age"],"measurements":['
    '{"clique":["sex","age"],"counts":["1","0","2","3","4","0"],"stddev":"0"},'
    '{"clique":["age"],"counts":["4","4","2"],"stddev":"0.5"}],'
    '"sizes":["2","3"]}'
)


def agree(one, other):
    assert one.domain == other.domain
    assert one.cliques == other.cliques
    for left, right in zip(one.measurements, other.measurements, strict=True):
        assert left.stddev == right.stddev
        assert left.values.dtype == right.values.dtype == np.int64
        np.testing.assert_array_equal(left.values, right.values)


def test_golden_bytes():
    assert psi_document(PSI).decode() == GOLDEN
    agree(psi_of_document(GOLDEN.encode()), PSI)


@given(psis())
def test_what_is_written_is_read(psi):
    agree(psi_of_document(psi_document(psi)), psi)


@given(st.floats(0, allow_infinity=False))
def test_a_stddev_is_read_as_it_was(stddev):
    assert float(stddev_text(stddev)) == stddev


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"3"]}', '"4"]}'),
        ('"sizes":["2","3"]', '"sizes":["2"]'),
        ('"sizes":["2","3"]', '"sizes":[2,3]'),
        ('"sizes":["2","3"]', '"sizes":["2","03"]'),
        ('"sizes":["2","3"]', '"sizes":["2","99999999"]'),
        ('["sex","age"],"m', '"sa","m'),
        ('["sex","age"],"m', '["sex","sex"],"m'),
        ('"clique":["age"]', '"clique":["region"]'),
        ('"clique":["age"]', '"clique":"age"'),
        ('"clique":["age"]', '"clique":[["age"]]'),
        ('"4","4","2"', '"4","4"'),
        ('"4","4","2"', "4,4,2"),
        ('"4","4","2"', '"4","4","2.0"'),
        ('"4","4","2"', '"4","4"," 2"'),
        ('"4","4","2"', '"4","4","9223372036854775808"'),
        ('"stddev":"0.5"', '"stddev":0.5'),
        ('"stddev":"0.5"', '"stddev":".5"'),
        ('"stddev":"0.5"', '"stddev":"nan"'),
        ('"stddev":"0.5"', '"stddev":"inf"'),
        ('"stddev":"0.5"', '"stddev":"-1.0"'),
        ('"stddev":"0.5"', '"stddev":"half"'),
        ("measurements", "Measurements"),
    ],
)
def test_another_form_is_refused(old, new):
    assert old in GOLDEN
    with pytest.raises(InvalidPsiError):
        psi_of_document(GOLDEN.replace(old, new).encode())


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"attributes":[],"measurements":[],"sizes":[]}'])
def test_garbage_is_refused(data):
    with pytest.raises(InvalidPsiError):
        psi_of_document(data)


def test_more_axes_than_an_array_has_are_refused():
    names = [f"a{number}" for number in range(100)]
    measurement = {"clique": names, "counts": ["1"], "stddev": "0"}
    document = {"attributes": names, "measurements": [measurement], "sizes": ["1"] * 100}
    with pytest.raises(InvalidPsiError):
        psi_of_document(json.dumps(document).encode())
