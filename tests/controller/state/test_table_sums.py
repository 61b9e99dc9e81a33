"""Histograms and sums of tables of databases, and their versions, beside files of the same records."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.awkward_records import CODING, READINGS, awkward, with_undeclared
from gencard.controller.records.declarations import DeclaredScale
from gencard.controller.records.encoding import scales_of
from gencard.controller.records.vault import Vault
from gencard.core.card.sums import Sum
from gencard.core.coding import Attribute, Coding, Derivation, Edges, Labels
from gencard.core.errors import UndeclaredLevelError

pytest.importorskip("ibis")
from gencard.controller.records.databases import open_table
from gencard.controller.records.table_address import TableAddress
from tests.controller.state.test_tables import SALT, both, engine, opened, socket, stored  # noqa: F401  # fixtures

NUMBERS = tuple(scales_of(CODING))
BY = ((), ("sex",), ("alive", "count"), ("rate", "left_at", "word"))
"""Attributes of groups: labels, numbers, and an instant's time."""


def all_sums() -> list[Sum]:
    """Each number by groups, squares and products, and populations alone."""
    domain, sums = CODING.domain, []
    for name in NUMBERS:
        sums += [Sum((name,), names) for names in BY if name not in names]
        sums += [Sum((name, name), names) for names in BY[:2]]
    sums += [Sum(of) for of in combinations(NUMBERS, 2)]
    sums += [Sum(("cost", "left"), ("alive",)), Sum(("cost",), ("alive",), ("sex", "day", "fee"))]
    sums += [Sum((), ("alive",), ("sex", "rate")), Sum((), (), ("fee",))]
    return [one.in_order_of(domain) for one in sums]


def test_histograms_and_sums_are_those_of_the_file(both):  # noqa: F811
    sums = all_sums()
    assert len(sums) > 80
    for one in sums:
        one.check(CODING)
    first, second = (source.summed(sums, NUMBERS) for source in both)
    assert first.totals() == second.totals()
    for name, own, other in zip(NUMBERS, first.fine_counts(), second.fine_counts(), strict=True):
        np.testing.assert_array_equal(own, other, err_msg=name)
        assert own.sum() == 5_000


def scaled(step: str, edges: str, fine: str = "", **options: object) -> Edges:
    numbers = tuple(map(Decimal, edges.split()))
    declared = DeclaredScale(Decimal(step), numbers, fine=Decimal(fine) if fine else None, **options)
    return declared.edges_of(missing=True, dates=False)


OWN = Coding(
    (
        Attribute("sex", Labels(("f", "m"))),
        Attribute("pay", scaled("0.5", "0 10 100", "5", above=True)),
        Attribute("wealth", scaled("1", "-1000000000 0 1000000000")),
        Attribute(
            "rich", Labels(("no", "yes")), derivation=Derivation(("sex", "pay"), (0, 1, 1, 0, 1, 0))
        ),
    )
)
ROWS = {
    "sex": ["f", "m", "f", "m", "f", "f"],
    "pay": [1.0, 2.0, 7.5, 99.0, None, 4.0],
    "wealth": [-999_999_999, 1_000_000_000, 3, 7, None, -5],
}


def version(address: TableAddress, coding: Coding = OWN) -> str:
    with open_table(address, "", coding, {}) as table:
        return table.version(SALT)


@pytest.fixture
def kept(engine, socket, tmp_path) -> Callable[[dict[str, list]], TableAddress]:  # noqa: F811
    """Keeps records in a table of the engine."""
    return lambda rows: stored(engine, pa.table(rows), tmp_path, socket)


class TestVersions:
    @pytest.mark.parametrize(
        "change",
        [
            {"pay": [1.5, 2.0, 7.5, 99.0, None, 4.0]},  # a step, inside the same cell of the histogram
            {"pay": [2.0, 1.0, 7.5, 99.0, None, 4.0]},  # two records, so that all sums of all are equal
            {"wealth": [-999_999_999, 1_000_000_000, 7, 3, None, -5]},
            {"pay": [4.0, 2.0, 7.5, 99.0, None, 1.0]},  # so that the sums by sex are equal, too
        ],
    )
    def test_equal_codes_with_other_numbers_are_another_version(self, kept, change):
        versions, counts = [], []
        for rows in (ROWS, ROWS | change):
            with open_table(kept(rows), "", OWN, {}) as table:
                versions.append(table.version(SALT))
                counts.append(table.count([("sex", "pay"), ("sex", "wealth")]))
        assert all(np.array_equal(*pair) for pair in zip(*counts, strict=True))
        assert versions[0] != versions[1]

    def test_what_counts_the_same_is_the_same_version(self, kept):
        """In another order, or with values that are rounded or clamped to the same number."""
        order = [3, 0, 5, 2, 1, 4]
        moved = {name: [column[place] for place in order] for name, column in ROWS.items()}
        rounded = ROWS | {"pay": [1.2, 2.249, 7.25, 99.0, None, 3.75]}
        assert len({version(kept(rows)) for rows in (ROWS, moved, rounded)}) == 1
        beyond = [ROWS | {"pay": [1.0, 2.0, 7.5, top, None, 4.0]} for top in (100.0, 1e300, 99.75)]
        assert len({version(kept(rows)) for rows in beyond}) == 1

    def test_tables_without_a_step_keep_their_versions(self, engine, kept):  # noqa: F811
        pay = Attribute("pay", Edges((0.0, 10.0, 100.0), missing=True))
        assert version(kept(ROWS), Coding((OWN.attributes[0], pay))) == KEPT[engine != "spark"]


