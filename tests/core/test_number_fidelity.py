"""Figures of numbers beside psi: by hand, beside pandas and brute force, with noise, by levels alone."""

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import combinations, product
from math import sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.controller.drafting.schema_draft import draft_schema
from gencard.controller.noise import OpenDpNoise
from gencard.controller.records.vault import Vault
from gencard.core.card.privacy import EXACT, gaussian
from gencard.core.card.sums import Histogram, Sum
from gencard.core.coding import PLAIN, Attribute, Coding, Edges, Labels, codes_of_numbers
from gencard.core.dataset import Dataset
from gencard.core.generators.contract import rng_of
from gencard.core.generators.registry import generator_named
from gencard.core.scale import Scale
from gencard.core.statistics.linear import UnitSums
from gencard.core.statistics.measure import measure
from gencard.core.statistics.numbers import places_of
from gencard.core.statistics.psi import HistogramMeasurement, Measurement, Psi, SumMeasurement
from gencard.measures.evaluation.evaluation import finding_to_json_object
from gencard.measures.evaluation.registry import finding_of_json_object
from gencard.measures.evaluation.utility_findings import FidelityFinding
from gencard.measures.utility.fidelity import Fidelity, fidelity
from gencard.measures.utility.numbers import NumberFigure, Source, Statistic, compare_with_records
from gencard.measures.utility.psi_numbers import PsiNumbers, compare_with_psi
from gencard.run.levels import Midpoints, Numbers
from tests.shared_data import shared_file

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
GENERATOR = generator_named("maximum-entropy", structural_zeros=(), max_cells=10_000_000)


def scaled(name: str, step: str, levels: str, cells: str = "", **others: bool) -> Attribute:
    """Args: levels and cells, first numbers and the last edge."""
    scale = Scale(Decimal(step), tuple(map(Decimal, (cells or levels).split())), times="times" in others)
    options = {name: value for name, value in others.items() if name != "times"}
    return Attribute(name, Edges.of_scale(tuple(map(Decimal, levels.split()))[:-1], scale, **options))


CODING = Coding(
    (
        Attribute("g", Labels(("a", "b"))),
        scaled("x", "1", "0 1 5 20", "0 1 2 3 5 7 10 15 20"),
        scaled("z", "0.5", "-5 0 2 9", "-5 -2 0 1 2 5 9", missing=True),
        scaled("k", "1", "0 1 2 2"),
    )
)
NUMBERS = ("x", "z", "k")
ALL_SUMS = tuple(
    Sum(of, (), present)
    for of, present in [
        (("x",), ()),
        (("x",), ("z",)),
        (("z",), ()),
        (("k",), ()),
        (("x", "x"), ()),
        (("x", "x"), ("z",)),
        (("x", "z"), ()),
        (("z", "z"), ()),
    ]
)


def made_up(records: int = 2_000, seed: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(records) < 0.3, 0, np.clip(np.rint(rng.gamma(2, 3, records)), 0, 20))
    z = np.clip(np.rint(2 * (x / 4 + rng.normal(0, 2, records))) / 2, -5, 9)
    return {
        "g": rng.integers(0, 2, records),
        "x": x.astype(float),
        "z": np.where(rng.random(records) < 0.1, np.nan, z),
        "k": rng.integers(0, 3, records).astype(float),
    }


def coded(values: dict[str, np.ndarray], coding: Coding = CODING) -> Dataset:
    columns = []
    for one in coding.attributes:
        numbers = values[one.name]
        is_number = isinstance(one.coding, Edges)
        columns.append(codes_of_numbers(one.name, one.coding, numbers) if is_number else numbers)
    return Dataset.of_columns(coding.domain, columns)


