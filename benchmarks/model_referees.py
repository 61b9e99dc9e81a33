"""Referees of the models: statsmodels on the coded records.

Each function takes the records and an answer and yields pairs of arrays that have to be equal:
estimates, standard errors and statistics, then scalars.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from formulaic import model_matrix
from numpy.typing import NDArray
from scipy.special import logit
from statsmodels.miscmodels.ordinal_model import OrderedModel

from benchmarks.coded_samples import Coded
from benchmarks.table_referees import Case, Pairs
from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.analysis.formulas.formulas import read_formula
from gencard.analysis.formulas.model_matrix import numbers_of

_STEP = 1e-3
_NEWTON_STEPS = 12
_NEWTON: Mapping[str, Any] = {"disp": 0, "method": "newton", "tol": 1e-14, "maxiter": 100}


def decoded(records: Coded) -> pd.DataFrame:
    """The records as another program takes them: numbers, and levels that somebody has."""
    numbers = numbers_of(records.coding)
    columns = {
        name: np.array(numbers[name])[records.codes(name)] if name in numbers else records.names(name)
        for name in records.coding.domain.attributes
    }
    return pd.DataFrame(columns)


def _sides(answer: AnalysisAnswer, frame: pd.DataFrame) -> tuple[str, NDArray[np.float64]]:
    """The response as it is written, and the model matrix that formulaic makes of all records.

    Columns that earlier ones determine are left out, as R does; statsmodels would share their effect.
    """
    response, _, predictors = answer.formula.partition("~")
    x = np.asarray(model_matrix(predictors, frame), dtype=np.float64)
    rest = np.abs(np.diag(np.linalg.qr(x, mode="r")))
    return response.strip(), x[:, rest > 1e-9 * np.linalg.norm(x, axis=0)]


def _numbers(response: str, frame: pd.DataFrame) -> NDArray[np.float64]:
    """The response; of two levels, whether it is the second."""
    return np.asarray(model_matrix(f"0 + {response}", frame), dtype=np.float64)[:, -1]


def _codes(values: Any) -> NDArray[np.int64]:
    """Ranks of the levels that occur."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.codes.to_numpy().astype(np.int64)  # type: ignore[no-any-return]
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _pairs(answer: AnalysisAnswer, fit: Any, scalars: Sequence[str]) -> Pairs:
    coefficients = answer.coefficients
    assert coefficients is not None
    for name in ("params", "bse", "tvalues"):
        theirs = np.asarray(getattr(fit, name))
        yield getattr(coefficients, name), theirs.T.ravel()
    for name in scalars:
        yield answer[name], float(getattr(fit, name))


def linear(records: Coded, answer: AnalysisAnswer) -> Pairs:
    frame = decoded(records)
    response, x = _sides(answer, frame)
    fit = sm.OLS(_numbers(response, frame), x).fit(method="qr")
    yield from _pairs(answer, fit, ("llf", "aic", "bic", "rsquared", "rsquared_adj", "scale", "ssr"))
    yield answer["fvalue"], fit.fvalue


def logistic(records: Coded, answer: AnalysisAnswer) -> Pairs:
    """Without llnull, for which statsmodels has an optimizer that stops early."""
    frame = decoded(records)
    response, x = _sides(answer, frame)
    fit = sm.Logit(_numbers(response, frame), x).fit(**_NEWTON)
    yield from _pairs(answer, fit, ("llf", "aic", "bic"))


def multinomial(records: Coded, answer: AnalysisAnswer) -> Pairs:
    frame = decoded(records)
    response, x = _sides(answer, frame)
    fit = sm.MNLogit(_codes(frame[response]), x).fit(**_NEWTON)
    yield from _pairs(answer, fit, ("llf", "aic", "bic"))


def poisson(records: Coded, answer: AnalysisAnswer) -> Pairs:
    frame = decoded(records)
    response, x = _sides(answer, frame)
    y = _numbers(response, frame)
    yield from _pairs(answer, sm.Poisson(y, x).fit(**_NEWTON), ("llf", "llnull", "aic", "bic"))
    yield answer["deviance"], sm.GLM(y, x, family=sm.families.Poisson()).fit(tol=1e-14).deviance


def loglinear(records: Coded, answer: AnalysisAnswer) -> Pairs:
    frame = decoded(records)
    named = {name for term in read_formula(answer.formula, records.coding).terms for name in term}
    names = [name for name in frame.columns if name in named]
    cells = frame.groupby(names, observed=True).size()
    whole: Any = pd.MultiIndex.from_product([np.unique(frame[name]) for name in names], names=names)
    table = cells.reindex(whole, fill_value=0).reset_index(name="count")
    _, x = _sides(answer, table)
    fit = sm.GLM(table["count"], x, family=sm.families.Poisson()).fit(tol=1e-15, maxiter=200)
    determined = [
        name for name in ("llf", "deviance") if any(one.name == name for one in answer.scalars)
    ]
    yield from _pairs(answer, fit, ("df_resid", *determined))


