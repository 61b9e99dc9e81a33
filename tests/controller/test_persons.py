"""Persons with many records, and attributes that follow from others: what is counted of them."""

import numpy as np
import pandas as pd
import pytest

from gencard.controller.records.schema_file import schema_of_table, table_of_schema
from gencard.controller.records.vault import Vault
from gencard.core.coding import Attribute
from gencard.core.errors import GencardError, InvalidCodingError, UndeclaredLevelError
from gencard.v1 import catalog_pb2
from gencard.wire.codec import message_of, value_of
from gencard.wire.psi import coding_document, coding_of_document

SALT = b"salt"
TABLE = {
    "title": "Visits",
    "declared_by": "the clinic",
    "person": "id",
    "most_records": 2,
    "attributes": [
        {"name": "sex", "labels": ["f", "m"]},
        {"name": "age", "edges": [0, 18, 40, 65, 120], "integer": True, "missing": True},
        {"name": "now", "labels": ["north", "south"]},
        {"name": "born", "labels": ["north", "south"], "missing": True},
        {"name": "grown", "of": "age", "edges": [0, 18, 120], "missing": True},
        {"name": "half", "of": "now", "recode": {"up": ["north"]}, "other": "down"},
        {"name": "moved", "compare": ["now", "born"], "missing": True},
    ],
}
PLAIN = {name: value for name, value in TABLE.items() if name not in ("person", "most_records")}
OF_PERSONS = [
    {"name": "old", "any": {"age": ["[65, 120]"]}},
    {"name": "souths", "number": {"now": ["south"]}, "edges": [0, 1, 2, 4], "integer": True},
    {"name": "visits", "number": {}, "edges": [0, 2, 3, 99], "integer": True},
]


def table(**changes):
    return {**TABLE, **changes}


def records(seed=0, persons=40):
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(persons), rng.integers(1, 7, persons))
    size = len(ids)
    return pd.DataFrame(
        {
            "id": [f"p{one}" for one in ids],
            "sex": rng.choice(["f", "m"], size),
            "age": rng.choice([3, 18, 40, 70, 120, None], size),
            "now": rng.choice(["north", "south"], size),
            "born": rng.choice(["north", "south", None], size),
        }
    )


def vault_of(frame, folder, schema=None, key=SALT):
    schema = schema_of_table(schema or TABLE)
    path = folder / f"records{abs(hash(tuple(map(tuple, frame.astype(str).to_numpy()))))}.parquet"
    frame.to_parquet(path)
    return Vault(path, schema.coding, schema.readings, persons=schema.persons(key))


def counted(vault, *cliques):
    return vault.count(cliques)


def test_s66_at_most_so_many_records_of_a_person_count(tmp_path):
    frame = records()
    (table_of_sex,) = counted(vault_of(frame, tmp_path), ("sex",))
    assert table_of_sex.sum() == frame.groupby("id").size().clip(upper=2).sum()
    assert vault_of(frame, tmp_path).dataset(("sex", "age"), most_records=99).codes.shape[1] == 2


def test_records_that_count_are_read_with_their_persons(tmp_path):
    """Here sex is the person's: no two persons of a number have different ones."""
    frame = records(persons=200)
    frame["sex"] = np.where(frame.id.str[-1].astype(int) % 2, "f", "m")
    frame["age"] = 18 + frame.id.str[1:].astype(int) % 100
    dataset, numbers, persons = vault_of(frame, tmp_path).read_owned(
        ("sex",), ("age",), most_records=9_999
    )
    sizes = frame.groupby("id").size().clip(upper=2)
    assert sorted(np.bincount(persons)) == sorted(sizes)
    for column in (dataset.column("sex"), numbers["age"]):
        assert (pd.Series(column).groupby(persons).nunique() == 1).all()
    assert np.unique(persons[numbers["age"] == 20]).size == 2
    plain = vault_of(frame.drop(columns="id"), tmp_path, PLAIN)
    assert plain.read_owned(("sex",), (), most_records=9_999)[2] is None


def test_s66_the_choice_is_the_same_whatever_is_asked_and_wherever_records_stand(tmp_path):
    frame = records()
    whole = counted(vault_of(frame, tmp_path), ("sex", "age", "now", "born"))[0]
    shuffled = vault_of(frame.sample(frac=1, random_state=1), tmp_path)
    sex, age = counted(shuffled, ("sex",), ("age",))
    assert (sex == whole.sum(axis=(1, 2, 3))).all()
    assert (age == whole.sum(axis=(0, 2, 3))).all()
    other = counted(vault_of(frame, tmp_path, key=b"other"), ("sex", "age", "now", "born"))[0]
    assert (other != whole).any()


