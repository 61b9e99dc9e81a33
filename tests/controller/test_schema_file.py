"""The public schema as a file: lossless, and refused by field."""

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.controller.drafting.folder import schema_text
from gencard.controller.records.declarations import TEN_A_DECADE, DeclaredScale
from gencard.controller.records.schema_file import (
    PublicSchema,
    read_schema,
    schema_of_table,
    table_of_schema,
)
from gencard.core.coding import Attribute, Coding, Edges, Labels, Reading, StructuralZeros
from gencard.core.errors import GencardError, InvalidCodingError, InvalidInputError

TEXT = """
title = "A survey"
declared_by = "the bureau"
reviewed = true
records = 2_500

[[attributes]]
name = "age"
edges = [0, 18, 65.5, 120]
missing = ["-8", "NA"]

[[attributes]]
name = "sex"
description = "as asked"
labels = ["female", "male"]
missing = true
groups = { "all people" = ["female", "male"] }

[[attributes]]
name = "children"
labels = ["0", "1", "2"]
integer = true
ordered = true

[[structural_zeros]]
clique = ["age", "children"]
cells = [["[0, 18)", "2"], ["missing", "0"]]
"""
GROUPED = {"name": "a", "labels": ["x"]}
ONE = {"title": "t", "declared_by": "d", "attributes": [{"name": "a", "labels": ["x"]}]}

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@st.composite
def on_scales(draw, *, missing):
    step = draw(st.sampled_from([*map(Decimal, ("1", "0.01", "0.25", "1000"))]))
    whole = st.lists(st.integers(-200, 200), min_size=2, max_size=6, unique=True).map(sorted)
    edges = draw(whole)
    inside = st.lists(st.integers(edges[0], edges[-1]), max_size=4, unique=True).map(sorted)
    points, fine = draw(inside), draw(inside)
    others = [number for number in draw(inside) if number not in points]
    lists = [tuple(step * one for one in part) for part in (edges, points, others)]
    cells = tuple(step * one for one in sorted({edges[0], *fine, edges[-1]}))
    width = step * draw(st.integers(1, 50))
    chosen = draw(st.sampled_from([None, TEN_A_DECADE, width, cells]))
    clamps = draw(st.booleans()), draw(st.booleans())
    declared = DeclaredScale(step, lists[0], lists[1], chosen, lists[2], *clamps)
    return declared.edges_of(missing=missing, dates=draw(st.booleans()) if step == 1 else False)


@st.composite
def schemas(draw):
    attributes = []
    readings, groups = {}, {}
    for name in draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        missing = draw(st.booleans())
        labels = st.lists(names, min_size=1, max_size=4, unique=True).map(tuple)
        edges = st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=5, unique=True)
        coding = draw(
            st.builds(Labels, labels, ordered=st.booleans(), missing=st.just(missing))
            | st.builds(Edges, edges.map(sorted).map(tuple), missing=st.just(missing))
            | on_scales(missing=missing)
        )
        drafted = draw(st.sampled_from(["", "records"]))
        words = draw(st.text(st.characters(codec="utf-8")))
        attributes.append(Attribute(name, coding, words, drafted=drafted))
        if missing and draw(st.booleans()):
            readings[name] = Reading(draw(st.lists(names, min_size=1, max_size=2).map(tuple)))
        if isinstance(coding, Labels) and draw(st.booleans()):
            groups[name] = {draw(names): coding.labels[:1]}
    zeros = tuple(
        StructuralZeros((attribute.name,), ((draw(st.integers(0, attribute.coding.size - 1)),),))
        for attribute in attributes
        if len(set(attribute.coding.level_names)) == attribute.coding.size and draw(st.booleans())
    )
    records = draw(st.none() | st.integers(1, 10**9))
    coding = Coding(tuple(attributes), zeros)
    return PublicSchema("t", "d", "b", draw(st.booleans()), coding, readings, records, groups)


