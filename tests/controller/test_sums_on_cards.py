"""Histograms and sums: judged, measured at files with noise, in documents and on the wire."""

from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from gencard.controller.policy.judgement import judge
from gencard.controller.records.schema_file import schema_of_text
from gencard.controller.records.vault import Vault
from gencard.core.card.budget import Price
from gencard.core.card.card import CounterOffer
from gencard.core.card.privacy import AS_COUNTED, EXACT, InsideGenerator, Transform, gaussian, laplace
from gencard.core.card.sums import Histogram, Moment, MomentKind, Sum
from gencard.core.card.terms import Proposal
from gencard.core.errors import (
    InvalidCodingError,
    InvalidInputError,
    InvalidPsiError,
    MeasurementRefusedError,
    TooLargeError,
)
from gencard.core.policy import MomentPolicy, NumbersOffer
from gencard.core.statistics.linear import fine_cells
from gencard.core.statistics.measure import measure
from gencard.core.statistics.psi import Psi, rounding_stddev
from gencard.wire import tables as psi_codec
from gencard.wire.canonical import json_bytes
from gencard.wire.documents import terms_document, terms_of_document
from gencard.wire.psi import psi_document, psi_of_document
from gencard.wire.tables import psi_chunks, psi_of_chunks
from tests.controller import test_policy
from tests.controller.test_policy import LIMITS
from tests.core.seeded_noise import SeededNoise

SCHEMA = """
title = "Spending"
declared_by = "An office"
reviewed = true

[[attributes]]
name = "sex"
labels = ["f", "m"]

[[attributes]]
name = "spent"
edges = [0, 10, 100, 1000]
points = [0]
step = "0.01"
fine = "ten-a-decade"
above = "highest"
missing = true

[[attributes]]
name = "hours"
edges = [0, 40, 80]
step = "1"
"""

POLICY = replace(
    test_policy.POLICY,
    largest_order=2,
    largest_marginal_cells=100,
    most_marginals=3,
    most_per_card=Price(statistics=1_000, epsilon=Decimal(5), rho=Decimal(5)),
    mechanisms=("exact", "laplace", "gaussian"),
    noise=gaussian("0.1", neighbouring="add-remove"),
    histograms=NumbersOffer.NOISE,
    sums=NumbersOffer.NOISE,
)
NOISE = gaussian("0.5", neighbouring="add-remove")


@pytest.fixture(scope="module")
def coding():
    return schema_of_text(SCHEMA, "schema.toml").coding


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(4)
    spent = np.where(rng.random(3_000) < 0.2, 0, rng.exponential(80, 3_000).round(2))
    return pd.DataFrame(
        {
            "sex": np.where(rng.random(3_000) < 0.5, "f", "m"),
            "spent": pd.Series(spent).mask(rng.random(3_000) < 0.1),
            "hours": rng.integers(0, 81, 3_000),
        }
    )


def asked(**changes) -> Proposal:
    usual = {"privacy": NOISE, "histograms": ("spent",), "sums": (Sum(("spent",), ("sex",)),)}
    return Proposal(
        dataset="spending",
        purpose="To see",
        marginals=(("sex", "spent"),),
        generator="ipf",
        rows=10,
        **(usual | changes),
    )


def judged(coding, proposal, policy=POLICY):
    offer = judge(proposal.in_order_of(coding.domain), policy, coding.domain, LIMITS, {}, coding=coding)
    assert isinstance(offer, CounterOffer)
    return offer


