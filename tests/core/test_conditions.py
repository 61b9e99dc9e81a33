"""Conditions choose the records that the same condition chooses in SQL."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.analysis.formulas.model_matrix import read_condition
from gencard.core.coding import BOOLEANS, Attribute, Coding, Edges, Labels

CODING = Coding(
    (
        Attribute("age", Edges((0.0, 18.0, 30.0, 65.0, 100.0), missing=True, decimals=0)),
        Attribute("pay", Edges((0.0, 1.5, 10.0), missing=True)),
        Attribute("children", Labels(("0", "1", "2"), integer=True, ordered=True, missing=True)),
        Attribute("flag", Labels(BOOLEANS, boolean=True, missing=True)),
        Attribute("region", Labels(("N", "S"))),
    )
)
EDGES = {"age": (18, 30, 65), "pay": (1.5,), "children": (0, 1, 2), "flag": (0, 1)}
SIZE = 400


def records():
    """Values as in a file, and their codes."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "age": pd.array(rng.integers(0, 100, SIZE), dtype="Int64"),
            "pay": rng.uniform(0, 10, SIZE),
            "children": pd.array(rng.integers(0, 3, SIZE), dtype="Int64"),
            "flag": pd.array(rng.integers(0, 2, SIZE), dtype="Int64"),
            "region": rng.choice(["N", "S"], SIZE),
        }
    )
    for name in EDGES:
        frame.loc[rng.random(SIZE) < 0.3, name] = pd.NA
    codes = {
        "age": np.searchsorted([18, 30, 65], frame["age"].fillna(0), side="right"),
        "pay": np.searchsorted([1.5], frame["pay"].fillna(0), side="right"),
        "children": frame["children"].fillna(0).to_numpy(dtype=int),
        "flag": frame["flag"].fillna(0).to_numpy(dtype=int),
        "region": (frame["region"] == "S").to_numpy(dtype=int),
    }
    for name in EDGES:
        absent = frame[name].isna().to_numpy()
        codes[name] = np.where(absent, CODING.domain.size(name) - 1, codes[name])
    return frame, codes


FRAME, CODES = records()
DATABASE = duckdb.connect()
DATABASE.register("records", FRAME)


def chosen(text):
    attributes, mask = read_condition(text, CODING)
    return mask[tuple(CODES[name] for name in attributes)]


def by_sql(text):
    (values,) = (
        DATABASE.execute(f"select coalesce(({text})::bool, false) from records").fetchnumpy().values()
    )
    return np.asarray(values, dtype=bool)


@st.composite
def atoms(draw):
    """A comparison, in our language and in SQL."""
    name = draw(st.sampled_from([*EDGES, "region"]))
    if name == "region":
        sign, label = draw(st.sampled_from(["==", "!="])), draw(st.sampled_from("NS"))
        return f"region {sign} '{label}'", f"region {sign.replace('==', '=')} '{label}'"
    edge = draw(st.sampled_from(EDGES[name]))
    if name in ("age", "pay"):
        sign = draw(st.sampled_from(["<", ">="]))
        if draw(st.booleans()) and name == "age":
            low, high = sorted(draw(st.permutations(EDGES[name]))[:2])
            return f"{low} <= age < {high}", f"({low} <= age and age < {high})"
        return f"{name} {sign} {edge}", f"{name} {sign} {edge}"
    if draw(st.booleans()):
        among = ", ".join(map(str, draw(st.permutations(EDGES[name]))[:2]))
        sign = draw(st.sampled_from(["in", "not in"]))
        return f"{name} {sign} [{among}]", f"{name} {sign} ({among})"
    sign = draw(st.sampled_from(["==", "!=", "<", ">", "<=", ">="]))
    return f"{name} {sign} {edge}", f"{name} {sign.replace('==', '=')} {edge}"


def joined(parts):
    words = st.sampled_from([("and", "and"), ("or", "or"), ("&", "and"), ("|", "or")])
    two = st.tuples(parts, words, parts).map(
        lambda three: tuple(f"({one}) {word} ({other})" for one, word, other in zip(*three, strict=True))
    )
    opposite = st.tuples(st.sampled_from([("not", "not"), ("~", "not")]), parts).map(
        lambda pair: tuple(f"{word} ({one})" for word, one in zip(*pair, strict=True))
    )
    choice = st.tuples(parts, parts, parts).map(
        lambda three: (
            "ifelse({}, {}, {})".format(*(one for one, _ in three)),
            "case when ({0}) is null then null when ({0}) then ({1}) else ({2}) end".format(
                *(sql for _, sql in three)
            ),
        )
    )
    return two | opposite | choice


@settings(max_examples=300)
@given(st.recursive(atoms(), joined, max_leaves=6))
def test_as_sql_chooses(condition):
    text, sql = condition
    np.testing.assert_array_equal(chosen(text), by_sql(sql), err_msg=f"{text}: {sql}")


@pytest.mark.parametrize(
    ("text", "in_pandas"),
    [
        ("age < 30 or region == 'N'", lambda x: (x.age < 30) | (x.region == "N")),
        ("not (age < 30 and region == 'N')", lambda x: ~((x.age < 30) & (x.region == "N"))),
        ("age == NA or region == 'S'", lambda x: (x.age == pd.NA) | (x.region == "S")),
        (
            "18 <= age < 65 or region == 'N'",
            lambda x: ((x.age >= 18) & (x.age < 65)) | (x.region == "N"),
        ),
        ("as_logical(children) or age >= 65", lambda x: (x.children != 0) | (x.age >= 65)),
    ],
)
def test_as_pandas_chooses(text, in_pandas):
    expected = in_pandas(FRAME).fillna(value=False).to_numpy(dtype=bool)
    np.testing.assert_array_equal(chosen(text), expected)


def test_a_missing_label_is_a_label():
    coding = Coding((Attribute("region", Labels(("N", "S"), missing=True)),))
    for text, levels in [
        ("region == 'N'", [0]),
        ("region != 'N'", [1, 2]),
        ("not region == 'N'", [1, 2]),
    ]:
        assert np.flatnonzero(read_condition(text, coding)[1]).tolist() == levels


def test_answers_of_before_keep_their_population():
    """A record without a number of the condition was in none of them."""
    attributes, mask = read_condition("age < 30 or region == 'N'", CODING, of_present=True)
    assert attributes == ("age", "region")
    assert not mask[CODING.domain.size("age") - 1].any()
    assert mask[:-1].tolist() == [[True, True], [True, True], [True, False], [True, False]]