@given(schemas())
def test_a_schema_reads_back_the_same(tmp_path_factory, schema):
    path = tmp_path_factory.mktemp("schema") / "schema.toml"
    path.write_text(schema_text(schema), encoding="utf-8")
    assert read_schema(path) == schema
    assert schema_of_table(table_of_schema(schema)) == schema


def test_a_file_that_a_person_wrote(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(TEXT)
    schema = read_schema(path)
    assert schema.reviewed
    assert schema.coding.domain.sizes == (4, 3, 3)
    assert schema.coding.attribute("age").coding == Edges((0, 18, 65.5, 120), missing=True)
    assert schema.coding.attribute("sex").description == "as asked"
    assert schema.readings == {"age": Reading(("-8", "NA"))}
    assert schema.records == 2_500
    assert schema.groups == {"sex": {"all people": ("female", "male")}}
    (zeros,) = schema.coding.structural_zeros
    assert zeros == StructuralZeros(("age", "children"), ((0, 2), (3, 0)))


@pytest.mark.parametrize(
    ("change", "kind", "where"),
    [
        ({"attributes": []}, InvalidInputError, "attributes"),
        ({"title": None}, InvalidInputError, "title"),
        ({"color": "CANARY"}, InvalidInputError, "color"),
        ({"attributes": [{"name": "a"}]}, InvalidCodingError, "'a'"),
        ({"attributes": [{"name": "a", "labels": []}]}, InvalidCodingError, "'a'"),
        ({"attributes": [{"name": "a", "labels": ["x"], "edges": [0, 1]}]}, InvalidCodingError, "'a'"),
        ({"attributes": [{"name": "a", "edges": [1, 0]}]}, InvalidCodingError, "'a'"),
        ({"attributes": [{"name": "a", "edges": [0, 1], "ordered": True}]}, InvalidCodingError, "'a'"),
        ({"records": 0}, InvalidInputError, "records"),
        ({"attributes": [GROUPED | {"groups": {"g": ["CANARY"]}}]}, InvalidCodingError, "'a'"),
        ({"attributes": [GROUPED | {"groups": {"g": ["x"], "h": ["x"]}}]}, InvalidCodingError, "'a'"),
        ({"attributes": [{"name": "a", "labels": [{"CANARY": 1}]}]}, InvalidInputError, "labels"),
        ({"structural_zeros": [{"clique": ["b"], "cells": []}]}, GencardError, "'b'"),
        ({"structural_zeros": [{"clique": ["a"], "cells": [["CANARY"]]}]}, InvalidCodingError, "'a'"),
        ({"structural_zeros": [{"clique": ["a"], "cells": [[]]}]}, InvalidCodingError, "'a'"),
    ],
)
def test_a_refusal_names_the_place_and_no_value(change, kind, where):
    with pytest.raises(kind) as caught:
        schema_of_table(ONE | change)
    assert where in str(caught.value)
    assert "CANARY" not in str(caught.value)


MED = """
title = "t"
declared_by = "d"

[[attributes]]
name = "sex"
labels = ["f", "m"]

[[attributes]]
name = "med"
"""
EDGES = 'edges = [0, 10, 100]\nstep = "0.5"\n'
STATED = {
    "points off the step": (EDGES + "points = [0.25]", "one of points is not a multiple of the step"),
    "points outside": (EDGES + "points = [100.5]", "one of points lies outside the edges: 100.5"),
    "points twice": (EDGES + "points = [5, 5.0]", "points has a value twice: 5"),
    "points of text": (EDGES + 'points = ["a"]', "is not a number"),
    "points without a list": (EDGES + "points = 5", "is not a list"),
    "edges off the step": ('edges = [0, 10.25]\nstep = "0.5"', "an edge is not a multiple of the step"),
    "edges twice": ('edges = [0, 10, 10]\nstep = "0.5"', "edges must increase"),
    "one edge": ('edges = [0]\nstep = "0.5"', "fewer than two edges"),
    "fine off the step": (EDGES + "fine = [0, 0.7, 100]", "an edge of fine is not a multiple"),
    "fine twice": (EDGES + "fine = [0, 5, 5, 100]", "the edges of fine must increase, each once"),
    "fine with another end": (EDGES + "fine = [0, 50]", "fine must begin with the first and end with"),
    "fine of another width": (EDGES + "fine = 0.75", "the width fine is not a multiple of the step"),
    "fine of no width": (EDGES + "fine = 0", "fine must be a positive width"),
    "fine of a word": (EDGES + 'fine = "many"', "is not a number"),
    "fine of many cells": ('edges = [0, 1e6]\nstep = "0.5"\nfine = 1', "fine makes more than 65,536"),
    "fine points outside": (EDGES + "fine_points = [-1]", "one of fine_points lies outside the edges"),
    "fine points off the step": (EDGES + "fine_points = [0.1]", "one of fine_points is not a multiple"),
    "fine points that are points": (EDGES + "points = [5]\nfine_points = [5]", "points has too: 5"),
    "a step of 0": ("edges = [0, 10]\nstep = 0", "step must be a positive decimal"),
    "a negative step": ("edges = [0, 10]\nstep = -1", "step must be a positive decimal"),
    "an endless step": ("edges = [0, 10]\nstep = inf", "is not a finite number"),
    "a step of text": ('edges = [0, 10]\nstep = "a cent"', "is not a number"),
    "too many steps": ('edges = [0, 2147483648]\nstep = "1"', "there are 2,147,483,648 steps or more"),
    "steps far from 0": ('edges = [1e15, 1.000000000001e15]\nstep = "0.1"', "too large for the step"),
    "fine on labels": ('labels = ["a", "b"]\nfine = 5', "fine is allowed only with edges or dates"),
    "points on labels": ('labels = ["1", "2"]\npoints = [1]', "points is allowed only with edges"),
    "points without a step": ("edges = [0, 10]\npoints = [0]", "points needs a step"),
    "above without a step": ('edges = [0, 10]\nabove = "highest"', "above needs a step"),
    "another word above": (EDGES + 'above = "lowest"', "is not 'highest'"),
    "another word below": (EDGES + "below = true", "is not 'lowest'"),
    "another word of drafts": (EDGES + 'drafted = "a look"', "is not 'records'"),
    "whole numbers twice": (EDGES + "integer = true", "leave out integer and decimals"),
    "decimals twice": (EDGES + "decimals = 1", "leave out integer and decimals"),
    "days of parts": ("dates = [2013-01-01, 2013-12-31]\nstep = 7", "the step of dates and ages is 1"),
    "years of parts": (
        'edges = [0, 9]\nage_at = 2013-01-01\nstep = "0.5"',
        "the step of dates and ages",
    ),
    "an unknown zone": (
        'dates = [2013-01-01, 2013-12-31]\nzone = "New York"',
        "zone is not a name of the IANA database",
    ),
    "the host's zone": (
        'dates = [2013-01-01, 2013-12-31]\nzone = "localtime"',
        "zone is not a name of the IANA database",
    ),
    "a zone of numbers": (EDGES + 'zone = "UTC"', "zone is allowed only with dates"),
    "a zone of a derived attribute": (
        'of = "sex"\nzone = "UTC"',
        "zone and time_of are not allowed with",
    ),
    "a time of day of nothing": (
        'time_of = "left"\nedges = ["00:00", "24:00"]',
        "time_of names an attribute that the schema does not have",
    ),
    "a time of day without a zone": (
        'time_of = "sex"\nedges = ["00:00", "24:00"]',
        "time_of names 'sex', which has no zone",
    ),
    "a time of day without edges": ('time_of = "sex"', "time_of needs edges of times of day"),
    "times of day of plain edges": ('edges = ["00:00", "24:00"]', "times of day, which need time_of"),
    "numbers as times of day": (
        'time_of = "sex"\nedges = [0, 12]',
        "is not a time of day such as 06:30",
    ),
    "times outside the day": (
        'time_of = "sex"\nedges = ["00:00", "25:00"]',
        "is not a time of day such as 06:30",
    ),
    "the end of the day among others": (
        'time_of = "sex"\nedges = ["00:00", "24:00", "24:00"]',
        "a time lies outside the day: 24:00 may be the last edge only",
    ),
    "times of half a minute": (
        'time_of = "sex"\nedges = ["00:00", "24:00"]\nstep = "0.5"',
        "the step of times of day is 1 minute",
    ),
    "times of day and ages": (
        'time_of = "sex"\nedges = ["00:00", "24:00"]\nage_at = 2013-01-01',
        "time_of and age_at are two ways",
    ),
    "a step of a derived attribute": ('of = "sex"\nedges = [0, 1]\nstep = 1', "the step of its source"),
}


@pytest.mark.parametrize("stated", STATED)
def test_each_wrong_declaration_of_numbers_has_its_own_text_with_file_line_and_attribute(
    tmp_path, stated
):
    text, problem = STATED[stated]
    (tmp_path / "survey.toml").write_text(MED + text + "\n")
    with pytest.raises(InvalidInputError) as caught:
        read_schema(tmp_path / "survey.toml")
    for words in (problem, "survey.toml, line 10", "med"):
        assert words in str(caught.value)


def test_texts_of_wrong_declarations_differ(tmp_path):
    """Each mistake has a text of its own."""
    assert len({problem for _, problem in STATED.values()}) >= len(STATED) - 8


def test_a_scale_of_dates_and_of_ages(tmp_path):
    text = (
        MED + "dates = [2013-01-01, 2013-07-01, 2013-12-31]\nstep = 1\npoints = [2013-05-01]\nfine = 30"
    )
    (tmp_path / "s.toml").write_text(text + '\nbelow = "lowest"\n')
    coding = read_schema(tmp_path / "s.toml").coding.attribute("med").coding
    assert coding.level_names[1] == "2013-05-01"
    assert coding.scale.below
    (tmp_path / "s.toml").write_text(
        MED + "edges = [0, 18, 120]\nage_at = 2020-01-01\nstep = 1\nfine = 1\n"
    )
    schema = read_schema(tmp_path / "s.toml")
    assert schema.readings["med"].age_at == date(2020, 1, 1)
    assert len(schema.coding.attribute("med").coding.scale.cells) == 121


DEPARTURES = """
title = "t"
declared_by = "d"

[[attributes]]
name = "left"
dates = ["2013-01-01", "2013-07-01", "2013-12-31"]
zone = "America/New_York"

[[attributes]]
name = "hour"
time_of = "left"
edges = ["00:00", "06:00", "24:00"]
points = ["12:00"]
fine = ["00:00", "03:00", "24:00"]
"""


def test_a_date_in_a_zone_and_its_time_of_day(tmp_path):
    (tmp_path / "s.toml").write_text(DEPARTURES)
    schema = read_schema(tmp_path / "s.toml")
    zone = "America/New_York"
    assert schema.readings == {"left": Reading(zone=zone), "hour": Reading(zone=zone, time_of="left")}
    hour = schema.coding.attribute("hour").coding
    assert hour.level_names == ("[00:00, 06:00)", "[06:00, 12:00)", "12:00", "[12:01, 24:00)")
    assert hour.scale.cells == (0, 180, 360, 720, 721, 1440)
    assert (hour.edges[-1], hour.largest, hour.scale.centre) == (1440, 1439, 720)
    text = schema_text(schema)
    assert '"24:00"' in text
    (tmp_path / "again.toml").write_text(text)
    assert read_schema(tmp_path / "again.toml") == schema == schema_of_table(table_of_schema(schema))


def test_a_time_of_day_is_not_cut(tmp_path):
    cut = '\n[[attributes]]\nname = "half"\nof = "hour"\nedges = [0, 1439]\n'
    (tmp_path / "s.toml").write_text(DEPARTURES + cut)
    with pytest.raises(InvalidCodingError, match="cannot be cut into intervals: use recode"):
        read_schema(tmp_path / "s.toml")


def test_a_repeated_attribute_is_refused():
    with pytest.raises(GencardError, match="repeat"):
        schema_of_table(ONE | {"attributes": ONE["attributes"] * 2})