def psi_of(values, cliques, histograms=(), sums=(), coding=CODING, stddev=0.0, rng=None) -> Psi:
    """Psi of made-up records; with ``stddev`` on each count, and times its own size on sums."""
    dataset = coded(values, coding)
    codes = {name: dataset.column(name) for name in coding.domain.attributes}

    def noisy(counts, scale=stddev):
        moved = np.array(counts, dtype=object)
        noise = rng.normal(0, scale, moved.shape) if scale else np.zeros(moved.shape)
        whole = [round(one) for one in noise.flat]
        return moved + np.array(whole, dtype=object).reshape(moved.shape)

    marginals = []
    for clique in cliques:
        table = np.zeros(coding.domain.project(clique).sizes, dtype=np.int64)
        np.add.at(table, tuple(codes[name] for name in clique), 1)
        marginals.append(Measurement(clique, noisy(table).astype(np.int64), stddev))
    added = UnitSums(coding, sums, histograms)
    added.add(codes, {name: numbers for name, numbers in values.items() if name != "g"})
    fine = [
        HistogramMeasurement(name, tuple(noisy(counts)), stddev)
        for name, counts in zip(histograms, added.fine_counts(), strict=True)
    ]
    measured = []
    for one, cells in zip(sums, added.totals(), strict=True):
        beside, scale = one.counts_beside(cliques, coding), stddev * 10 ** len(one.of)
        counts = tuple(noisy(cells.counts)) if beside else ()
        measured.append(
            SumMeasurement(
                one, tuple(noisy(cells.values, scale)), scale, counts, stddev if beside else 0.0
            )
        )
    named = [*cliques, *((name,) for name in histograms), *(one.attributes for one in sums)]
    domain = coding.domain.covered_by(named)
    return Psi(domain, tuple(marginals), (), tuple(fine), tuple(measured))


PAIRS = tuple(combinations(CODING.domain.attributes, 2))


def by_name(table, statistic: Statistic, *names: str, at: float | None = None):
    (one,) = [
        one for one in table.figures if (one.attributes, one.statistic, one.at) == (names, statistic, at)
    ]
    return one


def rank_value(numbers: np.ndarray, share: float) -> float:
    """The value of rank max(1, ceil(q n))."""
    return float(np.quantile(numbers[~np.isnan(numbers)], share, method="inverted_cdf"))


class TestByHand:
    """Four records of x: 0, 0, 3, 9, and four rows: 0, 2, 4, 9."""

    CODING = Coding((scaled("x", "1", "0 1 10", "0 1 5 10"),))

    def table(self, histograms=("x",), powers=(1, 2)):
        records, rows = np.array([0.0, 0, 3, 9]), np.array([0.0, 2, 4, 9])
        sums = [Sum(("x",) * power) for power in powers]
        psi = psi_of({"x": records}, [("x",)], histograms, sums, self.CODING)
        return compare_with_psi(psi, self.CODING, ("x",), {"x": rows}.get)

    def test_with_sums(self):
        table = self.table()
        mean, sd = by_name(table, Statistic.MEAN, "x"), by_name(table, Statistic.SD, "x")
        assert (mean.known, mean.low, mean.high, mean.rows) == (3, 3, 3, 3.75)
        assert mean.source is sd.source is Source.SUMS
        assert sd.known == pytest.approx(sqrt((9 + 9 + 0 + 36) / 3))
        assert sd.rows == pytest.approx(np.std([0, 2, 4, 9], ddof=1))
        zero = by_name(table, Statistic.SHARE, "x", at=0.0)
        assert (zero.known, zero.rows, zero.stderr) == (0.5, 0.25, 0.25)
        assert not table.unexplained
        assert table.without_sd == table.without_correlation == table.without_numbers == ()

    def test_with_the_histogram_alone_figures_have_bounds(self):
        """Cells 0, 1 to 4 and 5 to 10 with two, one and one records."""
        table = self.table(powers=())
        mean, sd = by_name(table, Statistic.MEAN, "x"), by_name(table, Statistic.SD, "x")
        assert (mean.low, mean.known, mean.high) == (6 / 4, 10 / 4, 14 / 4)
        every = [np.std([0, 0, one, other], ddof=1) for one in range(1, 5) for other in range(5, 11)]
        assert sd.low <= min(every) * (1 + 1e-9)
        assert sd.low == pytest.approx(min(every), rel=0.03)  # the nearest numbers need not be whole
        assert sd.high >= max(every) * (1 - 1e-9)
        assert sd.high == pytest.approx(max(every), rel=0.03)
        quantile = by_name(table, Statistic.QUANTILE, "x", at=0.75)
        assert (quantile.low, quantile.high, quantile.rows) == (1, 4, 4)
        assert {one.source for one in table.figures} == {Source.HISTOGRAM}

    def test_with_levels_alone(self):
        table = self.table(histograms=(), powers=())
        mean = by_name(table, Statistic.MEAN, "x")
        assert (mean.low, mean.known, mean.high) == (2 / 4, 11 / 4, 20 / 4)
        assert by_name(table, Statistic.SHARE, "x", at=0.0).known == 0.5
        assert {one.source for one in table.figures} == {Source.LEVELS}