def ordinal(records: Coded, answer: AnalysisAnswer) -> Pairs:
    """The likelihood of statsmodels, with derivatives by complex steps: it has numerical ones alone."""
    assert answer.coefficients is not None
    frame = decoded(records)
    response, x = _sides(answer, frame)
    codes = _codes(frame[response])
    model = OrderedModel(codes, x[:, 1:], distr="logit")
    slopes = x.shape[1] - 1
    params = np.append(np.zeros(slopes), logit(np.cumsum(np.bincount(codes))[:-1] / len(codes)))
    cells, counts = np.unique(np.column_stack([x[:, 1:], codes]), axis=0, return_counts=True)
    score = partial(_ordinal_score, cells[:, :-1], cells[:, -1].astype(int), counts)
    for _ in range(_NEWTON_STEPS):
        params = params - np.linalg.solve(_derivatives(score, params), score(params))
    bse = np.sqrt(np.diag(np.linalg.inv(-_derivatives(score, params))))
    yield answer.coefficients.params, params
    yield answer.coefficients.bse, bse
    yield answer.coefficients.tvalues, params / bse
    steps = np.append(params[slopes], np.log(np.diff(params[slopes:])))
    yield answer["llf"], model.loglike(np.append(params[:slopes], steps))


def _ordinal_score(
    x: NDArray[np.float64], ranks: NDArray[Any], counts: NDArray[Any], params: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Derivatives of the log likelihood of all records."""
    score, unit = [], 1e-30
    for place in range(len(params)):
        moved = params.astype(complex)
        moved[place] += 1j * unit
        eta = x @ moved[: x.shape[1]]
        theta = np.concatenate([[-700.0], moved[x.shape[1] :], [700.0]])
        upper, lower = (1 / (1 + np.exp(eta - theta[ranks + one])) for one in (1, 0))
        score.append((counts @ np.log(upper - lower)).imag / unit)
    return np.array(score)


def _derivatives(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]], params: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Central differences, with one step of Richardson's."""
    columns = []
    for unit in np.eye(len(params)):
        wide, close = (
            (function(params + step * unit) - function(params - step * unit)) / (2 * step)
            for step in (_STEP, _STEP / 2)
        )
        columns.append((4 * close - wide) / 3)
    slopes = np.array(columns)
    return np.asarray((slopes + slopes.T) / 2)


def _cases() -> Iterator[Case]:
    referees = (linear, logistic, multinomial, ordinal, poisson, loglinear)
    by_name = {referee.__name__: referee for referee in referees}
    for sample, kind, formula in (
        ("fair", "linear", "rate_marriage ~ age + yrs_married + children + religious + educ"),
        ("fair", "linear", "log(affairs + 1) ~ rate_marriage + C(religious)"),
        ("fair", "linear", "affairs ~ 0 + C(children) + age + I(age**2) + I(age**3)"),
        ("fair", "linear", "educ ~ C(occupation, Sum) * age"),
        ("fair", "logistic", "any_affair ~ rate_marriage + age + yrs_married + religious"),
        ("fair", "logistic", "I(affairs > 1) ~ C(rate_marriage) * religious"),
        ("fair", "multinomial", "affairs ~ rate_marriage + religious + educ"),
        ("fair", "ordinal", "rate_marriage ~ age + children + religious"),
        ("fair", "poisson", "children ~ age + educ + religious"),
        ("fair", "loglinear", "~ C(rate_marriage) * C(religious) + C(religious) * C(affairs)"),
        ("fair", "loglinear", "~ C(educ) + C(occupation) + educ:occupation"),
        ("adult", "linear", "education_num ~ C(race, Treatment('White')) + sex * age"),
        ("adult", "logistic", "income ~ age + sex + education_num"),
        ("adult", "logistic", "income ~ sex * marital_status + race"),
        ("adult", "multinomial", "race ~ age + sex"),
        ("adult", "poisson", "hours_per_week ~ sex + income + education_num"),
        ("adult", "loglinear", "~ sex * income + race * income"),
        ("sd2011", "linear", "age ~ sex + placesize + edu"),
        ("sd2011", "linear", "height ~ sex * age + I(age**2)"),
        ("sd2011", "logistic", "smoke ~ sex + age + edu"),
        ("sd2011", "ordinal", "ls ~ sex + age"),
        ("sd2011", "loglinear", "~ sex * smoke + sport"),
        ("census", "linear", "age ~ C(sex) + health + region:sex"),
        ("census", "logistic", "student ~ age + sex + region"),
        ("census", "multinomial", "region ~ sex + age + student"),
        ("census", "ordinal", "health ~ age + sex + student"),
    ):
        yield Case(sample, kind, formula, by_name[kind])


CASES = tuple(_cases())

WIDE = (
    Case(
        "sd2011",
        "linear",
        "weight ~ sex + smoke + sport + region + marital + trust + edu + ls + age + depress",
        linear,
    ),
    Case(
        "census",
        "linear",
        "age ~ region + sex + marital_status + student + ethnic_group + economic_activity + religion"
        " + industry + health + hours_worked_per_week",
        linear,
    ),
)
"""Ten features, answered from all pairs of the sample's attributes."""
