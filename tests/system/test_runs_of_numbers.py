"""Checked runs on numbers as the file has them, over TLS: files, tables, noise, policies."""

from collections.abc import Iterator
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from gencard.core.errors import InvalidInputError, LevelsTooWideError, RunRefusedError
from tests.system.house import House, build
from tests.system.raw_calls import configure, state_unchanged
from tests.system.test_exact_sums import SCHEMA, survey

WORK = ["full", "part"]
KINDS = ["poisson", "means", "ttest", "anova", "linear", "correlation", "quantiles"]
OFFER = f"{{ kinds = {KINDS}, checked_runs = 30, numbers = 200, stored = STORED }}".replace("'", '"')
GRANTED = {"kinds": KINDS, "checked_runs": 30, "numbers": 200}
NOISY = GRANTED | {"checked_runs": 3, "rho": "0.5"}


@pytest.fixture(scope="module")
def records():
    """None of them is large, so that one record moves no number by much."""
    frame = pd.concat([survey()] * 3, ignore_index=True)
    rng = np.random.default_rng(3)
    pay = rng.integers(500, 3_400, len(frame)) + 150 * (frame.sex == "m")
    frame["region"] = np.where(frame.index < 9, "w", rng.choice(["n", "s"], len(frame)))
    return frame.assign(pay=pay, age=rng.integers(20, 80, len(frame)), work=rng.choice(WORK, len(frame)))


def opened(folder, records, *, stored=True, **edits) -> House:
    made = build(folder, records, SCHEMA)
    made.offer_private('["ipf"]')
    made.edit(edits)
    noise = '{ mechanism = "gaussian", neighbouring = "add-remove", rho = "1" }'
    policy = {"analyses": OFFER.replace("STORED", str(stored).lower()), "noise": noise}
    configure(made, "datasets.policy", mechanisms='["exact", "gaussian"]', **policy)
    return made.start()


@pytest.fixture(scope="module", params=["file", "table"])
def house(request, records, tmp_path_factory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp(request.param)
    edits = {}
    if request.param == "table":
        pytest.importorskip("ibis")
        file, frame = folder / "people.duckdb", records  # noqa: F841  # DuckDB reads it by its name
        with duckdb.connect(str(file)) as connection:
            connection.execute("CREATE TABLE people AS SELECT * FROM frame")
        edits = {"data": f'"duckdb:///{file}?table=people"', "format": "{}"}
    made = opened(folder, records, **edits)
    yield made
    made.stop()


def card_of(analyst, **terms):
    phi = [("sex", "work")]
    return analyst.propose("survey", phi, purpose="A test", rows=1_200, **terms).accept()


def test_answers_are_those_of_the_file_rounded_to_two_digits(house, records):
    with house.analyst() as analyst:
        card = card_of(analyst, analyses=GRANTED)
        for formula in ("pay ~ sex + work", "pay ~ sex * age", "log(pay + 1) ~ sex"):
            answer = card.run(formula, "linear", progress=False)
            exact = smf.ols(formula.replace("log(", "np.log("), records).fit()
            assert answer.nobs == 5 * round(exact.nobs / 5)
            assert np.all(np.abs(answer.params - exact.params) <= exact.bse / 20 + 1e-12), formula
            assert not any("level" in note for note in answer.estimates.notes[:-1])
        means = means_of(card.run("pay ~ sex", "means", progress=False))
        by_sex = records.groupby("sex").pay
        assert np.all(np.abs(means - by_sex.mean()) <= by_sex.sem() / 20)
        by_level = card.run("pay ~ sex", "means", response="levels", progress=False)
        assert by_level.estimates.notes[0].startswith("pay: each level counts as one number")
        assert np.abs(means_of(by_level) - by_sex.mean()).min() > by_sex.sem().max()
        median = card.run("age ~ sex", "quantiles", q=[0.5], progress=False)
        of_file = records.groupby("sex").age.median()
        values = np.array(median.estimates.table("quantiles").values)[:, 0]
        assert values == pytest.approx(of_file.to_numpy(), abs=3)


def means_of(answer):
    return np.array([row[1] for row in answer.estimates.table("means").values])


def test_a_run_with_noise_is_of_sums_with_noise(house, records):
    with house.analyst() as analyst:
        card = card_of(analyst, rho="0.2", neighbouring="add-remove", analyses=NOISY)
        with state_unchanged(house), pytest.raises(LevelsTooWideError, match="levels"):
            card.run("log(pay + 1) ~ sex", "linear", progress=False)
        by_levels = card.run("pay ~ sex", "poisson", progress=False)
        assert by_levels.estimates.notes[0].startswith("pay: each level counts as one number")
        answer = card.run("pay ~ sex", "linear", progress=False)
        exact = smf.ols("pay ~ sex", records).fit()
        assert analyst.spends()[0].price.rho == Decimal("0.5")
        table = answer.estimates.table("noise")
        part = {name: row[0] for name, row in zip(table.row_names, table.values, strict=True)}
        for name in exact.params.index:
            assert 0 < abs(answer.params[name] - exact.params[name]) < 5 * part[f"coefficients: {name}"]


def test_a_policy_that_keeps_runs_to_levels_is_said(records, tmp_path):
    house = opened(tmp_path, records, stored=False)
    try:
        with house.analyst() as analyst:
            card = card_of(analyst, analyses=GRANTED)
            answer = card.run("pay ~ sex", "means", progress=False)
            assert "the policy keeps runs to levels" in answer.estimates.notes[-1]
    finally:
        house.stop()


def test_what_no_run_computes_costs_nothing(house):
    with house.analyst() as analyst:
        card = card_of(analyst, analyses=GRANTED)
        with state_unchanged(house):
            for formula, error in (
                ("log(pay) ~ sex", InvalidInputError),  # somebody may be paid nothing
                ("I(pay + age) ~ sex", InvalidInputError),
            ):
                with pytest.raises(error):
                    card.run(formula, "linear", progress=False)


def test_sums_that_leave_a_few_records_are_refused_across_kinds(house):
    """Nine records are in region w; a mean of everybody is known."""
    with house.analyst() as analyst:
        card = card_of(analyst, analyses=GRANTED)
        card.run("pay ~ 1", "means", progress=False)
        for kind, formula in (("linear", "pay ~ sex"), ("ttest", "pay ~ sex"), ("means", "pay ~ 1")):
            with pytest.raises(RunRefusedError):
                card.run(formula, kind, where="region != 'w'", progress=False)
