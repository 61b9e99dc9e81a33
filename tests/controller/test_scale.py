"""Rounding, clamping, levels, cells and rows of numbers on a scale, beside exact decimals."""

import hashlib
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import floor
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.client.common.rows import read_rows, write_rows
from gencard.controller.jobs import answering as programs
from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.jobs.tasks import ProgramPart, RehearsalJob
from gencard.controller.records.declarations import (
    DeclaredScale,
    declared_of,
    declared_scale,
    ladder,
    starts_of,
)
from gencard.core.card.sums import Sum
from gencard.core.coding import Attribute, Coding, Edges, codes_of_numbers, scaled_numbers
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidInputError, UndeclaredLevelError
from gencard.core.scale import LARGEST_STEPS, MOST_STEPS, Scale
from gencard.core.statistics.linear import numbers
from gencard.core.statistics.marginals import rank
from gencard.core.statistics.numbers import places_of
from gencard.core.statistics.psi import HistogramMeasurement, Measurement, Psi
from gencard.run.levels import Numbers, values_of
from gencard.run.session import dataset_of_frame, frame_of
from gencard.wire.psi import coding_digest, coding_document, coding_of_document, psi_document

STEPS = st.sampled_from([*map(Decimal, ("1", "0.01", "0.25", "5", "0.1", "1000", "0.0000001", "3"))])


def on_scale(step: str, edges: str, points: str = "", **options: object) -> Edges:
    lists = [tuple(map(Decimal, one.split())) for one in (edges, points)]
    dates = bool(options.pop("dates", False))
    return DeclaredScale(Decimal(step), *lists, **options).edges_of(missing=True, dates=dates)


def exactly_rounded(number: float, step: Decimal) -> float:
    """The definition: half up, of the float's shortest decimal."""
    steps = floor(Fraction(repr(number)) / Fraction(step) + Fraction(1, 2))
    return float(steps * Fraction(step))


class TestRounding:
    @given(STEPS, st.lists(st.integers(-(2**30), 2**30), min_size=1), st.sampled_from([1, 2, 3, 4, 7]))
    def test_numbers_at_and_beside_halves_of_a_step(self, step, places, parts):
        """Numbers include those whose float lies on the other side of the half."""
        near = [float(Fraction(place, parts) * Fraction(step)) for place in places]
        given_numbers = np.array([*near, *np.nextafter(near, np.inf), *np.nextafter(near, -np.inf)])
        scale = Scale(step, (-(2**31) * step, 2**31 * step))
        assert scale.adjusted(given_numbers).tolist() == [
            exactly_rounded(number, step) for number in given_numbers.tolist()
        ]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("-0.005", "0"), ("-0.015", "-0.01"), ("2.675", "2.68"), ("1.005", "1.01"), ("0.145", "0.15")],
    )
    def test_half_up_of_the_decimal_and_not_of_the_float(self, text, expected):
        scale = Scale(Decimal("0.01"), (Decimal(-9), Decimal(9)))
        assert scale.adjusted(np.array([float(text)])).tolist() == [float(expected)]

    def test_what_is_no_number_stays_and_is_not_clamped(self):
        scale = Scale(Decimal(1), (Decimal(0), Decimal(9)), above=True, below=True)
        numbers_given = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, 9.5, -0.5])
        assert scale.adjusted(numbers_given)[3:].tolist() == [9, 0, 9, 0]
        assert np.isnan(scale.adjusted(numbers_given)[0])
        assert np.isinf(scale.adjusted(numbers_given)[1:3]).all()

    def test_what_changes_is_counted(self):
        coding = on_scale("0.5", "0 1 4", above=True)
        counts = coding.scale.adjustments(np.array([0, 0.3, 0.5, 4.2, 4.3, 99, -0.2, np.nan, np.inf]))
        assert (counts.rounded, counts.above, counts.below) == (4, 2, 0)
        assert (counts + counts).above == 4

    @given(st.lists(st.integers(-300, 300), min_size=2, max_size=9, unique=True).map(sorted), STEPS)
    def test_engines_may_compare_with_bounds_in_place_of_rounding(self, whole, step):
        """A value belongs to the level whose bounds it lies between, and to none outside all."""
        coding = DeclaredScale(step, tuple(step * one for one in whole)).edges_of(
            missing=False, dates=False
        )
        bounds = coding.scale.bounds(coding.edges[:-1])
        halves = [float(Fraction(half, 2) * Fraction(step)) for half in range(-601, 602)]
        values = np.array([*halves, *np.nextafter(halves, np.inf), *np.nextafter(halves, -np.inf)])
        level = np.searchsorted(bounds, values, side="right") - 1
        inside = (level >= 0) & (level < coding.size)
        np.testing.assert_array_equal(codes_of_numbers("x", coding, values[inside]), level[inside])
        for value in values[~inside].tolist():
            with pytest.raises(UndeclaredLevelError):
                codes_of_numbers("x", coding, np.array([value]))


