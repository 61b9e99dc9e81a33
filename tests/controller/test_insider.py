"""An insider with fifty runs on a tiny domain: no small cell and nobody's attribute becomes certain.

The insider knows schema, rules and rounding, asks about populations of any shape, also those answered
before with a cell more or less, and looks for all whole counts that agree with every answer.
"""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.analysis.output_checks.inference import SearchOutcome
from gencard.analysis.output_checks.rounding import step
from gencard.controller.earlier import Earlier
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.errors import NoAnswerError
from gencard.core.policy import OUTPUT_RULES
from tests.controller.test_answering import asked, asking

SIZES = {"a": 3, "b": 4, "c": 2}


def coding(sizes):
    return Coding(
        tuple(
            Attribute(name, Labels(tuple(map(str, range(size))), integer=True, ordered=True))
            for name, size in sizes.items()
        )
    )


CODING = coding(SIZES)
PADDED = coding({**SIZES, "d": 60})
"""With an attribute that makes all cells together many."""
CELLS = np.array(list(product(*map(range, SIZES.values()))))
QUESTIONS = (
    *(("crosstab", "c ~ a"), ("crosstab", "c ~ b"), ("crosstab", "a ~ b"), ("means", "a ~ 1")),
    *(("means", "b ~ c"), ("means", "c ~ 1"), ("linear", "a ~ c"), ("linear", "b ~ a")),
    *(("logistic", "c ~ a"), ("quantiles", "b ~ 1")),
)
THRESHOLD = 10


def column(name):
    return CELLS[:, list(SIZES).index(name)]


def leaves(result):
    """Return whether an answer leaves without a steward."""
    return result.answer is not None and not result.review


class Insider:
    def __init__(self, folder, seed, schema=CODING):
        rng = self.rng = np.random.default_rng(seed)
        a, b = rng.choice(3, 200, p=[0.5, 0.3, 0.2]), rng.choice(4, 200, p=[0.4, 0.3, 0.2, 0.1])
        c = rng.random(200) < 0.15 + 0.3 * (a == 1) + 0.35 * (b == 2)
        frame = pd.DataFrame({"a": a, "b": b, "c": c.astype(int)})
        frame.assign(d=np.arange(200) % 60).to_csv(folder / "records.csv", index=False)
        places = np.ravel_multi_index(frame.to_numpy().T, tuple(SIZES.values()))
        self.truth = np.bincount(places, minlength=len(CELLS))
        self.ask = asking(folder / "records.csv", schema)
        self.earlier, self.populations, self.facts = [], [], [(np.ones(len(CELLS)), 200, 200)]
        self.refused = []

    def population(self):
        """Draw a population of any shape, or an earlier one with a cell more or less."""
        if self.populations and self.rng.random() < 0.4:
            cells = self.populations[self.rng.integers(len(self.populations))].copy()
            cells[self.rng.integers(len(cells))] ^= True
        elif self.rng.random() < 0.5:
            cells = self.rng.random(len(CELLS)) < self.rng.random()
        else:
            name = self.rng.choice([*SIZES])
            cells = np.isin(
                column(name), self.rng.choice(SIZES[name], self.rng.integers(1, SIZES[name]))
            )
        return cells if cells.any() else ~cells

    def run(self):
        kind, formula = QUESTIONS[self.rng.integers(len(QUESTIONS))]
        cells = self.population()
        named = (zip(SIZES, cell, strict=True) for cell in CELLS[cells])
        parts = (" and ".join(f"{name} == {code}" for name, code in one) for one in named)
        where = "" if cells.all() else " or ".join(f"({part})" for part in parts)
        self.populations.append(cells)
        try:
            result = self.ask(kind, formula, where=where, earlier=self.earlier)
        except NoAnswerError:  # by the schema alone, so it says nothing of the records
            return
        if not leaves(result):
            self.refused.append((kind, formula, where, list(self.earlier)))
        else:
            self.earlier.append(asked(kind, formula, where))
            self.facts += self.read(kind, formula, cells * 1.0, AnalysisAnswer.of_json(result.answer))

    def read(self, kind, formula, kept, answer):
        """Yield the facts of an answer, as intervals of linear functions of the counts."""
        response, _, term = formula.partition(" ~ ")
        yield kept, max(answer.n - 2, THRESHOLD), answer.n + 2
        if kind == "crosstab":  # all its numbers are computed from the rounded counts
            table = answer.table("counts")
            named = dict(zip(table.row_names, table.values, strict=True))
            for row, other in product(range(SIZES[term]), range(SIZES[response])):
                cells = dict(zip(table.column_names, named.get(str(row), ()), strict=False))
                count = cells.get(str(other), 0.0)
                inside = kept * (column(term) == row) * (column(response) == other)
                yield inside, count and max(count - 2, THRESHOLD), count and count + 2
        if kind == "means":
            yield from self.read_means(response, term, kept, answer.table("means"))
        if kind == "linear":
            model, features = answer.coefficients, np.array([kept, column(term) * kept])
            width = features * self.truth @ np.array([kept, column(term)]).T
            apart = width @ [step(error) / 2 if error else 0.0 for error in model.bse]
            for feature, most in zip(features, apart, strict=True):
                fitted = model.params[0] + model.params[1] * column(term)
                yield feature * (column(response) - fitted), -most - 1e-9, most + 1e-9

    def read_means(self, response, term, kept, table):
        names = range(SIZES[term]) if term in SIZES else ["all"]
        for level in names:
            inside = kept if level == "all" else kept * (column(term) == level)
            if str(level) not in table.row_names:
                yield inside, 0, 0
                continue
            row = table.values[table.row_names.index(str(level))]
            group = dict(zip(table.column_names, row, strict=True))
            yield inside, max(group["nobs"] - 2, THRESHOLD), group["nobs"] + 2
            unit = step(group["std_mean"]) / 2 + 1e-9
            yield inside * (column(response) - group["mean"] - unit), -np.inf, 1e-9
            yield inside * (column(response) - group["mean"] + unit), -1e-9, np.inf

    def certain(self):
        """The cells below the threshold, empty ones too, of which one count alone agrees with all."""
        small = np.flatnonzero(self.truth < THRESHOLD)
        return [cell for cell in small if not any(self.may(cell, sign) for sign in (-1, 1))]

    def may(self, cell, sign):
        """Return whether all answers agree with more (1) or fewer (-1) records in a cell."""
        rows, low, high = map(np.array, zip(*self.facts, strict=True))
        other = (self.truth[cell] + 1, np.inf) if sign > 0 else (-np.inf, self.truth[cell] - 1)
        if other[1] < 0:
            return False
        one = LinearConstraint(np.eye(len(CELLS))[cell], *other)
        agree = [LinearConstraint(rows, low, high), one]
        whole = np.ones(len(CELLS))
        solution = milp(0 * whole, integrality=whole, bounds=Bounds(0, 200), constraints=agree)
        return solution.x is not None