class TestJudgement:
    def test_with_noise_they_are_offered_as_they_are_and_cost_the_noise(self, coding):
        offer = judged(coding, asked())
        assert (offer.terms.histograms, offer.terms.sums) == (("spent",), (Sum(("spent",), ("sex",)),))
        assert (offer.changes, offer.price) == ((), Price(rho=Decimal("0.5")))

    @pytest.mark.parametrize(
        ("policy", "changes", "reasons"),
        [
            ({"histograms": "never"}, {}, {"HISTOGRAM_NOT_OFFERED"}),
            ({"sums": "never"}, {}, {"SUM_NOT_OFFERED"}),
            ({}, {"privacy": EXACT}, {"HISTOGRAM_NOT_OFFERED", "SUM_NOT_OFFERED"}),
            ({"sums": "exact"}, {"privacy": EXACT}, {"HISTOGRAM_NOT_OFFERED"}),
            ({"histograms": "exact"}, {"privacy": EXACT}, {"SUM_NOT_OFFERED"}),
            (
                {"histograms": "exact", "sums": "exact", "transform": Transform(rounding=5)},
                {"privacy": EXACT},
                {"TRANSFORM_REQUIRED", "ROUNDING"},
            ),
            (
                {"histograms": "exact", "sums": "exact", "most_per_card": Price(statistics=13)},
                {"privacy": EXACT},
                {"PRICE_TOO_HIGH"},
            ),
            (
                {"forbidden": (("sex", "hours"),)},
                {"sums": (Sum(("hours",), ("sex",)),)},
                {"FORBIDDEN_TOGETHER"},
            ),
            ({}, {"sums": (Sum(("hours",), ("sex",), ("spent",)),)}, {"ORDER_TOO_HIGH"}),
            ({"largest_marginal_cells": 15}, {}, {"TOO_MANY_CELLS"}),
            (
                {"most_marginals": 1},
                {"sums": (Sum(("hours",)), Sum(("spent",)))},
                {"TOO_MANY_MARGINALS"},
            ),
        ],
    )
    def test_what_the_policy_does_not_offer_is_left_out_with_its_reason(
        self, coding, policy, changes, reasons
    ):
        offers = {name: NumbersOffer(policy[name]) for name in ("histograms", "sums") if name in policy}
        offer = judged(coding, asked(**changes), replace(POLICY, **(policy | offers)))
        assert {one.reason for one in offer.changes} == reasons
        assert {one.field for one in offer.changes} <= {"histograms", "sums", "transform"}

    def test_exact_ones_cost_what_they_add_and_noise_goes_on(self, coding):
        offers = {"histograms": NumbersOffer.EXACT, "sums": NumbersOffer.EXACT}
        policy = replace(POLICY, **offers)
        offer = judged(coding, asked(privacy=EXACT), policy)
        fine = fine_cells(coding, "spent")
        assert fine > 5
        assert (offer.changes, offer.price) == ((), Price(statistics=2 * 5 + (fine - 5) + 2))
        assert judged(coding, asked(), policy).price == Price(rho=Decimal("0.5"))

    def test_weights_stay_with_their_statistics(self, coding):
        sums = (Sum(("hours",), ("sex",), ("spent",)), Sum(("hours",)))
        offer = judged(coding, asked(sums=sums, weights=(1, 2, 3, 4)))
        assert offer.terms.sums == (Sum(("hours",)),)
        assert offer.terms.weights == (1, 2, 4)

    def test_numbers_without_a_step_and_sums_too_large_are_refused_before_anything(self, coding):
        for changes in ({"histograms": ("sex",)}, {"sums": (Sum(("sex",)),)}):
            with pytest.raises(InvalidCodingError):
                judged(coding, asked(**changes))
        small = replace(LIMITS, marginals=2)
        with pytest.raises(TooLargeError):
            judge(asked(), POLICY, coding.domain, small, {}, coding=coding)

    def test_moments_of_levels_of_several_numbers_are_refused_for_sums(self):
        rooms = '[[attributes]]\nname = "rooms"\nedges = [1, 2, 3]\npoints = [3]\nstep = "1"\n'
        coding = schema_of_text(f"{SCHEMA}\n{rooms}", "schema.toml").coding
        mean, by = MomentKind.MEAN, MomentKind.GROUP_MEANS
        moments = {
            Moment(mean, ("hours",)): False,
            Moment(mean, ("rooms",)): True,
            Moment(by, ("hours", "rooms")): True,
            Moment(by, ("rooms", "hours")): False,
            Moment(MomentKind.COVARIANCE, ("hours", "rooms")): False,
        }
        kinds = (mean, by, MomentKind.COVARIANCE)
        policy = replace(
            POLICY, moments=MomentPolicy(kinds=kinds), generators=("maximum-entropy",), most_marginals=9
        )
        proposal = replace(asked(histograms=(), sums=()), generator="maximum-entropy")
        offer = judged(coding, replace(proposal, moments=tuple(moments)), policy)
        assert set(offer.terms.moments) == {one for one, kept in moments.items() if kept}
        refused = {str(one) for one, kept in moments.items() if not kept}
        assert {(one.old, one.reason) for one in offer.changes} == {
            (words, "USE_SUMS") for words in refused
        }

    def test_a_card_of_tier_private_has_none(self):
        private = InsideGenerator(laplace(1, neighbouring="add-remove"))
        with pytest.raises(InvalidInputError):
            asked(privacy=private)
        terms = asked(weights=(5, 2, 2)).measured_as(private)
        assert (terms.histograms, terms.sums, terms.weights) == ((), (), (5,))