class TestLevels:
    @given(
        st.lists(st.integers(-20, 40), min_size=2, max_size=6, unique=True).map(sorted),
        st.lists(st.integers(-20, 40), max_size=5, unique=True),
        st.booleans(),
    )
    def test_levels_are_those_that_a_person_would_write_down(self, edges, points, closed):
        """The last edge is the largest number, or the end after it, as 24:00 is."""
        last = edges[-1] - (not closed)
        points = [point for point in points if edges[0] <= point <= last]
        levels = []
        for low, high in pairwise(edges):
            inside = range(low, high + (closed and high == edges[-1]))
            here = [number for number in inside if number not in points]
            single = [(point,) for point in points if point in inside]
            runs = [
                tuple(one for one in here if all((one < p) == (q < p) for p in points)) for q in here
            ]
            levels += sorted({*runs, *single})
        starts = starts_of(edges, points, last)
        assert starts == tuple(level[0] for level in levels)
        assert sum(map(len, levels)) == last - edges[0] + 1
        assert starts_of(*declared_of(starts, edges[-1], last), last) == starts

    def test_a_point_splits_and_what_has_no_value_is_dropped(self):
        assert on_scale("1", "0 1 2 5", "0 1").level_names == ("0", "1", "[2, 5]", "missing")
        coding = on_scale("0.01", "0 10 100", "0 20 100")
        names = ("0", "[0.01, 10)", "[10, 20)", "20", "[20.01, 100)", "100", "missing")
        assert coding.level_names == names
        codes = codes_of_numbers("x", coding, np.array([99.99, 99.994, 99.995, 100, np.nan]))
        assert codes.tolist() == [4, 4, 5, 5, 6]

    def test_a_level_counts_as_the_mean_of_its_numbers(self):
        coding = on_scale("0.25", "0 1 2", "0 2")
        means = [
            sum(number for number in np.arange(0, 2.25, 0.25) if low <= number <= high)
            / sum(low <= number <= high for number in np.arange(0, 2.25, 0.25))
            for low, high in ((0, 0), (0.25, 0.75), (1, 1.75), (2, 2))
        ]
        assert list(coding.midpoints) == means
        assert [float(one) for one in numbers(Attribute("x", coding))[:-1]] == means

    def test_cells_are_refined_by_edges_points_and_points_of_their_own(self):
        declared = DeclaredScale(
            Decimal(1), (Decimal(0), Decimal(7), Decimal(20)), (Decimal(3),), Decimal(5), (Decimal(12),)
        )
        cells = declared.edges_of(missing=False, dates=False).scale.cells
        assert cells == (0, 3, 4, 5, 7, 10, 12, 13, 15, 20)

    def test_ten_a_decade_begins_at_a_tenth_of_the_smallest_edge(self):
        cells = ladder((Decimal(0), Decimal(10), Decimal(50)), Decimal("0.1"))
        assert list(map(float, cells[:12])) == [0, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]
        assert cells[-1] == 50
        both = ladder((Decimal(-20), Decimal(0), Decimal(5)), Decimal(1))
        assert (both[0], both[-1]) == (-20, 5)
        assert list(both) == sorted({*both})