@pytest.mark.parametrize("seed", range(6))
def test_s66_a_person_more_moves_no_more_than_so_many_records(tmp_path, seed):
    """A person is added: the counting records of the other people stay the same."""
    frame, folder = records(seed, 6), tmp_path
    clique = ("sex", "age", "now", "born")
    with_all, without = (
        counted(vault_of(part, folder), clique)[0] for part in (frame, frame[frame["id"] != "p0"])
    )
    difference = with_all - without
    assert difference.min() >= 0
    assert difference.sum() == min(2, int((frame["id"] == "p0").sum()))


@pytest.mark.parametrize("nobody", [None, ""])
def test_s66_a_record_of_nobody_is_refused(tmp_path, nobody):
    frame = records()
    frame.loc[0, "id"] = nobody
    with pytest.raises(UndeclaredLevelError) as refused:
        vault_of(frame, tmp_path).check()
    assert refused.value.fields == {"attribute": "id"}


def test_the_version_says_whose_records_count(tmp_path):
    frame = records()
    one, two = (vault_of(frame, tmp_path, table(most_records=k)).version(SALT) for k in (2, 3))
    plain = vault_of(
        frame, tmp_path, {k: v for k, v in TABLE.items() if k not in ("person", "most_records")}
    )
    assert len({one, two, plain.version(SALT), plain.digest(SALT)}) == 3


def test_derived_attributes_are_computed_from_codes(tmp_path):
    frame = records()
    vault = vault_of(frame, tmp_path, PLAIN)
    vault.check()
    ages, (grown,), (half,) = frame["age"], counted(vault, ("grown",)), counted(vault, ("half",))
    assert grown.tolist() == [(ages < 18).sum(), (ages >= 18).sum(), ages.isna().sum()]
    assert half.tolist() == [(frame["now"] == "north").sum(), (frame["now"] == "south").sum()]
    same = (frame["now"] == frame["born"])[frame["born"].notna()]
    (moved,) = counted(vault, ("moved",))
    assert moved.tolist() == [same.sum(), (~same).sum(), frame["born"].isna().sum()]
    assert counted(vault, ("sex", "grown"))[0].sum() == len(frame)


def test_of_persons_every_person_is_one_row(tmp_path):
    frame = records()
    schema = table(most_records=1, attributes=TABLE["attributes"] + OF_PERSONS)
    old, souths, visits = counted(vault_of(frame, tmp_path, schema), ("old",), ("souths",), ("visits",))
    persons = frame.groupby("id")
    any_old = persons["age"].apply(lambda ages: (ages >= 65).any())
    assert old.tolist() == [(~any_old).sum(), any_old.sum()]
    number = persons["now"].apply(lambda now: (now == "south").sum())
    assert souths.tolist() == [(number == 0).sum(), (number == 1).sum(), (number >= 2).sum()]
    size = persons.size()
    assert visits.tolist() == [(size < 2).sum(), (size == 2).sum(), (size > 2).sum()]


def test_schemas_with_them_are_lossless():
    schema = schema_of_table(table(most_records=1, attributes=TABLE["attributes"] + OF_PERSONS))
    assert schema_of_table(table_of_schema(schema)) == schema
    assert coding_of_document(coding_document(schema.coding)) == schema.coding
    assert all(
        value_of(Attribute, message_of(one, catalog_pb2.Attribute)) == one
        for one in schema.coding.attributes
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"person": "sex"}, "must not be an attribute"),
        ({"most_records": 0}, "most_records"),
        ({"attributes": [*TABLE["attributes"], *OF_PERSONS]}, "most_records = 1"),
        ({"attributes": [{"name": "x", "of": "sex", "recode": {"a": ["f"]}}]}, "not stored"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, problem):
    with pytest.raises(GencardError, match=problem):
        schema_of_table(table(**changes))


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        ({"of": "sex", "recode": {"a": ["f"]}}, "no label for 'm'"),
        ({"of": "sex", "recode": {"a": ["f", "g"]}}, "'g' is not a level"),
        ({"of": "sex", "recode": {"a": ["f"], "b": ["f", "m"]}}, "twice"),
        ({"of": "age", "edges": [0, 20, 120], "missing": True}, "edge"),
        ({"of": "age", "edges": [0, 18], "missing": True}, "outside"),
        ({"of": "age", "edges": [0, 18, 120]}, "outside"),
        ({"of": "sex", "edges": [0, 1]}, "is not a number"),
        ({"compare": ["sex", "now"]}, "different levels"),
        ({"compare": ["now", "born"]}, "missing"),
        ({"compare": ["now"]}, "two attributes"),
        ({"of": "half", "recode": {"a": ["up"]}}, "not stored"),
        ({"any": {"sex": ["x"]}}, "is not a level"),
        ({"any": {"nothing": ["x"]}}, "not stored"),
        ({"number": {}}, "needs edges"),
        ({"of": "sex", "compare": ["now", "born"]}, "one of"),
    ],
)
def test_derivations_that_cannot_be_are_refused(attribute, problem):
    attributes = [*TABLE["attributes"], {"name": "new", **attribute}]
    with pytest.raises(InvalidCodingError, match=problem):
        schema_of_table(table(most_records=1, attributes=attributes))
