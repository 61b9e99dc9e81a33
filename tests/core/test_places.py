"""Numbers of rows inside their levels, beside the definition in slow exact fractions."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from itertools import accumulate
from math import floor, gcd

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.client.agreement import Release
from gencard.controller.records.declarations import DeclaredScale
from gencard.core.card.sums import Histogram, Sum
from gencard.core.coding import Attribute, Coding, Derivation, Edges, Labels, codes_of_numbers
from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Domain
from gencard.core.errors import InvalidPsiError
from gencard.core.generators.contract import synthesise
from gencard.core.generators.registry import generator_named
from gencard.core.scale import Places, Scale
from gencard.core.statistics.linear import UnitSums
from gencard.core.statistics.marginals import count_all
from gencard.core.statistics.measure import measure
from gencard.core.statistics.numbers import places_of
from gencard.core.statistics.psi import HistogramMeasurement, Measurement, Psi, SumMeasurement, reconcile
from gencard.run.levels import Numbers, drawn_numbers
from gencard.wire.documents import AuditedBox, Receipt

WORD = 2**32
GENERATOR = generator_named("maximum-entropy", structural_zeros=(), max_cells=1_000_000)
ENDS = [0, 1, 2, WORD // 2 - 1, WORD // 2, WORD - 2, WORD - 1]
halves = st.one_of(st.sampled_from(ENDS), st.integers(0, WORD - 1))


def number(
    cells: Sequence[int],
    levels: Sequence[int],
    *,
    first: int = 0,
    step: str = "1",
    missing: bool = False,
    dates: bool = False,
) -> Edges:
    """Levels on a scale.

    Args:
        cells: Numbers of values of each cell.
        levels: Numbers of cells of each level.
        first: Smallest number, in steps.
    """
    unit = Decimal(step)
    starts = [(first + sum(cells[:place])) * unit for place in range(len(cells))]
    last = (first + sum(cells) - 1) * unit
    firsts = [starts[sum(levels[:place])] for place in range(len(levels))]
    scale = Scale(unit, (*starts, last))
    return Edges.of_scale(firsts, scale, missing=missing, dates=dates)


@dataclass(frozen=True)
class Case:
    """A scale and its part of psi."""

    cells: list[int]
    levels: list[int]
    first: int
    missing: bool
    counts: list[int]
    stddev: float
    total: int | None = None
    total_stddev: float = 0.0
    marginal: list[int] | None = None

    @property
    def coding(self) -> Coding:
        edges = number(self.cells, self.levels, first=self.first, missing=self.missing)
        return Coding((Attribute("x", edges), Attribute("g", Labels(("a", "b")))))

    @property
    def psi(self) -> Psi:
        coding = self.coding
        histogram = HistogramMeasurement("x", tuple(self.counts), self.stddev)
        sums = ()
        if self.total is not None:
            sums = (SumMeasurement(Sum(("x",)), (self.total,), self.total_stddev),)
        marginals = [Measurement(("g",), np.array([5, 6]), self.stddev)]
        if self.marginal is not None:
            table = np.array(self.marginal).reshape(-1, 2)
            marginals.insert(0, Measurement(("x", "g"), table, self.stddev))
        return Psi(coding.domain, tuple(marginals), (), (histogram,), sums)

    @property
    def level_counts(self) -> list[int] | None:
        if self.marginal is None:
            return None
        fitted = reconcile(self.psi.fitted).measurements[0].values
        rounding = {"rounding": ROUND_HALF_UP}
        return [int(Decimal(one).to_integral_value(**rounding)) for one in fitted.sum(axis=1).tolist()]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    units = st.one_of(st.integers(1, 3), st.sampled_from([50, 4999, 10**6, 2**28]))
    cells = draw(st.lists(units, min_size=1, max_size=6).filter(lambda one: sum(one) > 1))
    levels: list[int] = []
    while sum(levels) < len(cells):
        levels.append(draw(st.integers(1, len(cells) - sum(levels))))
    missing, noisy = draw(st.booleans()), draw(st.booleans())
    least = -30 if noisy else 0
    most = draw(st.sampled_from([3, 40, 10**6, 2**40]))
    counts = draw(
        st.lists(st.integers(least, most), min_size=len(cells) + missing, max_size=len(cells) + missing)
    )
    first = draw(st.integers(-(2**20), 2**20))
    width, records = sum(cells), sum(map(abs, counts)) + 3
    near = draw(st.integers(-records * width, records * width))
    total = draw(st.sampled_from([None, near, 2**100, -(2**100)]))
    marginal = None
    if noisy and draw(st.booleans()):
        size = 2 * (len(levels) + missing)
        marginal = draw(st.lists(st.integers(-20, most), min_size=size, max_size=size))
    return Case(
        cells,
        levels,
        first,
        missing,
        counts,
        draw(st.sampled_from([0.3, 7.5, 1e4])) if noisy else 0.0,
        total,
        draw(st.sampled_from([0.3, 1e4, 1e16, 1e300])) if noisy else 0.0,
        marginal,
    )


@dataclass
class Reference:
    """The definition, one number at a time, in exact fractions.

    Everything is in steps. Cells of a level are ``(low, u, f)``.
    """

    case: Case

    def __post_init__(self) -> None:
        case = self.case
        lows = [case.first + sum(case.cells[:place]) for place in range(len(case.cells))]
        rows = list(zip(lows, case.cells, case.counts[: len(lows)], strict=True))
        self.levels = []
        for size in case.levels:
            self.levels.append(rows[:size])
            rows = rows[size:]
        self.exact = case.stddev == 0
        last = case.first + sum(case.cells) - 1
        self.centre = case.first + (last - case.first) // 2

    def weights(self, cells: list[tuple[int, int, int]]) -> list[int]:
        """Whole numbers in whose proportion cells are picked."""
        counts = [count for _, _, count in cells]
        if self.exact:
            return counts
        total = sum(counts)
        near = [Fraction(unit) for _, unit, _ in cells] if total < 1 else self.nearest(counts, total)
        shares = [one * 2**31 / sum(near) for one in near]
        weights = [floor(one) for one in shares]
        order = sorted(range(len(cells)), key=lambda at: (weights[at] - shares[at], at))
        for at in order[: 2**31 - sum(weights)]:
            weights[at] += 1
        return weights

    @staticmethod
    def nearest(counts: list[int], total: int) -> list[Fraction]:
        """The one of all falls at which the sum of max(f - fall, 0) is the total."""
        for kept in range(1, len(counts) + 1):
            fall = Fraction(sum(sorted(counts)[-kept:]) - total, kept)
            near = [max(one - fall, Fraction(0)) for one in counts]
            if sum(near) == total:
                return near
        raise AssertionError

    def position(self) -> int:
        case, amounts = self.case, list[tuple[Fraction, int, int]]()
        for place, cells in enumerate(self.levels):
            weights, known = self.weights(cells), case.level_counts
            n = max(sum(f for _, _, f in cells), 0) if known is None else known[place]
            for weight, (low, unit, count) in zip(weights, cells, strict=True):
                amount = Fraction(count) if self.exact else Fraction(n * weight, 2**31)
                amounts.append((amount, low - self.centre, unit))
        room = sum(q * (u - 1) for q, _, u in amounts)
        if case.total is None or room <= 0:
            return 2**31
        above = case.total - sum(q * low for q, low, _ in amounts)
        r0 = min(max(floor(WORD * above / room), 0), WORD - 1)
        if self.exact:
            return r0
        v = Fraction(repr(case.total_stddev)) ** 2 / room**2
        return floor((r0 + 12 * v * 2**31) / (1 + 12 * v))

    def number(self, code: int, first: int, second: int, r: int) -> int:
        cells, hi, lo = self.levels[code], second >> 32, second % WORD
        if self.exact and sum(f for _, _, f in cells) == 0:
            return cells[0][0] + lo * sum(u for _, u, _ in cells) // WORD
        weights = self.weights(cells)
        target = (first >> 32) * sum(weights) // WORD
        at = next(at for at, upto in enumerate(accumulate(weights)) if target < upto)
        low, u, _ = cells[at]
        k = max(0, min(r * (u - 1) // WORD, u - 2))
        if hi * u < (k + u) * WORD - 2 * r * (u - 1):
            return low + lo * (k + 1) // WORD
        return low + k + 1 + lo * (u - 1 - k) // WORD


class TestDefinition:
    @settings(max_examples=400, deadline=None)
    @given(cases(), st.lists(st.tuples(*[halves] * 4), min_size=1, max_size=12))
    def test_numbers_are_those_of_the_slow_definition(self, case, words):
        reference, places = Reference(case), places_of(case.psi, case.coding)["x"]
        levels, r = len(case.levels), reference.position()
        size = levels + case.missing
        codes = (np.arange(len(words)) % size).astype(code_dtype(size))
        pairs = [(a << 32 | b, c << 32 | d) for a, b, c, d in words]
        flat = np.array(pairs, dtype=np.uint64).ravel()
        drawn, times = places.steps(codes, flat), 256 * levels
        many = places.steps(np.tile(codes, times), np.tile(flat, times))
        np.testing.assert_array_equal(many, np.tile(drawn, times))
        for code, pair, one in zip(codes.tolist(), pairs, drawn.tolist(), strict=True):
            if code < levels:
                assert one == reference.number(code, *pair, r)

    @pytest.mark.parametrize("u", [1, 2, 3, 7, 10**6, 2**31 - 1, 2**31])
    @given(r=halves)
    def test_the_mean_over_all_words_is_the_position(self, u, r):
        """In closed form: floor(i n / m) for i below m adds up to ((n-1)(m-1) + gcd(n, m) - 1) / 2."""
        places = self.one_cell(u, r)
        split, (below, above) = Fraction(int(places.splits[0]), WORD), places.counts.tolist()
        means = [
            Fraction((n - 1) * (WORD - 1) + gcd(n, WORD) - 1, 2 * WORD) if n else Fraction(0)
            for n in (below, above)
        ]
        mean = split * means[0] + (1 - split) * (below + means[1])
        assert below + above == u
        assert abs(mean - Fraction(r * (u - 1), WORD)) <= Fraction(u, WORD)

    @staticmethod
    def one_cell(u, r):
        """A cell of u numbers whose exact sum says the position."""
        edges = number([u], [1]) if u > 1 else number([1, 1], [1, 1])
        records, low = WORD, 0 - edges.scale.centre
        total = records * low + -(-r * records * (u - 1) // WORD)
        counts = (records,) if u > 1 else (records, records)
        psi = Psi(
            Domain(("x",), (edges.size,)),
            (Measurement(("x",), np.array(counts)),),
            (),
            (HistogramMeasurement("x", counts, 0.0),),
            (SumMeasurement(Sum(("x",)), (total,), 0.0),),
        )
        places = places_of(psi, Coding((Attribute("x", edges),)))["x"]
        return places if u > 1 else Places(1, *(part[:size] for part, size in parts_of(places)))

    @given(st.data())
    def test_every_number_is_in_its_level_at_the_ends_of_words(self, data):
        """At most 2^31 numbers and any number of records: nothing overflows."""
        u = data.draw(st.sampled_from([1, 2, 2**30, 2**31 - 2]))
        edges = number([1, u], [1, 1], first=-(2**30))
        count = data.draw(st.sampled_from([0, 1, WORD - 1, WORD, 2**53 + 1, 2**63, 10**30]))
        coding = Coding((Attribute("x", edges),))
        psi = Psi(
            coding.domain,
            (Measurement(("x",), np.array([1, 1])),),
            (),
            (HistogramMeasurement("x", (count, count), 0.0),),
            (SumMeasurement(Sum(("x",)), (data.draw(st.integers(-(10**45), 10**45)),), 0.0),),
        )
        words = np.array([a << 32 | b for a in ENDS for b in ENDS], dtype=np.uint64)
        pairs = np.array([(one, other) for one in words for other in words]).ravel()
        for level, (low, numbers) in enumerate(((-(2**30), 1), (-(2**30) + 1, u))):
            drawn = places_of(psi, coding)["x"].steps(np.full(len(pairs) // 2, level), pairs)
            assert (drawn.min() >= low, drawn.max() < low + numbers) == (True, True)

    def test_a_psi_that_is_none_of_the_schema_is_refused(self):
        case = Case([2, 3], [1, 1], 0, missing=False, counts=[4, 5], stddev=0.0)
        for counts in ((4, 5, 6), (4,), (4, -1)):
            histogram = HistogramMeasurement("x", counts, 0.0)
            psi = Psi(case.psi.domain, case.psi.measurements, (), (histogram,))
            with pytest.raises(InvalidPsiError):
                places_of(psi, case.coding)


def parts_of(places: Places) -> list[tuple[np.ndarray, int]]:
    """Arrays of the places, and how much of each is of the first cell."""
    return [(places.begins, 1), (places.splits, 1), (places.firsts, 2), (places.counts, 2)]


@given(
    st.sampled_from(["1", "0.01", "0.25", "5", "1000", "0.0000001"]),
    st.integers(-(2**30), 2**30),
    st.lists(st.integers(1, 10**6), min_size=2, max_size=5),
    st.integers(0, 2**64 - 1),
)
def test_a_number_is_written_with_the_decimals_of_the_step_and_gives_its_code_back(
    step, first, cells, seed
):
    edges = number(cells, [1] * len(cells), first=first, step=step)
    counts = np.random.default_rng(seed).integers(0, 9, len(cells)).tolist()
    histogram = HistogramMeasurement("x", tuple(counts), 0.0)
    domain = Domain(("x",), (edges.size,))
    psi = Psi(domain, (Measurement(("x",), np.array(counts)),), (), (histogram,))
    places = places_of(psi, Coding((Attribute("x", edges),)))
    codes = np.random.default_rng(seed).integers(edges.size, size=50)
    drawn = Numbers(seed, places=places).of("x", edges, codes)
    texts = [f"{one:.{edges.decimals}f}" for one in drawn.tolist()]
    assert all(Fraction(text) % Fraction(step) == 0 for text in texts)
    again = np.array([float(text) for text in texts])
    np.testing.assert_array_equal(codes_of_numbers("x", edges, again), codes)


KINDS = Coding(
    (
        Attribute("point", number([1, 40, 1], [1, 1, 1], missing=True)),
        Attribute("one", number([1, 1, 1, 2], [1, 1, 1, 1], first=-1)),
        Attribute("two", number([2, 2, 2], [1, 2], first=-3, step="0.5")),
        Attribute("wide", number([2**29, 2**30, 2**29], [1, 2], first=-7)),
        Attribute("amount", number([1, 99, 900, 4000, 1], [1, 3, 1], step="0.01", missing=True)),
        Attribute("day", number([60, 121, 184], [2, 1], first=15706, dates=True, missing=True)),
        Attribute(
            "group",
            Edges((0.0, 1.0, 50.01), missing=True),
            derivation=Derivation(("amount",), (0, 1, 1, 2)),
        ),
    )
)
"""An attribute of each kind of level; the last is derived, without a step."""

EXACT = {
    "point": ((5, 0, 9, 2), 30),
    "one": ((3, 1, 0, 4), 4),
    "two": ((3, 4, 0), -9),
    "wide": ((1, 5, 2), -(10**10)),
    "amount": ((30, 20, 0, 7, 3, 9), -150_000),
    "day": ((0, 0, 11, 4), 900),
}
"""Counts of the cells, and the sum in units: some levels have no records."""


def psi_of_kinds(stddev: float) -> Psi:
    """Return psi of histograms, sums and marginals; under noise some counts are negative."""
    less = 4 if stddev else 0
    histograms = [
        HistogramMeasurement(name, tuple(count - less for count in counts), stddev)
        for name, (counts, _) in EXACT.items()
    ]
    sums = [
        SumMeasurement(Sum((name,)), (total,), 100 * stddev)
        for name, (_, total) in EXACT.items()
        if name != "two"
    ]
    measurements = [
        Measurement((name,), np.arange(1, size + 1) * 7 - less, stddev)
        for name, size in zip(KINDS.domain.attributes, KINDS.domain.sizes, strict=True)
        if name != "one"
    ]
    return Psi(KINDS.domain, tuple(measurements), (), tuple(histograms), tuple(sums))


def rows_of_kinds() -> Dataset:
    codes = np.arange(5_000)[:, None] % np.array(KINDS.domain.sizes)
    codes[:, -1] = np.array([0, 1, 1, 2])[codes[:, 4]]
    return Dataset(KINDS.domain, codes)


class TestStream:
    @pytest.mark.parametrize(
        ("name", "exact", "noisy"),
        [
            ("point", "0d8bfb6def8dcb4b", "2668531f486f9a7e"),
            ("one", "ba92bd62973ecb4e", "7646fe73da776107"),
            ("two", "e623545adba3ed13", "1808cdfa696e3e95"),
            ("wide", "1ee38f3416b8bd84", "84d3c49e9e7e4a4f"),
            ("amount", "2833f215d8f56080", "1d525a1e3ad7419a"),
            ("day", "725fe46be02df062", "d6e304de90faa44d"),
            ("group", "2833f215d8f56080", "1d525a1e3ad7419a"),
        ],
    )
    def test_rows_of_seeds_stay_what_they_are(self, name, exact, noisy):
        """Stream v2 with histograms; also with other versions of numpy."""
        rows = rows_of_kinds()
        for stddev, digest in ((0.0, exact), (3.25, noisy)):
            drawn = Numbers.of_rows(20261127, rows, KINDS, places_of(psi_of_kinds(stddev), KINDS))
            numbers = drawn.of(name, KINDS.attribute(name).coding, rows.column(name))
            assert hashlib.sha256(numbers.astype("<f8").tobytes()).hexdigest()[:16] == digest

    def test_a_derived_number_is_that_of_its_source(self):
        rows, places = rows_of_kinds(), places_of(psi_of_kinds(0.0), KINDS)
        drawn = Numbers.of_rows(3, rows, KINDS, places)
        group = drawn.of("group", KINDS.attribute("group").coding, rows.column("group"))
        amount = Numbers(3, places=places).of(
            "amount", KINDS.attribute("amount").coding, rows.column("amount")
        )
        np.testing.assert_array_equal(group, amount)

    def test_rows_are_the_same_in_whatever_batches(self):
        rows, places = rows_of_kinds(), places_of(psi_of_kinds(3.25), KINDS)
        for name in EXACT:
            own, codes = KINDS.attribute(name).coding, rows.column(name)
            whole, parts = Numbers(9, places=places).of(name, own, codes), Numbers(9, places=places)
            split = [parts.of(name, own, part) for part in np.split(codes, [1, 7, 100, 250, 3_000])]
            np.testing.assert_array_equal(np.concatenate(split), whole)
            stored = drawn_numbers(rows, KINDS, [name], 9, places)
            np.testing.assert_array_equal(stored[name], whole)

    def test_rows_of_a_black_box_have_the_seed_of_their_digest(self):
        """Rows of a box come without a seed, and psi places their numbers all the same."""
        rows, places = rows_of_kinds(), places_of(psi_of_kinds(0.0), KINDS)
        box = AuditedBox("ab" * 32, "cd" * 32)
        facts = ("datasets/d/cards/c/releases/r", "0" * 64, rows.digest(), len(rows), (), 1)
        receipt = Receipt(*facts, "2026-11-27T00:00:00Z", psi_digest="1" * 64, audited=box)
        release = Release(rows, KINDS, receipt, b"", dict, True, tuple(EXACT), lambda: places)
        seed = int(rows.digest()[:16], 16)
        for name in ("amount", "wide"):
            own = KINDS.attribute(name).coding
            drawn = Numbers(seed, places=places).of(name, own, rows.column(name))
            np.testing.assert_array_equal(release.frame[name].to_numpy(dtype=float), drawn)
        assert "Numbers" not in dict(release.lines())
        uniform = replace(release, histograms=(), places=dict)
        assert dict(uniform.lines())["Numbers"].startswith("values inside levels are invented: point")

    def test_words_of_a_row_are_its_own_whatever_its_level(self):
        """Another code of one row changes no other number."""
        own, places = KINDS.attribute("amount").coding, places_of(psi_of_kinds(0.0), KINDS)
        codes = rows_of_kinds().column("amount").copy()
        before = Numbers(9, places=places).of("amount", own, codes)
        codes[100] = (codes[100] + 1) % own.size
        after = Numbers(9, places=places).of("amount", own, codes)
        assert np.flatnonzero(~((before == after) | (np.isnan(before) & np.isnan(after)))).tolist() == [
            100
        ]


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(5)
    spent = np.exp(rng.normal(4.0, 1.1, 20_000)).round(2)
    spent = np.where(rng.random(20_000) < 0.23, 0.0, np.minimum(spent, 10_000))
    return spent, rng.integers(2, size=20_000)


@pytest.fixture(scope="module")
def psi(records):
    coding = TestOfRecords.CODING
    phi = [("spent", "g"), Histogram("spent"), Sum(("spent",))]
    return measure(Records(coding, *records), phi, coding.domain)


class TestOfRecords:
    """Exact psi of skewed records, measured in the core: means, zeros and quantiles of rows."""

    EDGES = tuple(map(Decimal, (0, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)))
    SPENT = DeclaredScale(Decimal("0.01"), EDGES, (Decimal(0),), "ten-a-decade")
    CODING = Coding(
        (
            Attribute("spent", SPENT.edges_of(missing=False, dates=False)),
            Attribute("g", Labels(("a", "b"))),
        )
    )

    def test_mean_zeros_and_quantiles_are_those_of_the_records(self, psi, records):
        spent, edges = records[0], self.CODING.attribute("spent").coding
        fitted, places = psi.fitted, places_of(psi, self.CODING)
        drawn = []
        for seed in range(8):
            rows = synthesise(GENERATOR, fitted, fitted.domain, len(spent), seed)
            drawn.append(Numbers(seed, places=places).of("spent", edges, rows.column("spent")))
        whole = np.concatenate(drawn)
        assert abs(whole.mean() / spent.mean() - 1) < 0.02
        assert abs((whole == 0).mean() - (spent == 0).mean()) < 0.005
        for level, bar in ((0.5, 0.04), (0.95, 0.04), (0.99, 0.15)):
            assert abs(np.quantile(whole, level) / np.quantile(spent, level) - 1) < bar
        assert distance(whole, spent) < 0.03

    def test_without_the_histogram_the_mean_is_off(self, psi, records):
        """Control: without the histogram the test above would fail."""
        edges = self.CODING.attribute("spent").coding
        rows = synthesise(GENERATOR, psi.fitted, psi.fitted.domain, 20_000, 1)
        drawn = Numbers(1).of("spent", edges, rows.column("spent"))
        assert abs(drawn.mean() / records[0].mean() - 1) > 0.02


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Largest difference of the two distributions (Kolmogorov-Smirnov)."""
    both = np.concatenate([one, other])
    shares = [np.searchsorted(np.sort(part), both, "right") / len(part) for part in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


@dataclass
class Records:
    """Records in memory, whose numbers can be summed."""

    coding: Coding
    spent: np.ndarray
    group: np.ndarray

    def dataset(self) -> Dataset:
        codes = codes_of_numbers("spent", self.coding.attribute("spent").coding, self.spent)
        return Dataset.of_columns(self.coding.domain, [codes, self.group])

    def count(self, cliques):
        return count_all(self.dataset(), cliques)

    def summed(self, sums, histograms):
        sums = UnitSums(self.coding, sums, histograms)
        sums.add({"g": self.group}, {"spent": self.spent})
        return sums
