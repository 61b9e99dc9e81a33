"""Typed JSON: what is written is read, and nothing else is."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from operator import getitem
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.errors import InvalidInputError
from gencard.core.json_codecs import written
from gencard.core.typed_json import INTEGER_TEXT, PAIRS_AS_OBJECT, PLAIN


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Circle:
    radius: float
    kind: str = field(default="circle", init=False, metadata=written("type"))


@dataclass(frozen=True, slots=True)
class Square:
    side: int
    kind: str = field(default="square", init=False, metadata=written("type"))


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    shape: Circle | Square
    frame: Circle | Square = field(metadata=written(inline=True))
    seed: int = field(metadata=written("made.seed", scalar=INTEGER_TEXT))
    date: str = field(metadata=written("made.date"))
    colours: tuple[Colour, ...]
    size: tuple[int, float]
    versions: tuple[tuple[str, str], ...] = field(metadata=written(scalar=PAIRS_AS_OBJECT))
    notes: dict[str, bool] = field(default_factory=dict)
    price: int | None = None
    owner: str = field(default="", metadata=written(omit=True))


PICTURE = Picture(
    "a", Circle(1.5), Square(2), 2**63, "today", (Colour.RED,), (1, 0.5), (("x", "1"),), {"old": True}
)
DOCUMENT = {
    "name": "a",
    "shape": {"radius": 1.5, "type": "circle"},
    "side": 2,
    "type": "square",
    "made": {"seed": str(2**63), "date": "today"},
    "colours": ["red"],
    "size": [1, 0.5],
    "versions": {"x": "1"},
    "notes": {"old": True},
    "price": None,
}


def test_the_form_is_what_the_types_say():
    assert PLAIN.write(PICTURE) == DOCUMENT
    assert PLAIN.write(replace(PICTURE, owner="eva"))["owner"] == "eva"


shapes = st.builds(Circle, st.floats(allow_nan=False)) | st.builds(Square, st.integers())
pictures = st.builds(
    Picture,
    st.text(),
    shapes,
    shapes,
    st.integers(),
    st.text(),
    st.lists(st.sampled_from(Colour)).map(tuple),
    st.tuples(st.integers(), st.floats(allow_nan=False)),
    st.dictionaries(st.text(), st.text()).map(lambda pairs: tuple(sorted(pairs.items()))),
    st.dictionaries(st.text(), st.booleans()),
    st.none() | st.integers(),
    st.text(),
)


@given(pictures)
def test_what_is_written_is_read(picture):
    assert PLAIN.read(Picture, PLAIN.write(picture), field="picture") == picture


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"name": 3}, "picture.name"),
        ({"price": True}, "picture.price"),
        ({"notes": {"secret": 1}}, "picture.notes[]"),
        ({"colours": ["red", "green"]}, "picture.colours[1]"),
        ({"size": [1]}, "picture.size"),
        ({"shape": {"radius": 1.0}}, "picture.shape"),
        ({"shape": {"radius": 1.0, "type": "square"}}, "picture.shape"),
        ({"made": {"seed": "01", "date": "today"}}, "picture.made.seed"),
        ({"made": {"seed": "1"}}, "picture.made.date"),
        ({"made": {"seed": "1", "date": "today", "secret": 1}}, "picture"),
        ({"owner": ""}, "picture"),
        ({"secret": 1}, "picture"),
        ({"versions": {"x": 1}}, "picture.versions"),
    ],
    ids=repr,
)
def test_anything_else_is_refused_and_only_its_field_is_named(change: dict[str, Any], place):
    with pytest.raises(InvalidInputError) as refusal:
        PLAIN.read(Picture, DOCUMENT | change, field="picture")
    assert refusal.value.fields["field"] == place


@dataclass(frozen=True, slots=True)
class Numbers:
    one: float | None
    some: tuple[float, ...]
    rows: tuple[tuple[float | None, ...], ...]


def test_whole_numbers_are_floats():
    json = {"one": 2**53, "some": [1, 2.5], "rows": [[1, 2], [0.5, -3], []]}
    numbers = PLAIN.read(Numbers, json, field="numbers")
    assert repr(numbers) == repr(Numbers(2.0**53, (1.0, 2.5), ((1.0, 2.0), (0.5, -3.0), ())))
    assert (
        repr(PLAIN.read(Numbers, json | {"rows": [[1, None]]}, field="numbers").rows) == "((1.0, None),)"
    )


@pytest.mark.parametrize(
    "change",
    [
        *({"one": one} for one in (True, 2**53 + 1, 10**400, "1", [1])),
        *({"some": [1, one]} for one in (True, 2**53 + 1, 10**400, "1", None, [1])),
        *({"rows": [[1, 2], one]} for one in ([True], [2**53 + 1], [10**400], ["1"], [[1]], 1, None)),
        *({"rows": rows} for rows in ([1, 2], [1.5], {}, None)),
    ],
    ids=repr,
)
def test_what_is_no_float_is_refused(change):
    with pytest.raises(InvalidInputError):
        PLAIN.read(Numbers, {"one": 1, "some": [], "rows": []} | change, field="numbers")


def places(json, path=()):
    """Names and positions that lead to each part of a document."""
    pairs = json.items() if isinstance(json, dict) else enumerate(json) if isinstance(json, list) else ()
    for key, one in pairs:
        yield (*path, key)
        yield from places(one, (*path, key))


leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=2)
others = leaves | st.lists(leaves, max_size=2) | st.dictionaries(st.text(max_size=2), leaves, max_size=2)


@given(pictures, st.data())
def test_a_changed_document_is_refused_or_is_what_its_value_is_written_as(picture, data):
    document = PLAIN.write(picture)
    *path, key = data.draw(st.sampled_from([*places(document)]))
    folder = reduce(getitem, path, document)
    key = data.draw(st.sampled_from([key, "unknown"])) if isinstance(folder, dict) else key
    folder[key] = data.draw(others)
    try:
        value = PLAIN.read(Picture, document, field="picture")
    except InvalidInputError:
        return
    assert PLAIN.write(value) == document


@pytest.mark.parametrize("name", DOCUMENT)
def test_a_missing_field_is_refused(name):
    with pytest.raises(InvalidInputError):
        PLAIN.read(Picture, {key: DOCUMENT[key] for key in DOCUMENT if key != name}, field="picture")