class TestTimes:
    """Times of day: the last edge may be 24:00, the end after the last value."""

    DAY = on_scale("1", "0 360 720 1440", "0 1439", times=True, fine=Decimal(60))

    def test_units_count_from_the_middle_of_all_steps(self):
        scale = self.DAY.scale
        assert (scale.ends, scale.centre, scale.unit_ends) == ((0, 1440), 720, (-720, 720))
        assert (scale.last, scale.size) == (1439, 1440)
        assert scale.units(np.array([0.0, 720, 1439])).tolist() == [-720, 0, 719]

    def test_the_last_level_ends_before_the_end_of_the_day(self):
        names = ("00:00", "[00:01, 06:00)", "[06:00, 12:00)", "[12:00, 23:59)", "23:59", "missing")
        assert self.DAY.level_names == names
        assert on_scale("1", "1200 1440", times=True).level_names[0] == "[20:00, 24:00)"
        assert on_scale("1", "480 1200", times=True).level_names[0] == "[08:00, 20:00]"
        assert on_scale("1", "1439 1440", times=True).level_names[0] == "23:59"
        assert self.DAY.ends[-1] == (1439, 1439)
        assert self.DAY.midpoints[3] == (720 + 1438) / 2

    @pytest.mark.parametrize("clamped", [{}, {"above": True, "below": True}])
    def test_no_value_is_the_end_of_the_day(self, clamped):
        coding = on_scale("1", "360 1440", times=True, **clamped)
        assert codes_of_numbers("x", coding, np.array([360, 1439, np.nan])).tolist() == [0, 0, 1]
        if not clamped:
            with pytest.raises(UndeclaredLevelError):
                codes_of_numbers("x", coding, np.array([1440.0]))
        assert coding.scale.adjusted(np.array([1440.0])).tolist() == [1439 if clamped else 1440]
        assert coding.scale.adjustments(np.array([1440.0, 1439])).above == bool(clamped)

    def test_rows_are_all_minutes_of_the_day_and_no_other(self):
        words = np.random.default_rng(5).integers(0, 2**64, 40_000, dtype=np.uint64)
        coding = on_scale("1", "1430 1440", times=True)
        drawn = scaled_numbers(coding, coding.scale, np.zeros(20_000, dtype=np.int64), words)
        assert {*drawn.tolist()} == {*range(1430, 1440)}

    def test_the_price_counts_the_minutes_that_can_occur(self):
        """Ten levels of one minute each: what their marginal determines costs nothing more."""
        points = " ".join(map(str, range(1430, 1440)))
        coding = Coding((Attribute("x", on_scale("1", "1430 1440", points, times=True)),))
        marginal, total = (("x",),), (Sum(("x",)), Sum(("x", "x")))
        assert rank(coding, marginal, (), total) == rank(coding, marginal, (), ()) == 11

    @pytest.mark.parametrize(
        ("edges", "options", "problem"),
        [
            ("0 1441", {}, "outside the day"),
            ("0 1440 1441", {}, "outside the day"),
            ("-1 60", {}, "outside the day"),
            ("0 1440", {"points": (Decimal(1440),)}, "one of points lies outside the edges: 24:00"),
            ("0 720", {"points": (Decimal(780),)}, "one of points lies outside the edges: 13:00"),
            ("0 1440", {"fine": (Decimal(0), Decimal(1439))}, "fine must begin with the first and end"),
        ],
    )
    def test_wrong_times_are_refused(self, edges, options, problem):
        numbers = tuple(map(Decimal, edges.split()))
        with pytest.raises(ValueError, match=problem):
            DeclaredScale(Decimal(1), numbers, times=True, **options).edges_of(missing=True, dates=False)
        with pytest.raises(ValueError, match="step of times of day"):
            DeclaredScale(Decimal("0.5"), numbers, times=True).edges_of(missing=True, dates=False)