@pytest.fixture(scope="module", params=["csv", "parquet"])
def vault(request, frame, coding, tmp_path_factory):
    path = tmp_path_factory.mktemp("spending") / f"records.{request.param}"
    getattr(frame, f"to_{request.param}")(path, index=False)
    return Vault(path, coding)


SUMS = (
    Sum((), ("sex",), ("spent",)),
    Sum(("spent",)),
    Sum(("spent",), ("sex",)),
    Sum(("hours",), ("spent",)),
    Sum(("hours",), (), ("spent",)),
    Sum(("spent", "spent"), ("hours",)),
    Sum(("spent", "hours")),
)


def measured(vault, privacy, noise=None) -> Psi:
    statistics = [("sex", "spent"), Histogram("spent"), *SUMS]
    return measure(vault, statistics, vault.coding.domain, privacy, noise=noise)


class TestMeasurement:
    def test_exact_sums_are_those_of_pandas_in_whole_units(self, vault, frame):
        psi = measured(vault, EXACT)
        cents = (frame.spent * 100).round().clip(upper=100_000) - 50_000
        hours = frame.hours - 40
        table = frame.assign(u=cents, v=hours)
        present = table.dropna()
        of = {one.sum: one for one in psi.sums}
        assert of[SUMS[0]].values == tuple(present.groupby("sex").size())
        assert of[SUMS[1]].values == (int(present.u.sum()),)
        assert of[SUMS[2]].values == tuple(present.groupby("sex").u.sum().astype(int))
        levels = pd.cut(table.spent, [-1, 0, 9.995, 99.995, 1e9], labels=False).fillna(4)
        assert of[SUMS[3]].values == tuple(table.groupby(levels).v.sum().astype(int))
        assert of[SUMS[4]].values == (int(present.v.sum()),)
        by_hours = present.groupby(present.hours >= 40)
        assert of[SUMS[5]].values == tuple(by_hours.apply(lambda part: int((part.u**2).sum())))
        assert of[SUMS[5]].counts == tuple(by_hours.size())
        assert of[SUMS[6]].values == (int((present.u * present.v).sum()),)
        assert (of[SUMS[2]].counts, of[SUMS[1]].counts, of[SUMS[6]].counts) == ((), (), ())

    def test_the_histogram_refines_the_marginal(self, vault, frame, coding):
        (histogram,) = measured(vault, EXACT).histograms
        scale = coding.attribute("spent").coding.scale
        edges = [float(edge) for edge in scale.cells]
        spent = frame.spent.clip(upper=1_000).dropna()
        cells = pairwise(edges[:-1])
        expected = [int(((spent >= low) & (spent < high)).sum()) for low, high in cells]
        assert histogram.counts[:-2] == tuple(expected)
        assert histogram.counts[-1] == int(frame.spent.isna().sum())
        assert sum(histogram.counts) == len(frame)

    def test_generators_see_marginals_alone(self, vault):
        psi = measured(vault, EXACT)
        assert psi.domain.attributes == ("sex", "spent", "hours")
        assert psi.fitted.domain.attributes == ("sex", "spent")
        assert (psi.fitted.histograms, psi.fitted.sums) == ((), ())

    def test_noise_has_the_spread_that_psi_states(self, vault):
        exact = measured(vault, EXACT)
        draws = [measured(vault, NOISE, SeededNoise(seed)) for seed in range(60)]
        for place, one in enumerate(exact.sums):
            errors = np.array(
                [np.subtract(draw.sums[place].values, one.values) for draw in draws], float
            )
            stated = draws[0].sums[place].stddev
            assert 0.7 < errors.std() / stated < 1.3
            assert bool(one.counts) == bool(draws[0].sums[place].counts_stddev)
        spread = np.std([draw.histograms[0].counts for draw in draws], axis=0).mean()
        assert spread == pytest.approx(draws[0].histograms[0].stddev, rel=0.1)

    def test_rounding_goes_with_histograms_and_not_with_sums(self, vault):
        rounding = Transform(rounding=5)
        with pytest.raises(InvalidInputError):
            asked(privacy=EXACT, transform=rounding)
        with pytest.raises(InvalidInputError):
            measure(vault, [("sex",), *SUMS], vault.coding.domain, transform=rounding)
        asked(privacy=EXACT, transform=Transform(threshold=10))
        statistics = [("sex",), Histogram("spent")]
        exact, psi = (
            measure(vault, statistics, vault.coding.domain, transform=one)
            for one in (AS_COUNTED, rounding)
        )
        assert psi.histograms[0].stddev == psi.measurements[0].stddev == rounding_stddev(5)
        counts = np.array(exact.histograms[0].counts)
        assert psi.histograms[0].counts == tuple((5 * ((counts + 2) // 5)).tolist())

    def test_a_fine_cell_below_the_threshold_refuses_the_measurement(self, vault):
        statistics = [("sex",), Histogram("spent")]
        counts = np.array(measured(vault, EXACT).histograms[0].counts)
        smallest = int(counts[counts > 0].min())
        for threshold, refused in ((smallest, False), (smallest + 1, True)):
            transform = Transform(threshold=threshold)
            with pytest.raises(MeasurementRefusedError) if refused else nullcontext():
                measure(vault, statistics, vault.coding.domain, transform=transform)


class TestForms:
    def test_psi_comes_back_from_its_document_and_from_the_wire(self, vault):
        for psi in (measured(vault, EXACT), measured(vault, NOISE, SeededNoise(1))):
            data = psi_document(psi)
            assert psi_document(psi_of_document(data)) == data
            received, _ = psi_of_chunks(psi_chunks(psi))
            assert (received.histograms, received.sums) == (psi.histograms, psi.sums)
            assert psi_document(received) == data
        assert b'"sums":[{"by":["sex"],"of":[],"present":["spent"],"stddev":"0"' in psi_document(
            measured(vault, EXACT)
        )

    def test_many_cells_cross_in_parts(self, vault, monkeypatch):
        monkeypatch.setattr(psi_codec, "_PART_BYTES", 50)
        psi = measured(vault, EXACT)
        parts = list(psi_chunks(psi))
        assert sum(part.HasField("numbers") for part in parts) > 10
        assert psi_document(psi_of_chunks(parts)[0]) == psi_document(psi)

    @pytest.mark.parametrize(
        "numbers",
        [{"sums": 5}, {"sums": [5]}, {"sums": [{"of": ["spent"]}]}, {"histograms": {"spent": 1}}],
    )
    def test_what_is_no_histogram_or_sum_is_refused(self, vault, numbers):
        first, *_, last = psi_chunks(measured(vault, EXACT))
        counts = [part for part in psi_chunks(measured(vault, EXACT).fitted) if part.HasField("block")]
        wrong = type(first)(numbers=json_bytes(numbers))
        with pytest.raises(InvalidPsiError):
            psi_of_chunks([first, *counts, wrong, last])

    def test_a_document_with_too_few_sums_is_refused(self, vault):
        data = psi_document(measured(vault, EXACT))
        start = data.index(b'"values":["') + len(b'"values":[')
        end = data.index(b",", start)
        with pytest.raises(InvalidPsiError):
            psi_of_document(data[:start] + data[end + 1 :])

    def test_terms_come_back_and_absent_fields_are_absent(self, coding):
        terms = asked().in_order_of(coding.domain)
        document = terms_document(terms)
        assert document["histograms"] == ["spent"]
        assert document["sums"] == [{"of": ["spent"], "by": ["sex"]}]
        assert terms_of_document(document) == terms
        assert not {"histograms", "sums"} & terms_document(asked(histograms=(), sums=())).keys()
