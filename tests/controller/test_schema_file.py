"""The public schema as a file: lossless, and refused by field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.controller.records.encoding import Reading
from gencard.controller.records.schema_file import (
    PublicSchema,
    read_schema,
    schema_of_table,
    table_of_schema,
)
from gencard.controller.settings.dataset_draft import schema_text
from gencard.core.coding import Attribute, Coding, Edges, Labels, StructuralZeros
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
        )
        attributes.append(Attribute(name, coding, draw(st.text(st.characters(codec="utf-8")))))
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


def test_a_repeated_attribute_is_refused():
    with pytest.raises(GencardError, match="repeat"):
        schema_of_table(ONE | {"attributes": ONE["attributes"] * 2})
