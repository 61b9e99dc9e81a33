"""A question about numbers, from the plan to the answer: what psi says is what the file says."""

import json
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from typer.testing import CliRunner

from gencard.client import answer as answer_of_folder
from gencard.client.card import Card
from gencard.client.shell.main import app as analyst_shell
from gencard.core.errors import LevelsTooWideError
from tests.system.house import House
from tests.system.test_numbers import expenditures, house, records  # noqa: F401 - fixtures

FORMULA = "spent ~ sex + hours"


@pytest.fixture(scope="module")
def analyst(house: House) -> Iterator[object]:  # noqa: F811 - a fixture
    with house.analyst() as analyst:
        yield analyst


@pytest.fixture(scope="module")
def release(analyst):
    return analyst.synthesize("survey", FORMULA, kind="linear", rows=1_000, accept=True, progress=False)


@pytest.fixture(scope="module")
def card(analyst, release) -> Card:
    return next(one for one in analyst.cards() if one.name == release.card)


def same(answer, reference) -> bool:
    """Whether coefficients and standard errors are those of statsmodels."""
    errors = reference.bse
    near = (answer.params[errors.index] - reference.params).abs() <= 1e-6 * errors
    return bool(near.all() and np.allclose(answer.bse[errors.index], errors, rtol=1e-6))


def test_it_is_least_squares_of_the_file(card, records):  # noqa: F811
    assert same(card.answer(FORMULA, "linear"), smf.ols(FORMULA, records).fit())
    assert same(card.answer("spent ~ sex", "linear"), smf.ols("spent ~ sex", records).fit())
    assert same(card.answer("spent ~ hours", "linear"), smf.ols("spent ~ hours", records).fit())


def test_a_saved_release_gives_the_same(card, release, records, house, tmp_path):  # noqa: F811
    folder = release.save(tmp_path / "kept", "rows.csv")
    own = answer_of_folder(folder, FORMULA, "linear", connection=house.person("ana"))
    assert same(own, smf.ols(FORMULA, records).fit())
    assert not any("levels" in note for note in own.estimates.notes)
    assert "sum of spent * hours" in str(own.estimates.sums) or "sum of hours * spent" in str(
        own.estimates.sums
    )


def test_what_a_card_lacks_is_named_and_planned(analyst, card):
    with pytest.raises(LevelsTooWideError, match="sum of spent by health") as raised:
        card.answer("spent ~ health", "linear")
    plan = raised.value.plan
    assert plan is not None
    assert not plan.lacking_sums


def test_a_function_of_the_response_has_no_card(analyst, card):
    for formula in ("log(spent + 1) ~ sex", "I(spent ** 2) ~ sex"):
        with pytest.raises(LevelsTooWideError):
            analyst.plan("survey", formula, kind="linear")
        with pytest.raises(LevelsTooWideError):
            card.answer(formula, "linear")


def test_noise_is_in_the_standard_error_and_stands_beside_it(analyst, records, capsys):  # noqa: F811
    noise = {"rho": 0.5, "neighbouring": "add-remove"}
    release = analyst.synthesize("survey", "hours ~ sex", kind="linear", rows=500, accept=True, **noise)
    before_signing = capsys.readouterr().err.partition("Signed: ")[0]
    assert "Noise: " in before_signing
    card = next(one for one in analyst.cards() if one.name == release.card)
    answer = card.answer("hours ~ sex", "linear")
    reference = smf.ols("hours ~ sex", records).fit()
    part = {row: values[0] for row, values in zip(*_noise(answer), strict=True)}
    for name in reference.params.index:
        off = abs(answer.params[name] - reference.params[name])
        assert 0 < off < 5 * part[f"coefficients: {name}"]
        assert answer.bse[name] > reference.bse[name] * 0.9


def _noise(answer):
    table = answer.estimates.table("noise")
    return table.row_names, table.values


def test_the_shell_plans_sums(house, card):  # noqa: F811
    command = ["plan", "survey", FORMULA, "--kind", "linear", "-c", str(house.person("ana"))]
    (house.person("ana") / "connection.toml").write_text(f'address = "{house.address}"\n')
    shown = CliRunner().invoke(analyst_shell, command)
    assert shown.exit_code == 0, shown.output
    assert "sum of spent by sex" in shown.output
    document = json.loads(CliRunner().invoke(analyst_shell, [*command, "--json"]).output)
    assert ["spent", "spent"] in [one.get("of") for one in document["numbers"]]


def test_a_plan_says_what_noise_will_do(analyst):
    noise = {"rho": 0.5, "neighbouring": "add-remove"}
    plan = analyst.plan("survey", "hours ~ sex", kind="linear", rows=500, **noise)
    said = dict(plan.lines())["Noise"]
    if plan.prediction is None:
        assert said.startswith("unknown")
    else:
        assert "sampling errors" in said


def planned(analyst, formula: str, kind: str) -> Card:
    """The card that the plan of a question proposes, with its statistics measured."""
    card = analyst.plan("survey", formula, kind=kind).propose(purpose="A test").accept()
    card.generate(rows=100, progress=False)
    return card


def test_poisson_from_the_card_of_its_plan(analyst, records):  # noqa: F811
    formula = "spent ~ sex + health"
    answer = planned(analyst, formula, "poisson").answer(formula, "poisson")
    levels = analyst.dataset("survey").coding.attribute("health").coding.labels
    ordered = records.assign(health=pd.Categorical(records.health, levels))
    assert same(answer, smf.glm(formula, ordered, family=sm.families.Poisson()).fit(tol=1e-12))
    assert any(note.startswith("deviance") for note in answer.estimates.notes)


def test_components_and_a_centred_number_from_sums_of_pairs(analyst, card, records):  # noqa: F811
    formula = "~ spent + hours"
    answer = planned(analyst, formula, "components").answer(formula, "components")
    own = [row[0] for row in answer.estimates.table("explained_variance").values]
    pairs = records[["spent", "hours"]].dropna().corr()
    assert own == pytest.approx(np.linalg.eigvalsh(pairs)[::-1], rel=1e-9)
    centred = "spent ~ sex + center(hours)"
    assert same(card.answer(centred, "linear"), smf.ols(centred, records).fit())


def test_a_discriminant_from_the_card_of_its_plan(analyst, records):  # noqa: F811
    formula = "sex ~ spent + hours"
    answer = planned(analyst, formula, "discriminant").answer(formula, "discriminant")
    means = answer.estimates.table("means")
    chosen = records[["sex", "spent", "hours"]].dropna().groupby("sex")[["spent", "hours"]].mean()
    assert np.allclose(np.array(means.values), chosen.loc[list(means.row_names)], rtol=1e-9)