class TestBesidePandas:
    def test_all_figures_of_sums_are_those_of_the_records(self):
        values = made_up()
        psi = psi_of(values, PAIRS, NUMBERS, ALL_SUMS)
        rows = made_up(seed=4)
        table = compare_with_psi(psi, CODING, CODING.domain.attributes, rows.get)
        frame, drawn = (pd.DataFrame(one)[[*NUMBERS]] for one in (values, rows))
        for name in NUMBERS:
            for statistic, call in ((Statistic.MEAN, "mean"), (Statistic.SD, "std")):
                one = by_name(table, statistic, name)
                assert one.known == pytest.approx(getattr(frame[name], call)(), rel=1e-12)
                assert one.rows == pytest.approx(getattr(drawn[name], call)(), rel=1e-12)
                assert one.low == one.high == one.known or one.source is not Source.SUMS
            for share in SHARES:
                one = by_name(table, Statistic.QUANTILE, name, at=share)
                assert one.rows == rank_value(rows[name], share)
                assert one.low <= rank_value(values[name], share) <= one.high
        one = by_name(table, Statistic.CORRELATION, "x", "z")
        assert one.known == pytest.approx(frame.corr().loc["x", "z"], rel=1e-12)
        assert one.rows == pytest.approx(drawn.corr().loc["x", "z"], rel=1e-12)
        assert table.unexplained == ()

    def test_what_psi_lacks_is_named(self):
        psi = psi_of(made_up(), PAIRS, NUMBERS, ())
        table = compare_with_psi(psi, CODING, CODING.domain.attributes, made_up().get)
        assert set(table.without_correlation) == {("x", "z"), ("x", "k"), ("z", "k")}
        one_population = psi_of(made_up(), PAIRS, NUMBERS, [Sum(("x",)), Sum(("x", "x")), *ALL_SUMS[6:]])
        table = compare_with_psi(one_population, CODING, CODING.domain.attributes, made_up().get)
        assert ("x", "z") in table.without_correlation  # x over all records is another population

    def test_levels_of_one_number_are_as_good_as_sums(self):
        """Mean, deviation and correlation of two such attributes follow from their marginal."""
        coding = Coding((scaled("k", "1", "0 1 2 2"), scaled("m", "0.5", "0 0.5 1 1", missing=True)))
        rng = np.random.default_rng(1)
        k, m = rng.integers(0, 3, (2, 500)).astype(float)
        values = {"k": k, "m": np.where(rng.random(500) < 0.2, np.nan, np.maximum(m, k) / 2)}
        psi = psi_of(values, [("k", "m")], coding=coding)
        table = compare_with_psi(psi, coding, ("k", "m"), values.get)
        frame = pd.DataFrame(values)
        assert by_name(table, Statistic.MEAN, "m").known == pytest.approx(frame.m.mean())
        assert by_name(table, Statistic.SD, "m").known == pytest.approx(frame.m.std())
        one = by_name(table, Statistic.CORRELATION, "k", "m")
        assert (one.known, one.rows) == pytest.approx([frame.corr().loc["k", "m"]] * 2)
        assert one.source is Source.LEVELS

    @pytest.mark.parametrize(
        ("file", "names"),
        [
            ("hours", ("whrswk", "husby", "experience", "race")),
            ("medexp", ("med", "linc", "age", "sex")),
            ("price", ("price", "hd", "speed", "premium")),
            ("visits", ("ofp", "age", "numchron", "sex")),
            ("wage", ("wage", "exper", "school", "sex")),
        ],
    )
    def test_real_files(self, file, names):
        """Known figures beside those of the records, as rounded and clamped, and those of the rows."""
        psi, coding, values = measured_file(file, names)
        rows = drawn_rows(psi, coding, len(next(iter(values.values()))))
        facts = fidelity(psi, rows[0], coding=coding, numbers=rows[1])
        frame, drawn = (
            pd.DataFrame({name: numbers(name) for name in values}) for numbers in (values.get, rows[1])
        )
        for one in facts.numbers.figures:
            assert one.rows == pytest.approx(of_pandas(one, drawn), rel=1e-9, abs=1e-12), one
            known = of_pandas(one, frame)
            if one.source is Source.SUMS or one.statistic is Statistic.SHARE:
                assert one.known == pytest.approx(known, rel=1e-9, abs=1e-12), one
            else:
                assert one.low - 1e-9 * abs(known) <= known <= one.high + 1e-9 * abs(known), one
        heaps = {
            (one.attributes[0], one.at) for one in facts.numbers.figures if one.statistic == "share"
        }
        for name in values:
            shares = frame[name].value_counts(normalize=True)
            assert {(name, at) for at in shares.index[shares >= 0.1]} <= heaps
        only_correlations = {one.statistic for one in facts.numbers.unexplained}
        assert only_correlations <= {Statistic.CORRELATION}  # rows have no effects inside levels
        assert facts.unexplained == ()
        document = json.loads(
            json.dumps(finding_to_json_object(FidelityFinding(facts)), allow_nan=False)
        )
        assert finding_of_json_object("fidelity", document) == FidelityFinding(facts)


