"""Noisy sums of one number by several attributes agree on one total: weighted least squares of all."""

from dataclasses import replace

import numpy as np
import pytest

from gencard.analysis.answers.design import Block
from gencard.analysis.answers.margins import PsiMargins
from gencard.analysis.answers.noisy_estimates import MOST_MOVED
from gencard.analysis.answers.noisy_margins import NoisyMargins, covariance_of, margins_of
from gencard.analysis.formulas.answering import answer_of
from gencard.analysis.formulas.summing import question_needs
from gencard.core.card.sums import Sum
from gencard.core.domain import Clique
from gencard.core.errors import LackingMarginalsError, NoiseDrownsError
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.psi import Measurement, Psi, SumMeasurement
from tests.core.test_answers_of_numbers import CODING, noisy_of, psi_with, records

__all__ = ["records"]

MEASURED = [
    (("z",), (), 7.0),
    (("z",), ("g",), 3.0),
    (("z",), ("k",), 5.0),
    (("z",), ("g", "k"), 9.0),
    (("z", "z"), ("g",), 4.0),
    (("z", "z"), (), 1.0),
]


def psi_of(measured, rng, *, present=()) -> Psi:
    """Whole numbers without a meaning, as sums with noise of these deviations."""
    domain, sums = CODING.domain, []
    for of, by, stddev in measured:
        cells = domain.project(by).cells if by else 1
        values = tuple(int(n) for n in rng.integers(-500, 500, cells))
        sums.append(SumMeasurement(Sum(of, by, present), values, stddev))
    table = rng.integers(0, 90, domain.size("g"))
    return Psi(domain, (Measurement(("g",), table, 2.0),), (), (), tuple(sums))


def least_squares(psi: Psi, of: Clique, cut: Clique = ()):
    """The estimate of the sums by g and k by brute force, and its covariance.

    Args:
        cut: Attributes whose last level holds no record that counts.
    """
    names, domain = ("g", "k", "h"), CODING.domain
    sizes = [domain.size(name) for name in names]
    kept = np.ones(sizes, dtype=bool)
    for name in cut:
        np.moveaxis(kept, names.index(name), 0)[-1] = False
    rows, values, weights = [], [], []
    for one in psi.sums:
        if one.sum.of != of:
            continue
        by = [names.index(name) for name in one.sum.by]
        for cell, value in zip(np.ndindex(*(sizes[i] for i in by)), one.values, strict=True):
            row = np.zeros(sizes)
            place = [slice(None)] * len(names)
            for axis, code in zip(by, cell, strict=True):
                place[axis] = slice(code, code + 1)
            row[tuple(place)] = 1
            row = row * kept
            if row.any():
                rows.append(row.reshape(-1))
                values.append(value)
                weights.append(1 / one.stddev)
    x, weight = np.array(rows), np.array(weights)
    inverse = np.linalg.pinv(x * weight[:, None], rcond=1e-10)
    return inverse @ (weight * np.array(values, dtype=float)), inverse @ inverse.T


@pytest.mark.parametrize("of", [("z",), ("z", "z")])
@pytest.mark.parametrize("by", [(), ("g",), ("k",), ("k", "g")])
def test_they_are_weighted_least_squares_of_all_tables(of, by):
    psi = psi_of(MEASURED, np.random.default_rng(3))
    margins = NoisyMargins.of(psi, CODING)
    if of == ("z", "z") and "k" in by:
        with pytest.raises(LackingMarginalsError):
            margins.sums(of, by)
        return
    cells, covariance = least_squares(psi, of)
    names = ("g", "k", "h")
    sizes = [CODING.domain.size(name) for name in by]
    places = [
        tuple(slice(None) if name not in by else cell[by.index(name)] for name in names)
        for cell in np.ndindex(*sizes)
    ]
    functions = np.zeros((len(places), *(CODING.domain.size(name) for name in names)))
    for row, place in zip(functions, places, strict=True):
        row[place] = 1
    flat = functions.reshape(len(places), -1)
    assert np.allclose(margins.sums(of, by).astype(float).reshape(-1), flat @ cells)
    expected = flat @ covariance @ flat.T
    assert np.allclose(margins.sum_variances(of, by).reshape(-1), np.diag(expected))
    alone = PsiMargins(psi, CODING).sum_variances(of, by)
    assert (margins.sum_variances(of, by) < alone).all()
    block = Block(by, np.arange(len(places)), np.eye(len(places)), of)
    assert np.allclose(covariance_of(margins, [block], len(places)), expected)


