"""The decorator for authors."""

import subprocess
import sys

import numpy as np
import pytest

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError
from gencard.wire.black_box import AnswerReader, BoxRequest, BoxTask, Table, black_box, bytes_of_request

RECORDS = Dataset(Domain.of({"a": 3, "b": 300}), np.array([[0, 299], [2, 1], [1, 7]]))

SCRIPT = """
from gencard.wire.black_box import black_box

@black_box
def resample(table, rows, *, rng):
    print("no answer")
    return table.dataset.take(rng.integers(len(table), size=rows))

resample.main()
"""


def gives(output):
    return black_box(lambda _table, _rows, *, rng: output)


def test_it_is_a_black_box_as_it_stands():
    @black_box
    def resample(table, rows, *, rng):
        return {name: rng.choice(table.column(name), rows) for name in table.domain.attributes}

    made = resample(RECORDS, 50, seed=1)
    assert made.domain == RECORDS.domain
    assert len(made) == 50
    assert (
        made.digest() == resample(RECORDS, 50, seed=1).digest() != resample(RECORDS, 50, seed=2).digest()
    )


def test_a_script_says_the_same_as_the_function():
    asked = bytes_of_request(BoxRequest(BoxTask.RUN, RECORDS, 20, 5))
    run = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(run, input=asked, capture_output=True, check=True, timeout=240)
    reader = AnswerReader(BoxRequest(BoxTask.RUN, RECORDS, 20, 5), lambda _: None)
    reader.feed(done.stdout)
    here = black_box(lambda table, rows, *, rng: table.dataset.take(rng.integers(len(table), size=rows)))
    assert reader.rows().digest() == here(RECORDS, 20, seed=5).digest()
    for task in (BoxTask.FIT, BoxTask.SAMPLE):
        asked = bytes_of_request(BoxRequest(task, RECORDS, 20, 5))
        assert subprocess.run(run, check=False, input=asked, capture_output=True).stdout == b""


@pytest.mark.parametrize(
    "output",
    [
        None,
        {"a": [0, 1]},
        {"a": [0, 1], "b": [0, 1], "c": [0, 1]},
        {"a": [0, 1], "B": [0, 1]},
        {"a": [0], "b": [0]},
        {"a": [0.5, 1], "b": [0, 1]},
        {"a": [0, 3], "b": [0, 1]},
        {"a": [0, -1], "b": [0, 1]},
        {"a": [0, 1], "b": [0]},
        RECORDS,
        Dataset(Domain.of({"a": 3}), np.array([[0], [1]])),
    ],
)
def test_another_output_is_refused(output):
    with pytest.raises(BlackBoxError):
        gives(output)(RECORDS, 2, seed=0)


def test_a_table_tells_what_is_public():
    table = Table(RECORDS, {"depth": "3"}, (("a", "b"),), {"b": (1.0, 2.0)})
    seen = {}

    @black_box
    def looks(table, rows, *, rng):
        seen.update(table.parameters, workload=table.workload, values=table.values, rng=rng)
        return table.dataset.take(np.arange(rows))

    looks.answer(table, 2, seed=9)
    assert seen.pop("rng").integers(100) == np.random.Generator(np.random.PCG64(9)).integers(100)
    assert seen == {"depth": "3", "workload": (("a", "b"),), "values": {"b": (1.0, 2.0)}}


def test_the_plain_install_is_enough_for_authors():
    look = "import sys, gencard.wire.black_box; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert not loaded & {"sklearn", "torch", "pydantic", "opendp", "grpc", "sqlalchemy"}