class TestRows:
    @given(
        st.lists(st.integers(-300, 300), min_size=2, max_size=9, unique=True).map(sorted),
        st.lists(st.integers(-300, 300), max_size=4, unique=True),
        STEPS,
        st.integers(0, 2**64 - 1),
    )
    def test_each_number_is_on_the_step_and_gives_its_code_back(self, edges, points, step, seed):
        points = [point for point in points if edges[0] <= point <= edges[-1]]
        lists = (tuple(step * one for one in part) for part in (edges, points))
        coding = DeclaredScale(step, *lists).edges_of(missing=True, dates=False)
        codes = np.random.default_rng(seed).integers(coding.size, size=200)
        drawn = Numbers(seed).of("x", coding, codes)
        present = codes < coding.size - 1
        np.testing.assert_array_equal(codes_of_numbers("x", coding, drawn), codes)
        assert all(Fraction(repr(one)) % Fraction(step) == 0 for one in drawn[present].tolist())

    def test_numbers_of_a_level_are_equally_frequent(self):
        coding = on_scale("1", "0 7 20", "3")
        drawn = Numbers(5).of("x", coding, np.full(40_000, 2))  # 4, 5, 6
        counts = np.bincount(drawn.astype(int))[4:7]
        assert counts.sum() == 40_000
        assert np.all(np.abs(counts - 40_000 / 3) < 4 * np.sqrt(40_000 * 2 / 9))

    def test_rows_are_the_same_in_whatever_batches(self):
        coding = on_scale("0.01", "0 10 100", "0")
        codes = np.random.default_rng(1).integers(coding.size, size=1_000)
        whole, parts = Numbers(9).of("x", coding, codes), Numbers(9)
        np.testing.assert_array_equal(
            np.concatenate([parts.of("x", coding, part) for part in np.split(codes, [1, 7, 500])]), whole
        )

    @pytest.mark.parametrize(
        ("coding", "digest"),
        [
            (on_scale("0.01", "0 10 100 5000", "0 20"), "6ed6be691bbcdb2a"),
            (on_scale("1", "-40 0 50", "0 50"), "9bd4350f6442b7a4"),
            (on_scale("0.25", "-2 0.5 1"), "fc56cb68385cf49a"),
            (on_scale("1", "0 2147483647"), "f9fb6515fcf7dbc5"),
            (on_scale("1", "15706 15887 16070", dates=True), "865706d718fe77af"),
        ],
    )
    def test_rows_of_seeds_stay_what_they_are(self, coding, digest):
        """Stream v2; also with other versions of numpy."""
        codes = np.arange(5_000) % coding.size
        drawn = Numbers(20261127).of("a name", coding, codes)
        assert hashlib.sha256(drawn.astype("<f8").tobytes()).hexdigest()[:16] == digest


def test_a_rehearsed_program_gets_the_numbers_that_psi_places(monkeypatch, tmp_path):
    """The numbers are those of the analyst's own dry run."""
    coding = Coding((Attribute("amount", on_scale("1", "0 10 1000", "0", fine=Decimal(5))),))
    rows = Dataset(coding.domain, np.arange(400)[:, None] % coding.domain.sizes[0])
    RowsFile(tmp_path / "rows").write(rows)
    cells = len(coding.attribute("amount").coding.scale.cells)
    counts = tuple(int(place % 3 == 0) * 7 for place in range(cells))
    histogram = HistogramMeasurement("amount", counts, 0.0)
    marginal = Measurement(("amount",), np.ones(coding.domain.sizes, dtype=np.int64))
    psi = Psi(coding.domain, (marginal,), (), (histogram,))
    seen = {}

    class Program:
        def outputs(self, _rows, _coding, stored, *, seed):
            seen.update(stored)
            return ()

    recipe = SimpleNamespace(of_recipe=lambda *_: Program())
    monkeypatch.setattr(programs, "SandboxedAnalysis", recipe)
    schema = SimpleNamespace(coding=coding)
    part = ProgramPart(None, (), 1, 0, ("amount",))
    for document, places in ((psi_document(psi), places_of(psi, coding)), (b"", {})):
        programs.rehearse(RehearsalJob(part, tmp_path / "rows", schema, 9, document), lambda *_: None)
        drawn = Numbers(9, places=places).of(
            "amount", coding.attribute("amount").coding, rows.column("amount")
        )
        np.testing.assert_array_equal(seen["amount"], drawn)