def of_pandas(one: NumberFigure, frame: pd.DataFrame) -> float:
    """The figure of a frame's own numbers."""
    column = frame[one.attributes[0]].dropna()
    match one.statistic:
        case Statistic.MEAN:
            return column.mean()
        case Statistic.SD:
            return column.std()
        case Statistic.QUANTILE:
            return rank_value(column.to_numpy(), one.at)
        case Statistic.SHARE:
            return (column == one.at).mean()
    return frame[[*one.attributes]].corr().iloc[0, 1]


def measured_file(file: str, names, privacy=EXACT):
    """Psi of some columns of a file with its drafted schema: pairs, histograms, sums and products."""
    path = shared_file(f"numbers_{file}.parquet")
    draft = draft_schema(path, file, today=date(2026, 1, 1))
    coding = Coding(tuple(one for one in draft.schema.coding.attributes if one.name in names))
    numbers = [one.name for one in coding.attributes if getattr(one.coding, "scale", None)]
    products = [*combinations(numbers, 2), *((name, name) for name in numbers)]
    phi = [
        *combinations(coding.domain.attributes, 2),
        *map(Histogram, numbers),
        *(Sum((name,)) for name in numbers),
        *(Sum(pair).in_order_of(coding.domain) for pair in products),
    ]
    vault = Vault(path, coding, draft.schema.readings)
    psi = measure(vault, phi, coding.domain, privacy, noise=OpenDpNoise())
    frame = pd.read_parquet(path)
    values = {}
    for name in numbers:
        edges = coding.attribute(name).coding
        absent = draft.schema.readings.get(name, PLAIN).absent
        column = frame[name].astype(float)
        present = column.where(~column.isin([*map(float, absent)]))
        values[name] = edges.scale.adjusted(present.to_numpy())
    return psi, coding, values


def drawn_rows(psi: Psi, coding: Coding, rows: int, seed: int = 1):
    """Rows of the maximum-entropy generator, and their numbers as a release has them."""
    fitted = psi.fitted
    dataset = GENERATOR.fit(fitted, fitted.domain).sample(rows, rng=rng_of(seed))
    places = places_of(psi, coding)

    def numbers(name: str):
        edges = coding.attribute(name).coding
        return Numbers(seed, places=places).of(name, edges, dataset.column(name))

    return dataset, numbers


