"""The protocol of black boxes: what is said arrives, and an answer has room for nothing but codes."""

import io
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError, InvalidInputError
from gencard.wire import black_box as box_answer
from gencard.wire.black_box import (
    AnswerReader,
    BoxRequest,
    BoxTask,
    bytes_of_request,
    fit_answer,
    longest_answer,
    read_request,
    rows_answer,
)

DOMAIN = Domain.of({"sex": 2, "a,ge\n": 300, "é": 256})
ANSWER = b'{"format":"gencard.box.v1","rows":2}\n' + bytes([0, 1, 1, 0, 43, 1, 255, 0])
"""Codes 0 1 of the first attribute, 1 299 of the second, 255 0 of the third."""


@st.composite
def datasets(draw):
    sizes = draw(st.lists(st.sampled_from([1, 2, 255, 256, 257, 65_536]), min_size=1, max_size=4))
    rows = draw(st.integers(0, 20))
    domain = Domain(tuple(f"x{axis}" for axis in range(len(sizes))), tuple(sizes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = (
        np.stack([rng.integers(0, size, rows) for size in sizes], 1)
        if sizes
        else np.zeros((rows, 0), int)
    )
    return Dataset(domain, codes)


def request(rows=2, task=BoxTask.RUN, **more):
    return BoxRequest(task, Dataset(DOMAIN, np.zeros((3, 3), dtype=int)), rows, 2**64 - 1, **more)


def reader(data, asked=None, told=lambda _: None, step=7):
    """A reader that was fed in small pieces."""
    made = AnswerReader(asked or request(), told)
    for start in range(0, len(data), step):
        made.feed(data[start : start + step])
    return made


class TestRequest:
    @given(datasets(), st.sampled_from(BoxTask), st.integers(0, 2**64 - 1), st.binary())
    def test_what_is_asked_arrives(self, dataset, task, seed, saved):
        saved = saved if task is BoxTask.SAMPLE else b""
        values = {"x0": (1.5, math.nan, -0.0)}
        labels = Labels(("low", "high"), missing=True)
        coding = Coding((Attribute("x0", labels), Attribute("x1", Edges((0, 0.5)))))
        coding = coding if task is BoxTask.ANALYSE else None
        asked = BoxRequest(
            task, dataset, 5, seed, {"depth": "3"}, (("x0", "x1"),), values, saved, coding
        )
        heard = read_request(io.BytesIO(bytes_of_request(asked)))
        assert heard.dataset.digest() == dataset.digest()
        assert (heard.task, heard.rows, heard.seed, heard.saved) == (task, 5, seed, saved)
        assert heard.coding == coding
        assert (heard.parameters, heard.workload) == ({"depth": "3"}, (("x0", "x1"),))
        np.testing.assert_array_equal(heard.values["x0"], values["x0"])

    def test_the_header_is_one_line_for_anybody_to_read(self):
        line, _, codes = bytes_of_request(request(rows=7)).partition(b"\n")
        assert json.loads(line) == {
            "format": "gencard.box.v1",
            "task": "run",
            "attributes": [["sex", 2], ["a,ge\n", 300], ["é", 256]],
            "records": 3,
            "rows": 7,
            "seed": "18446744073709551615",
            "parameters": {},
            "workload": [],
            "values": {},
        }
        assert codes == bytes(3 * (1 + 2 + 1))

    @given(st.data())
    def test_a_request_cut_short_is_refused(self, data):
        whole = bytes_of_request(request())
        cut = data.draw(st.integers(0, len(whole) - 1))
        with pytest.raises(InvalidInputError):
            read_request(io.BytesIO(whole[:cut]))

    @pytest.mark.parametrize(
        "change",
        [
            {"format": "gencard.box.v2"},
            {"task": "leak"},
            {"records": -1},
            {"records": 10**30},
            {"attributes": [["sex", 0]]},
            {"attributes": {"sex": 2}},
            {"seed": "one"},
            {"values": {"sex": 3}},
            {"more": 1},
        ],
    )
    def test_another_request_is_refused(self, change):
        line, _, codes = bytes_of_request(request()).partition(b"\n")
        with pytest.raises(InvalidInputError):
            read_request(io.BytesIO(json.dumps(json.loads(line) | change).encode() + b"\n" + codes))


class TestAnswer:
    @given(datasets(), st.integers(1, 50))
    def test_rows_arrive_in_any_pieces(self, dataset, step):
        asked = BoxRequest(BoxTask.RUN, dataset, len(dataset), 0)
        answer = rows_answer(dataset)
        assert reader(answer, asked, step=step).rows().digest() == dataset.digest()
        assert len(answer) <= longest_answer(asked, 0)

    def test_it_is_these_bytes(self):
        made = Dataset(DOMAIN, np.array([[0, 1, 255], [1, 299, 0]]))
        assert rows_answer(made) == ANSWER
        np.testing.assert_array_equal(reader(ANSWER).rows().codes, made.codes)

    @pytest.mark.parametrize(
        "line",
        [
            b'{"format":"gencard.box.v1","rows":2.0}',  # digits
            b'{"format":"gencard.box.v1","rows":02}',
            b'{"format":"gencard.box.v1","rows":2e0}',
            b'{"format":"gencard.box.v1", "rows":2}',  # spaces
            b'{"format":"gencard.box.v1","rows":2} ',
            b'{"rows":2,"format":"gencard.box.v1"}',  # order
            b'{"format":"Gencard.box.v1","rows":2}',  # spelling
            b'{"format":"gencard.box.v1","Rows":2}',
            b'{"format":"gencard.box.v1","rows":3}',  # number of rows
            b'{"format":"gencard.box.v1","rows":2,"rows":2}',
            b'{"format":"gencard.box.v1","more":"Ann Smith","rows":2}',  # names of its own
            b'{"attributes":["a,ge\\n","sex"],"format":"gencard.box.v1","rows":2}',
            b"",
        ],
    )
    def test_s30_nothing_hides_in_the_line(self, line):
        codes = ANSWER.partition(b"\n")[2]
        with pytest.raises(BlackBoxError):
            reader(line + b"\n" + codes).rows()

    @pytest.mark.parametrize("more", [b"\0", b"\n", b"Ann Smith", bytes(8), bytes(2)])
    def test_s30_nothing_follows_the_codes(self, more):
        """More attributes, more rows, or words."""
        with pytest.raises(BlackBoxError):
            reader(ANSWER + more).rows()
        with pytest.raises(BlackBoxError):
            reader(ANSWER[: -len(more)]).rows()

    @given(st.integers(ANSWER.index(b"\n") + 1, len(ANSWER) - 1), st.integers(0, 255))
    def test_s30_a_byte_is_a_declared_code_or_refused(self, place, byte):
        changed = ANSWER[:place] + bytes([byte]) + ANSWER[place + 1 :]
        try:
            made = reader(changed).rows()
        except BlackBoxError:
            return
        assert rows_answer(made) == changed  # there is one way to say it

    def test_s34_the_first_byte_too_many_is_refused(self):
        """Before the end of the output, which may never come."""
        right = AnswerReader(request(rows=2), lambda _: None)
        right.feed(ANSWER)
        with pytest.raises(BlackBoxError, match="too long"):
            right.feed(b"x")
        fit = AnswerReader(request(task=BoxTask.FIT), lambda _: None, most_saved=3)
        fit.feed(fit_answer(b"fit"))
        with pytest.raises(BlackBoxError, match="too long"):
            fit.feed(b"x")
        with pytest.raises(BlackBoxError, match="no valid header"):
            AnswerReader(request(task=BoxTask.FIT), lambda _: None, most_saved=2).feed(
                fit_answer(b"fit")
            )

    def test_a_fit_arrives(self):
        assert reader(fit_answer(b"a\nfit"), request(task=BoxTask.FIT)).saved() == b"a\nfit"
        with pytest.raises(BlackBoxError):
            reader(fit_answer(b"a fit") + b"!").saved()

    def test_a_long_first_line_is_not_kept(self):
        with pytest.raises(BlackBoxError):
            reader(b"x" * 5_000)

    def test_an_answer_that_never_comes_is_none(self):
        for data in (b"", b'{"format"'):
            with pytest.raises(BlackBoxError):
                reader(data).rows()


class TestProgress:
    def test_it_is_told_before_the_answer(self):
        told = []
        lines = b"".join(map(box_answer.progress_line, (0, 33, 100)))
        assert len(reader(lines + ANSWER, told=told.append).rows()) == 2
        assert told == [0, 33, 100]

    @pytest.mark.parametrize("said", [b"33.5", b"033", b"-1", b"101", b'"33"', b"", b"33 "])
    def test_anything_else_is_refused(self, said):
        with pytest.raises(BlackBoxError):
            reader(b'{"done":' + said + b"}\n" + ANSWER)

    def test_it_rises(self):
        with pytest.raises(BlackBoxError):
            reader(box_answer.progress_line(5) * 2 + ANSWER)


def test_a_refusal_is_read_and_nothing_else_is_one():
    said = box_answer.refusal_answer("TOO_LARGE", {"what": "cells"})
    assert reader(said).refusal() == ("TOO_LARGE", {"what": "cells"})
    assert reader(ANSWER).refusal() is None
    with pytest.raises(BlackBoxError, match="too long"):
        reader(said + b"x")
    with pytest.raises(BlackBoxError):
        reader(said).rows()