@pytest.mark.parametrize("form", ["numbers", "levels", "midpoints"])
@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", ""])
def test_rows_in_files_and_frames_are_read_back(tmp_path, form, name):
    """The last level may be one number."""
    amounts, days = on_scale("0.01", "0 10 100", "0 100"), on_scale("1", "15706 15900", dates=True)
    times = on_scale("1", "0 360 1440", "719", times=True)
    columns = {"amount": amounts, "day": days, "hour": times}
    coding = Coding(tuple(Attribute(*column) for column in columns.items()))
    codes = np.array([[row % size for size in coding.domain.sizes] for row in range(60)])
    rows = Dataset(coding.domain, codes)
    values = values_of(form, 7, rows, coding)
    if name:
        write_rows(rows, coding, tmp_path / name, values)
        again = read_rows(tmp_path / name, coding, coding.domain)
        if name == "rows.csv" and form != "levels":
            *_, hours = pd.read_csv(tmp_path / name, dtype=str).items()
            assert hours[1].dropna().str.fullmatch("[0-2][0-9]:[0-5][0-9]").all()
    else:
        frame = frame_of(rows, coding, values)
        again = dataset_of_frame(frame, coding, coding.domain)
    np.testing.assert_array_equal(again.codes, codes)


class TestDocument:
    CODING = Coding(
        (
            Attribute("med", on_scale("0.01", "0 10 1000", "0 10", above=True, fine=Decimal(5))),
            Attribute("day", on_scale("1", "15706 16070", below=True, dates=True)),
            Attribute("old", Edges((0.0, 1.0, 9.0), decimals=0)),
            Attribute("hour", on_scale("1", "0 360 1440", times=True)),
        )
    )

    def test_it_holds_levels_and_cells_as_decimals(self):
        med, day, old, hour = coding_document(self.CODING)["attributes"]
        assert med["edges"] == ["0", "0.01", "10", "10.01", "1000"]
        assert med["cells"][:6] == ["0", "0.01", "5", "10", "10.01", "15"]
        assert (med["step"], med["above"]) == ("0.01", "highest")
        assert "below" not in med
        assert (day["below"], day["dates"]) == ("lowest", True)
        assert (hour["times"], hour["edges"]) == (True, ["0", "360", "1440"])
        assert not {"times", "step"} & {*old}
        assert "times" not in {**med, **day}
        assert coding_of_document(coding_document(self.CODING)) == self.CODING

    def test_what_the_records_were_asked_for_is_not_part_of_it(self):
        first, *others = self.CODING.attributes
        drafted = Coding((Attribute("med", first.coding, "words", drafted="records"), *others))
        assert coding_digest(drafted) == coding_digest(self.CODING)

    @pytest.mark.parametrize(
        "change",
        [
            {"step": "0.010"},
            {"step": "0"},
            {"step": "-1"},
            {"step": 1},
            {"step": "1e-2"},
            {"step": "NaN"},
            {"cells": ["0", "1000"]},
            {"cells": ["0", "0.01", "10", "10.01", "1001"]},
            {"cells": ["0", "0.01", "10", "10.01", "10.005", "1000"]},
            {"edges": ["0", "0.01", "0.01", "1000"]},
            {"edges": ["1000"]},
            {"edges": []},
            {"above": "lowest"},
            {"above": True},
        ],
    )
    def test_no_other_form_is_read(self, change):
        document = coding_document(self.CODING)
        document["attributes"][0] |= change
        with pytest.raises(InvalidInputError):
            coding_of_document(document)


@given(STEPS, st.integers(-(2**40), 2**40), st.integers(1, 2**33))
def test_a_scale_has_bounds_on_its_size(step, first, steps):
    edges = (first * step, (first + steps) * step)
    problem = Scale(step, edges).problem()
    over, _ = step.as_integer_ratio()
    fits = steps < MOST_STEPS and max(abs(first), abs(first + steps)) * over < LARGEST_STEPS
    assert (problem is None) is fits


def test_every_declaration_of_levels_is_found_again():
    coding = on_scale("0.5", "0 2 4.5 9", "0.5 1 9", above=True, fine=Decimal("1.5"))
    again = declared_scale(coding, coding.scale)
    assert again.edges_of(missing=True, dates=False) == coding