KEPT = {
    True: "096c8314a547772059e10ab6fc559fc5307c43dc8192c44d98ea8fd417c25d9f",
    False: "8c960adab51511602f473cd2a088defdd8a30e872c9252ffe2ccc7f963e3e372",
}
"""Versions of ``ROWS`` as earlier services took them, by whether all statements see the same records."""


def test_sums_by_a_derived_attribute_and_of_wide_numbers(kept, tmp_path):
    """Squares of 60 bits, of which more than eight overflow 64."""
    rows = {name: column * 30 for name, column in ROWS.items()}
    pq.write_table(pa.table(rows), tmp_path / "file.parquet")
    sums = [Sum(("wealth", "wealth"), names) for names in ((), ("rich",), ("sex", "rich"))]
    sums += [Sum(("pay", "wealth")), Sum(("pay",), ("rich",), ("wealth",))]
    vault = Vault(tmp_path / "file.parquet", OWN, {})
    with open_table(kept(rows), "", OWN, {}) as table:
        own, other = (source.summed(sums, ("wealth", "pay")) for source in (table, vault))
    assert own.totals() == other.totals()
    assert max(own.totals()[0].values) > 2**63
    for first, second in zip(own.fine_counts(), other.fine_counts(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_values_at_and_beside_halves_of_steps(kept, tmp_path):
    """Steps that floats do not have, and many steps; cells of single numbers, too."""
    steps = {"a": "0.0000001", "b": "0.1", "c": "3", "d": "1000", "e": "0.25", "f": "0.07"}
    random, columns, attributes = np.random.default_rng(7), {}, []
    for name, step in steps.items():
        far, exact = 10**9 if name in "ace" else 10**3, Fraction(step)
        edges = " ".join(str(Decimal(step) * one) for one in (-far, -5, 0, 1, far // 3, far))
        coding = scaled(
            step, edges, points=(Decimal(step) * 7,), fine_points=(Decimal(step) * 9,), above=True
        )
        attributes.append(Attribute(name, coding))
        whole = [*range(-12, 24), *random.integers(-2 * far + 1, 2 * far, 60).tolist()]
        near = np.array([float(one * exact / 2) for one in whole])
        columns[name] = np.concatenate(
            [near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)]
        ).tolist()
    coding = Coding(tuple(attributes))
    pq.write_table(pa.table(columns), tmp_path / "file.parquet")
    sums = [Sum(of) for name in steps for of in ((name,), (name, name))]
    sums += [Sum((one,), (other,)) for one, other in ("ab", "ba", "cd", "ef")]
    vault = Vault(tmp_path / "file.parquet", coding, {})
    with open_table(kept(columns), "", coding, {}) as table:
        own, other = (source.summed(sums, tuple(steps)) for source in (table, vault))
        assert table.adjustments() == vault.adjustments()
    assert own.totals() == other.totals()
    for first, second in zip(own.fine_counts(), other.fine_counts(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_undeclared_values_are_refused_by_name(engine, socket, tmp_path):  # noqa: F811
    records, undeclared = with_undeclared(awkward(200), CODING, READINGS)
    with opened(stored(engine, records, tmp_path, socket)) as table:
        assert len(table.version(SALT)) == 64  # it can be taken all the same
        for name in sorted({*NUMBERS} & {*undeclared}):
            for sums, histograms in (([Sum((name,))], ()), ([], (name,))):
                with pytest.raises(UndeclaredLevelError) as caught:
                    table.summed(sums, histograms)
                assert caught.value.fields == {"attribute": name}
        with pytest.raises(UndeclaredLevelError, match="sex"):
            table.summed([Sum(("count",), ("sex",))], ())
        assert table.summed([], ("count",)).fine_counts()[0].sum() == 200
