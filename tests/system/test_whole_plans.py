"""A card that an error recommends answers the question, with its condition and its missing values."""

import numpy as np
import pytest
from typer.testing import CliRunner

from gencard.client.shell.main import app
from gencard.core.errors import LackingMarginalsError
from tests.system.house import SCHEMA, build, survey
from tests.system.raw_calls import configure

QUESTIONS = [
    ("linear", "I(work == 'full') ~ sex", {"where": "region == 'north' or age < 45"}),
    ("linear", "age ~ sex + health", {"where": "region == 'north'", "missing": "drop"}),
    ("logistic", "sex ~ age", {"missing": "drop"}),
    ("crosstab", "health ~ work", {"where": "age >= 45"}),
    ("means", "age ~ region + sex", {"missing": "drop"}),
    ("polychoric", "~ age + health", {"where": "sex == 'male'", "missing": "drop"}),
    ("loglinear", "~ health + work", {"where": "region == 'south' and age < 65"}),
]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    frame = survey(900)
    frame.loc[np.arange(0, 900, 5), "age"] = np.nan
    schema = SCHEMA.replace(
        "edges = [16, 30, 45, 65, 95]", "edges = [16, 30, 45, 65, 95]\nmissing = true"
    )
    made = build(tmp_path_factory.mktemp("plans"), frame, schema)
    made.raise_caps()
    configure(made, "datasets.policy", largest_order=5)
    yield made.start()
    made.stop()


@pytest.fixture
def ana(house):
    with house.analyst() as analyst:
        yield analyst


@pytest.fixture
def small(ana):
    """A card that determines hardly anything."""
    card = ana.propose("survey", [("sex",)], purpose="a test", rows=100).accept()
    card.release(rows=10, seed=1, progress=False)
    return card


@pytest.mark.parametrize(("kind", "formula", "options"), QUESTIONS)
def test_the_card_of_the_error_answers(small, kind, formula, options):
    with pytest.raises(LackingMarginalsError) as raised:
        small.answer(formula, kind, **options)
    plan = raised.value.plan
    assert {frozenset(clique) for clique in raised.value.lacking} <= {*map(frozenset, plan.marginals)}
    card = plan.propose(purpose="As recommended").accept()
    card.release(rows=10, seed=1, progress=False)
    assert card.answer(formula, kind, **options) is not None


@pytest.mark.parametrize(("kind", "formula", "options"), QUESTIONS)
def test_a_plan_of_the_whole_question_is_the_same_one(ana, small, kind, formula, options):
    with pytest.raises(LackingMarginalsError) as raised:
        small.answer(formula, kind, **options)
    assert ana.plan("survey", formula, kind=kind, **options).marginals == raised.value.plan.marginals


def test_the_shell_names_the_command(house, small):
    folder = house.person("ana")
    (folder / "connection.toml").write_text(f'address = "{house.address}"\n')
    words = ["--connection", str(folder), "--kind", "linear", "--missing", "drop"]
    words += ["--where", "region == 'north'"]
    result = CliRunner().invoke(app, ["answer", small.name, "age ~ sex", *words], env={"COLUMNS": "300"})
    assert result.exit_code == 1
    assert "--marginal sex,region,age" in result.output
    assert "--where 'region == '\"'\"'north'\"'\"''" in result.output
    planned = CliRunner().invoke(app, ["plan", "survey", "age ~ sex", *words], env={"COLUMNS": "300"})
    assert planned.exit_code == 0
    assert "records without age are left out" in planned.output
