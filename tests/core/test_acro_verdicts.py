"""Verdicts of the output checks beside those of ACRO, on 52 tables and models of Adult and SD2011.

``tests/fixtures/acro/make.py`` asked ACRO. Each difference stands here with its reason.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from formulaic import ModelSpec, model_matrix

from gencard.analysis.answers.answer import AnswerTable
from gencard.analysis.answers.regressions import COLUMNS
from gencard.analysis.output_checks import rule_checks
from gencard.analysis.output_checks.rule_checks import coarse_table
from gencard.core.policy import USUAL_RULES, Colour, Rule, RuleVerdict, together
from tests.fixtures.acro.cases import ADULT, COUNTS, GROUPS, MODELS, NAMES, SD2011, SURVIVAL, TRUTHS
from tests.shared_data import shared_file

VERDICTS = json.loads((Path(__file__).parents[1] / "fixtures/acro/verdicts.json").read_text())
STATUS = {"pass": Colour.GREEN, "review": Colour.AMBER, "fail": Colour.RED}
CHECKS = {
    "MinimumThresholdCheck": {Rule.THRESHOLD, Rule.ZERO},  # ACRO: an empty cell is below the threshold
    "PresenceOfZeroCheck": {Rule.ZERO},
    "NKCheck": {Rule.DOMINANCE},
    "PPercentCheck": {Rule.REMAINDER},
}
EXTREMES = "ACRO passes the largest age of a group of ten; it is the age of one person"
COUNTRY = "one person of Adult was born in Holland; ACRO looks at degrees of freedom alone"
CROSSED = "sex * race has a parameter for each cell: ACRO leaves saturated models to a person"
FEW = "a record has more than a tenth of its own fitted value"
DIFFERENCES = {
    ("max", ADULT, "sex", "income", "age"): (Rule.EXTREME, EXTREMES),
    ("ols", ADULT, "hours ~ C(country)", 0): (Rule.LEVERAGE, COUNTRY),
    ("ols", ADULT, "hours ~ C(sex) * C(race)", 0): (Rule.SATURATED, CROSSED),
    ("ols", ADULT, "hours ~ age + C(sex)", 13): (Rule.LEVERAGE, FEW),
    ("ols", SD2011, "bmi ~ age + C(sex) + height", 14): (Rule.LEVERAGE, FEW),
    ("logit", SD2011, "smokes ~ age", 40): (Rule.LEVERAGE, FEW),
}
"""All cases of which the verdict is another one: green in ACRO, red here by a rule that it has not."""
OURS = {Rule.EXTREME, Rule.RANK, Rule.LEVERAGE, Rule.SATURATED, Rule.SAME}


@cache
def frame(name):
    """Prepare a file as make.py does, which runs beside another pandas."""
    read = pd.read_parquet(shared_file(f"{name}.parquet"))
    new, column, label = TRUTHS[name]
    read[new] = (read[column] == label).astype(int)
    return read.assign(**{new: read[old] for new, old in NAMES[name].items()})


def grouped(name, rows, columns):
    """The cell of each record, and the shape; missing is the last level, as in ACRO."""
    levels = [frame(name)[column].astype(object) for column in (rows, columns)]
    labels = [sorted(level.dropna().unique()) + [None] * bool(level.isna().any()) for level in levels]
    first, second = (
        [names.index(None if pd.isna(label) else label) for label in level]
        for names, level in zip(labels, levels, strict=True)
    )
    shape = tuple(map(len, labels))
    return np.array(first) * shape[1] + np.array(second), shape


def cells_of(broken, rules, shape):
    mask = np.logical_or.reduce([broken[rule] for rule in rules if rule in broken])
    return sorted(map(tuple, np.argwhere(mask.reshape(shape)).tolist()))


def agrees(verdict, theirs, case=None):
    """Return whether a verdict is ACRO's, but for the rule that is listed for the case."""
    shared = RuleVerdict(tuple(set(verdict.broken) - OURS)).colour
    differs = verdict.colour is not STATUS[theirs["status"]]
    assert differs == (case in DIFFERENCES)
    return shared is STATUS[theirs["status"]] and (not differs or DIFFERENCES[case][0] in verdict.broken)


