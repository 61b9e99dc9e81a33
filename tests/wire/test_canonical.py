"""RFC 8785: its own vectors, and the laws that make a digest mean something."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.errors import InvalidInputError
from gencard.wire.canonical import (
    digest_of,
    document_of,
    integer_of,
    json_bytes,
    sha256,
    text_of,
    texts_of,
    time_of,
    time_text,
)
from tests.wire.samples import seconds, texts

leaves = st.none() | st.booleans() | texts | st.integers(-(2**53) + 1, 2**53 - 1)
documents = st.dictionaries(
    texts,
    st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
    ),
    max_size=4,
)


class TestVectors:
    def test_numbers_strings_and_literals(self):
        """RFC 8785, section 3.2.2."""
        given_text = (
            '{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],'
            ' "string": "\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/",'
            ' "literals": [null, true, false]}'
        )
        expected = (
            '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
            '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
        )
        assert json_bytes(json.loads(given_text)) == expected.encode()

    def test_names_are_sorted_by_utf_16(self):
        """RFC 8785, section 3.2.3."""
        names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\x80", "\u00f6"]
        order = ["\r", "1", "\x80", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
        assert list(json.loads(json_bytes(dict.fromkeys(names, 0)))) == order

    def test_a_digest_by_hand(self):
        assert json_bytes({"b": "1", "a": []}) == b'{"a":[],"b":"1"}'
        assert digest_of({"b": "1", "a": []}) == sha256(b'{"a":[],"b":"1"}')


class TestLaws:
    @given(documents)
    def test_what_is_written_is_read(self, document):
        assert document_of(json_bytes(document), "x") == document

    @given(documents)
    def test_the_bytes_are_the_only_ones(self, document):
        shuffled = dict(reversed(document.items()))
        assert json_bytes(shuffled) == json_bytes(document)
        assert json_bytes(document_of(json.dumps(document).encode(), "x")) == json_bytes(document)

    @given(seconds)
    def test_times(self, time):
        assert time_of(time_text(time)) == time

    @given(st.integers())
    def test_integers(self, number):
        assert integer_of(str(number)) == number


@pytest.mark.parametrize(
    "document", [{"a": "\ud800"}, {"a": 2**53}, {"a": float("nan")}, {"a": float("inf")}, {1: "a"}]
)
def test_what_has_no_form_is_refused(document):
    with pytest.raises(InvalidInputError, match="no canonical form"):
        json_bytes(document)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'"a"',
        b"{",
        b"\xff\xfe{}",
        '{"a": 1}'.encode("utf-16"),
        b'\xef\xbb\xbf{"a": 1}',
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "b": 1}}',
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' + b"9" * 5_000 + b"}",
    ],
)
def test_garbage_is_refused(data):
    with pytest.raises(InvalidInputError, match="thing: is not a JSON object"):
        document_of(data, "thing")


@pytest.mark.parametrize(
    "value", ["", "1.0", " 1", "+1", "01", "-0", "1_000", "٣", "1e3", "x", "9" * 5_000]
)
def test_a_whole_number_has_one_form(value):
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        integer_of(value)


def test_other_types_are_not_strings():
    for read, value in (
        (text_of, 1),
        (text_of, None),
        (integer_of, 1),
        (texts_of, "ab"),
        (texts_of, [1]),
    ):
        with pytest.raises(TypeError):
            read(value)


def test_times_are_written_in_utc():
    assert time_text(datetime.fromisoformat("2026-11-20T19:00:00+01:00")) == "2026-11-20T18:00:00Z"
    assert time_of("2026-11-20T18:00:00Z") == datetime(2026, 11, 20, 18, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("2026-11-20T18:00:00+00:00", "2026-11-20T18:00:00", "2026-11-20 18:00:00Z", "2026-11-20T18Z"),
        *("2026-W47-5T18:00:00Z", "20261120T180000Z", "2026-11-20T18:00:00.5Z", "2026-11-20T18:00Z"),
        "9999-12-31T23:59:59-05:00",  # in UTC, after the last time there is
    ],
)
def test_a_time_has_one_form(text):
    with pytest.raises(ValueError, match="not a time in UTC"):
        time_of(text)