class TestBounds:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.integers(0, 9), min_size=2, max_size=7), st.sets(st.integers(1, 9)))
    def test_they_hold_every_dataset_with_the_same_counts_and_are_reached(self, numbers, starts):
        cells = " ".join(
            map(str, [0, *sorted(starts - {0}), 9] if 9 not in starts else [0, *sorted(starts), 9])
        )
        coding = Coding((scaled("x", "1", "0 9", cells),))
        values = {"x": np.array(numbers, dtype=float)}
        known = PsiNumbers(psi_of(values, [("x",)], ("x",), coding=coding), coding)
        ends = [*map(int, cells.split())]
        last = [*(end - 1 for end in ends[1:-1]), 9]
        place = [max(i for i, start in enumerate(ends[:-1]) if start <= one) for one in numbers]
        choices = [sorted({ends[i], (ends[i] + last[i]) // 2, last[i]}) for i in place]
        every = np.array([*product(*choices)], dtype=float)
        mean, sd = known.mean("x"), known.sd("x")
        assert mean.low == pytest.approx(every.mean(axis=1).min())
        assert mean.high == pytest.approx(every.mean(axis=1).max())
        deviations = every.std(axis=1, ddof=1)
        assert sd.low <= deviations.min() + 1e-7
        assert sd.high >= deviations.max() - 1e-7
        assert sd.low - 1e-7 <= sd.value <= sd.high + 1e-7
        # numbers that need not be whole, of cells that need not be filled by whole records
        assert sd.high <= deviations.max() * 1.2 + 1e-7


class TestNoise:
    def test_the_stated_noise_is_the_spread_of_the_draws(self):
        values, stddev = made_up(4_000), 12.0
        drawn = {"x mean": [], "x sd": [], "z mean": [], "x z": [], "zero": []}
        stated = {name: [] for name in drawn}
        for seed in range(400):
            rng = np.random.default_rng(seed)
            psi = psi_of(values, [("g",), ("x", "z")], ("x", "z"), ALL_SUMS, stddev=stddev, rng=rng)
            known = PsiNumbers(psi, CODING)
            found = {
                "x mean": known.mean("x"),
                "x sd": known.sd("x"),
                "z mean": known.mean("z"),
                "x z": known.correlation("x", "z"),
                "zero": dict(known.heaps("x"))[0.0],
            }
            for name, one in found.items():
                drawn[name].append(one.value)
                stated[name].append(one.noise)
        for name, values_drawn in drawn.items():
            assert np.mean(stated[name]) == pytest.approx(np.std(values_drawn), rel=0.1), name

    def test_a_mean_of_noisy_cells_has_their_noise(self):
        values = made_up(4_000)
        means = [
            PsiNumbers(
                psi_of(values, [("g",)], ("x",), stddev=15.0, rng=np.random.default_rng(seed)), CODING
            ).mean("x")
            for seed in range(400)
        ]
        assert np.mean([one.noise for one in means]) == pytest.approx(
            np.std([one.value for one in means]), rel=0.1
        )

    def test_noise_that_hides_a_figure_leaves_it_out(self):
        psi = psi_of(made_up(), PAIRS, NUMBERS, ALL_SUMS)
        squares = [
            replace(one, values=(-(10**9),), stddev=1e9) if len(one.sum.of) == 2 else one
            for one in psi.sums
        ]
        noisy = Psi(psi.domain, psi.measurements, (), psi.histograms, tuple(squares))
        table = compare_with_psi(noisy, CODING, CODING.domain.attributes, made_up().get)
        assert {"x", "z"} <= {*table.without_sd}
        assert ("x", "z") in table.without_correlation

    def test_differences_below_the_noise_are_named_and_not_marked(self):
        psi = psi_of(made_up(), PAIRS, NUMBERS, ALL_SUMS, stddev=60.0, rng=np.random.default_rng(1))
        rows = made_up(seed=9)
        facts = fidelity(psi, coded(rows), coding=CODING, numbers=rows.get)
        assert facts.numbers.drowned
        assert all(one.noise > abs(one.difference) for one in facts.numbers.drowned)
        assert facts.numbers.unexplained == ()
        drowned = facts.unseen.drowned
        assert drowned
        assert [one.noise for one in drowned] == sorted((one.noise for one in drowned), reverse=True)
        assert all(one.noise > one.total_variation for one in drowned)

    def test_the_expected_distance_by_noise_alone(self):
        values = made_up(5_000)
        exact = psi_of(values, [("x", "z")])
        noisy = [
            psi_of(values, [("x", "z")], stddev=9.0, rng=np.random.default_rng(seed))
            for seed in range(200)
        ]
        moved = [
            np.abs(one.measurements[0].values - exact.measurements[0].values).sum() / 2 / 5_000
            for one in noisy
        ]
        facts = fidelity(noisy[0], coded(values).project(("x", "z")), coding=CODING)
        (one,) = facts.unseen.drowned
        assert one.noise == pytest.approx(np.mean(moved), rel=0.05)


class TestUnseen:
    def test_invented_values_and_pairs_of_levels(self):
        psi = psi_of(made_up(), PAIRS, ("x",), [Sum(("x",)), Sum(("x",), ("g",)), Sum(("x", "z"))])
        unseen = fidelity(psi, coded(made_up()), coding=CODING).unseen
        assert unseen.invented == ("z",)
        assert set(unseen.by_sums) == {("g", "x"), ("x", "z")}
        assert set(unseen.by_levels) == {("g", "z"), ("x", "k"), ("z", "k")}
        assert unseen.drowned == ()

    def test_nothing_is_unseen_of_labels_and_levels_of_one_number(self):
        values = made_up()
        psi = psi_of(values, [("g", "k")])
        facts = fidelity(psi, coded(values).project(("g", "k")), coding=CODING, numbers=values.get)
        assert facts.unseen is None

    def test_without_a_schema_the_facts_have_the_form_of_before(self):
        psi, rows = psi_of(made_up(), PAIRS, NUMBERS, ALL_SUMS), coded(made_up())
        facts = fidelity(psi, rows)
        assert facts == Fidelity(facts.rows, facts.marginals)
        assert set(finding_to_json_object(FidelityFinding(facts))["facts"]) == {"rows", "marginals"}


class TestRowsThatDiffer:
    PSI = psi_of(made_up(), PAIRS, NUMBERS, ALL_SUMS)

    def differing(self, rows):
        table = compare_with_psi(self.PSI, CODING, CODING.domain.attributes, rows.get)
        return {(*one.attributes, str(one.statistic)) for one in table.unexplained}

    def test_midpoints(self):
        rows = made_up(seed=5)
        codes = coded(rows)
        middle = {
            name: Midpoints().of(name, CODING.attribute(name).coding, codes.column(name))
            for name in NUMBERS
        }
        assert {("x", "mean"), ("x", "sd"), ("x", "quantile")} <= self.differing(middle)
        assert not {one for one in self.differing(middle) if "k" in one}

    def test_more_zeros(self):
        rows = made_up(seed=5)
        rows["x"][:200] = 0
        assert ("x", "share") in self.differing(rows)

    def test_a_shuffled_column(self):
        rows = made_up(seed=5)
        rows["z"] = np.random.default_rng(1).permutation(rows["z"])
        assert self.differing(rows) == {("x", "z", "correlation")}

    @pytest.mark.parametrize("rows", [60, 2_000])
    def test_chance_is_seldom_marked(self, rows):
        """Rows that are drawn from the records themselves; about one release in a hundred is marked."""
        records, marked = made_up(), 0
        for seed in range(300):
            places = np.random.default_rng(seed).integers(0, 2_000, rows)
            marked += bool(self.differing({name: one[places] for name, one in records.items()}))
        assert marked <= 9

    def test_rows_without_numbers(self):
        table = compare_with_psi(self.PSI, CODING, CODING.domain.attributes, lambda _name: None)
        assert table.figures == ()
        assert table.without_numbers == NUMBERS
        none = {name: np.full(5, np.nan) for name in NUMBERS}
        table = compare_with_psi(self.PSI, CODING, CODING.domain.attributes, none.get)
        assert {one.rows for one in table.figures} == {None}
        assert table.unexplained == ()


class TestRecords:
    def test_both_sides_are_those_of_pandas(self):
        rows, records = made_up(1_000, 5), made_up(3_000, 6)
        table = compare_with_records(CODING, CODING.domain.attributes, rows.get, records.get)
        for one in table.figures:
            assert one.source is Source.RECORDS
            assert one.low == one.high == one.known
        frames = [pd.DataFrame(one) for one in (records, rows)]
        for value, frame in zip(("known", "rows"), frames, strict=True):
            assert getattr(by_name(table, Statistic.MEAN, "x"), value) == pytest.approx(frame.x.mean())
            assert getattr(by_name(table, Statistic.SD, "z"), value) == pytest.approx(frame.z.std())
            pair = by_name(table, Statistic.CORRELATION, "z", "k")
            assert getattr(pair, value) == pytest.approx(frame.z.corr(frame.k))
            zero = by_name(table, Statistic.SHARE, "x", at=0.0)
            assert getattr(zero, value) == (frame.x == 0).mean()
        assert table.unexplained == ()

    def test_samples_of_one_population_are_seldom_marked_and_others_are(self):
        marked = [
            compare_with_records(
                CODING,
                CODING.domain.attributes,
                made_up(1_000, seed).get,
                made_up(1_500, 500 + seed).get,
            ).unexplained
            for seed in range(100)
        ]
        assert np.mean([bool(one) for one in marked]) <= 0.04
        rows = made_up(1_000, 5)
        rows["x"] = np.minimum(rows["x"] + 1, 20)
        (found, *_) = compare_with_records(
            CODING, CODING.domain.attributes, rows.get, made_up(1_500, 6).get
        ).unexplained
        assert found.attributes == ("x",)

    def test_no_attribute_with_a_step(self):
        coding = Coding((Attribute("g", Labels(("a", "b"))), Attribute("v", Edges((0.0, 1.0)))))
        assert compare_with_records(coding, ("g", "v"), made_up().get, made_up().get) is None


def test_dates_and_times_count_in_days_and_minutes():
    coding = Coding(
        (
            scaled("day", "1", "15706 15900 16070", dates=True),
            scaled("hour", "1", "0 720 1440", "0 360 720 1080 1440", times=True),
        )
    )
    rng = np.random.default_rng(1)
    values = {
        "day": rng.integers(15706, 16071, 800).astype(float),
        "hour": rng.integers(0, 1440, 800).astype(float),
    }
    sums = [Sum((name,) * power) for power in (1, 2) for name in ("day", "hour")] + [
        Sum(("day", "hour"))
    ]
    psi = psi_of(values, [("day", "hour")], ("day", "hour"), sums, coding)
    table = compare_with_psi(psi, coding, ("day", "hour"), values.get)
    for name, numbers in values.items():
        assert by_name(table, Statistic.MEAN, name).known == pytest.approx(numbers.mean(), rel=1e-12)
        assert by_name(table, Statistic.SD, name).known == pytest.approx(numbers.std(ddof=1), rel=1e-9)
    assert table.unexplained == ()


def test_a_noisy_card_of_a_real_file_says_what_it_does_not_see():
    psi, coding, _ = measured_file(
        "medexp", ("med", "age", "sex"), gaussian("0.05", neighbouring="add-remove")
    )
    rows = drawn_rows(psi, coding, 5_574)
    facts = fidelity(psi, rows[0], coding=coding, numbers=rows[1])
    assert facts.unseen.invented == ()
    assert facts.unseen.by_sums == (("med", "age"),)
    assert by_name(facts.numbers, Statistic.MEAN, "med").noise > 50
    assert facts.numbers.unexplained == ()