@pytest.mark.parametrize("place", range(len(COUNTS)), ids=lambda place: " x ".join(COUNTS[place][1:]))
def test_tables_of_counts(place):
    cells, shape = grouped(*COUNTS[place])
    counts = np.bincount(cells, minlength=np.prod(shape))
    broken = rule_checks.of_counts(counts, USUAL_RULES)
    theirs = VERDICTS["tables"][place]
    assert agrees(together(rule_checks.verdicts(broken)), theirs)
    for check, named in theirs["cells"].items():
        assert cells_of(broken, CHECKS[check], shape) == sorted(map(tuple, named))


@pytest.mark.parametrize("place", range(len(GROUPS)), ids=lambda place: " ".join(GROUPS[place]))
def test_numbers_of_groups(place):
    function, name, rows, columns, values = GROUPS[place]
    cells, shape = grouped(name, rows, columns)
    numbers = frame(name)[values].to_numpy(float)
    groups = rule_checks.contributions(cells, numbers, cells=int(np.prod(shape)), most=2)
    broken = {
        "mean": lambda: rule_checks.of_sums(groups, USUAL_RULES),
        "sum": lambda: rule_checks.of_sums(groups, USUAL_RULES),
        "std": lambda: rule_checks.of_spreads(groups, USUAL_RULES),
        "median": lambda: rule_checks.of_quantiles(groups.counts, 0.5, USUAL_RULES),
        "min": lambda: rule_checks.of_quantiles(groups.counts, 0.0, USUAL_RULES),
        "max": lambda: rule_checks.of_quantiles(groups.counts, 1.0, USUAL_RULES),
    }[function]()
    theirs = VERDICTS["groups"][place]
    assert agrees(together(rule_checks.verdicts(broken)), theirs, GROUPS[place])
    negative = {Rule.NEGATIVE}  # where there is any, both checks name these groups and look no further
    checks = CHECKS | ({"NKCheck": negative, "PPercentCheck": negative} if groups.negative.any() else {})
    for check, named in theirs["cells"].items():
        if check != "MinimumDoFCheck":  # it lists all groups with any degree of freedom
            assert cells_of(broken, checks[check], shape) == sorted(map(tuple, named))


@pytest.mark.parametrize("place", range(len(MODELS)), ids=lambda place: str(MODELS[place][2:]))
def test_models(place):
    _, name, text, first = MODELS[place]
    used = frame(name).head(first) if first else frame(name)
    response, features = text.split(" ~ ")
    wanted = ModelSpec.from_spec(f"{response} ~ {features}").required_variables
    matrix = model_matrix(features, used.dropna(subset=list(wanted)), na_action="drop")
    rows = matrix.to_numpy(float)
    parameters = np.linalg.matrix_rank(rows)
    crossed = len(np.unique(rows, axis=0)) if "*" in features else None
    verdict = together(
        [
            rule_checks.of_model(len(rows), parameters, crossed, USUAL_RULES),
            rule_checks.of_features(rows, np.ones(len(rows)), USUAL_RULES),
        ]
    )
    assert len(rows) - parameters == VERDICTS["models"][place]["freedom"]
    assert agrees(verdict, VERDICTS["models"][place], MODELS[place])


def test_at_least_thirty_are_compared():
    assert (
        len(COUNTS) + len(GROUPS) + len(MODELS)
        == len(VERDICTS["tables"] + VERDICTS["groups"] + VERDICTS["models"])
        == 52
    )


def test_survival_tables_are_failures_in_acro_and_few_steps_here():
    """ACRO's coarse curve sets a step's events against those at risk after it; ours is the exact one."""
    assert VERDICTS["survival"]["status"] == "fail"
    name, first = SURVIVAL
    used = frame(name).head(first)
    times = np.unique(used["age"])
    at_risk = [float((used["age"] >= time).sum()) for time in times]
    died = [float(used["smokes"][used["age"] == time].sum()) for time in times]
    rows = tuple((float(t), n, d, 1.0, 0.0) for t, n, d in zip(times, at_risk, died, strict=True))
    few = coarse_table(
        AnswerTable("survival", tuple(map(str, times)), COLUMNS, rows), USUAL_RULES
    ).values
    theirs = {value for _, value in VERDICTS["survival"]["curve"]}
    assert 1 <= len(few) < len(theirs) < len(rows)
    assert all(row[1] >= 10 and row[2] >= 10 for row in few)