def test_tables_with_and_without_missing_levels_agree():
    """One table lists who lacks h and so does not count; another one is of those who have it."""
    measured = [(("z",), ("h",), 2.0), (("z",), ("g", "h"), 6.0)]
    psi = psi_of(measured, np.random.default_rng(4))
    own = psi_of([(("z",), ("g",), 3.0)], np.random.default_rng(5), present=("h",))
    psi = Psi(psi.domain, psi.measurements, (), (), (*psi.sums, *own.sums))
    margins = NoisyMargins.of(psi, CODING)
    cells, covariance = least_squares(psi, ("z",), ("h",))
    table = np.zeros((CODING.domain.size("g"), cells.size))
    for code, row in enumerate(table):
        row.reshape(3, 3, 3)[code] = 1
    assert np.allclose(margins.sums(("z",), ("g",), ("h",)).astype(float), table @ cells)
    assert np.allclose(
        margins.sum_variances(("z",), ("g",), ("h",)), np.diag(table @ covariance @ table.T)
    )
    by_h = margins.sums(("z",), ("h",), ("h",))
    assert by_h[-1] == 0
    assert margins.sum_variances(("z",), ("h",), ("h",))[-1] == 0
    assert np.isclose(float(by_h.sum()), float(margins.sums(("z",), (), ("h",))))


def test_one_table_is_what_it_was():
    psi = psi_of(MEASURED[1:2], np.random.default_rng(6))
    noisy, plain = NoisyMargins.of(psi, CODING), PsiMargins(psi, CODING)
    for by in (("g",), ()):
        own = np.array(plain.sums(("z",), by), dtype=float)
        assert np.allclose(noisy.sums(("z",), by).astype(float), own)
        assert np.allclose(noisy.sum_variances(("z",), by), plain.sum_variances(("z",), by))


def test_the_noise_that_an_answer_states_is_that_of_its_draws(records):
    text, kind = "z ~ g + h", Analysis.LINEAR
    needs = question_needs(text, kind, CODING, missing="drop")
    psi = psi_with(records, needs.cliques, needs.sums)
    exact = answer_of(text, kind, PsiMargins(psi, CODING), CODING, missing="drop")
    truth = np.array(exact.coefficients.params)
    rng, covered, draws, parts, values = np.random.default_rng(31), 0, 200, [], []
    for _ in range(draws):
        margins = margins_of(noisy_of(psi, 2.0, rng), CODING)
        answer = answer_of(text, kind, margins, CODING, missing="drop")
        part = np.array([row[0] for row in answer.table("noise").values])
        parts.append(part)
        values.append(answer.coefficients.params)
        covered += np.sum(np.abs(values[-1] - truth) <= 1.96 * part)
    share = covered / (draws * len(truth))
    assert 0.92 < share < 0.98
    assert np.allclose(np.mean(parts, axis=0) / np.std(values, axis=0), 1, atol=0.15)


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_noise_in_squares_of_a_term_drowns_what_divides_by_them(records, share):
    needs = question_needs("k ~ z", Analysis.LINEAR, CODING)
    exact = psi_with(records, needs.cliques, needs.sums)
    marginals = tuple(replace(one, stddev=0.01) for one in exact.measurements)
    units = 2 * (records.z - 2)  # steps from the middle of the edges
    spread = share * len(records) * units.var()
    sums = (replace(one, stddev=spread if one.sum.of == ("z", "z") else 0.01) for one in exact.sums)
    margins = margins_of(Psi(exact.domain, marginals, (), (), tuple(sums)), CODING)
    if share < MOST_MOVED:
        assert answer_of("k ~ z", Analysis.LINEAR, margins, CODING).coefficients is not None
    else:
        with pytest.raises(NoiseDrownsError):
            answer_of("k ~ z", Analysis.LINEAR, margins, CODING)