@pytest.mark.parametrize("seed", [1, 5])
def test_fifty_runs_make_no_small_cell_certain(tmp_path, seed):
    insider = Insider(tmp_path, seed)
    for _ in range(50):
        insider.run()
    assert len(insider.earlier) > 5  # large populations are answered
    assert not insider.certain()


def test_the_same_runs_tell_nearly_everything_where_nobody_looks_at_what_they_tell_together(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(Earlier, "leaves_too_little", lambda *_: SearchOutcome.OPEN)
    insider = Insider(tmp_path, 1)
    for _ in range(50):
        insider.run()
    assert len(insider.certain()) >= 5


def test_what_was_refused_is_refused_with_one_more_attribute(tmp_path):
    """With it, all attributes have 1,440 cells, in the condition or in the formula."""
    insider = Insider(tmp_path, 2, PADDED)
    for _ in range(25):
        insider.run()
    assert len(insider.refused) > 5
    for number, (kind, formula, where, earlier) in enumerate(insider.refused):
        wider = f"({where or 'a >= 0'}) and d >= 0"
        assert not leaves(insider.ask(kind, formula, where=wider, earlier=earlier))
        if number < 4 and kind in {"linear", "logistic", "means"}:
            longer = f"{formula} + d"
            assert not leaves(insider.ask(kind, longer, where=where, earlier=earlier))


def one_key(folder, alike):
    """Twenty people with a = 0 and b = 0, of whom so many have c = 1, among two hundred."""
    frame = pd.DataFrame(list(product(range(3), range(4), range(2))) * 12, columns=[*SIZES])
    frame = frame[(frame.a != 0) | (frame.b != 0)]
    key = pd.DataFrame({"a": 0, "b": 0, "c": [1] * alike + [0] * (20 - alike)})
    pd.concat([frame, key]).to_csv(folder / f"{alike}.csv", index=False)
    return asking(folder / f"{alike}.csv", CODING)


@pytest.mark.parametrize(
    ("kind", "formula"), [("crosstab", "c ~ a"), ("means", "c ~ 1"), ("linear", "a ~ C(c)"), *QUESTIONS]
)
def test_a_refusal_does_not_say_whether_nobody_or_a_few_have_it(tmp_path, kind, formula):
    """Otherwise it would say of somebody of this key that c is 0."""
    outcomes = [one_key(tmp_path, few)(kind, formula, where="a == 0 and b == 0") for few in (0, 1, 4)]
    assert len({tuple(one.reasons) for one in outcomes}) == 1
    assert len({one.answer is None for one in outcomes}) == 1


@pytest.mark.parametrize("few", [0, 4])
def test_a_population_of_nobody_is_refused_as_one_of_a_few(tmp_path, few):
    where = "a == 0 and b == 0 and c == 1"
    assert one_key(tmp_path, few)("means", "a ~ 1", where=where).reasons == (OUTPUT_RULES,)
