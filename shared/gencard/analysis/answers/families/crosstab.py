"""Cross-tabulations: the table, shares, tests of independence, association, odds ratios, strata."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gencard.analysis.answers.answer import (
    AnalysisAnswer,
    AnswerTable,
    Coefficients,
    Scalar,
    coefficients_of,
    table_of,
)
from gencard.analysis.answers.design import CheckedQuestion
from gencard.analysis.answers.families import contingency
from gencard.analysis.answers.families.contingency import Test
from gencard.analysis.answers.families.levels import (
    LevelTable,
    has_noise,
    level,
    level_names,
    level_table,
    test_scalar,
)
from gencard.analysis.answers.margins import Margins, records_of
from gencard.core.domain import Clique
from gencard.core.types import FloatArray

_ROUGH = 5
"""Expected counts from which the chi-squared approximation is good (Cochran 1954)."""

_EMPTY = "a cell is empty, so odds ratio and risk ratio are 0 or infinite"

_NOISE_EMPTIED = (
    "the noisy count of a cell is 0 or below, which does not mean that the cell is empty; odds ratio "
    "and risk ratio are left out"
)


def crosstab_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """One table for each term: its first attribute by the response, within the term's other attributes.

    Without a response, a term's first attribute by its second one; a single attribute has shares with
    intervals. Where there are several tables, the names of their numbers end in the table's attributes.
    """
    formula = question.formula
    response = (formula.response,) if formula.response else ()
    terms = formula.terms or (response,)
    cliques = [tuple(dict.fromkeys((*term[:1], *response, *term[1:]))) for term in terms]
    parts = [_part(margins, question, clique) for clique in cliques]
    if len(parts) == 1:
        return parts[0]
    labelled = [(part, " × ".join(clique)) for part, clique in zip(parts, cliques, strict=True)]
    return replace(
        parts[0],
        coefficients=None,
        scalars=tuple(
            replace(one, name=f"{one.name}[{text}]") for part, text in labelled for one in part.scalars
        ),
        tables=tuple(
            replace(one, name=f"{one.name}[{text}]") for part, text in labelled for one in part.tables
        ),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def _part(margins: Margins, question: CheckedQuestion, clique: Clique) -> AnalysisAnswer:
    answer = AnalysisAnswer(question.kind, question.text, records_of(margins))
    if len(clique) == 1:
        shares = level_table(margins, question, clique, (), signed=True)
        counts = shares.counts[:, 0]
        lower, upper = contingency.share_intervals(counts, level(question))
        values = np.stack([counts, counts / counts.sum(), lower, upper], axis=1)
        columns = ("nobs", "share", "lower", "upper")
        return replace(answer, tables=(table_of("shares", shares.rows.names, columns, values),))
    if len(clique) == 2:
        sides = (clique[:1], clique[1:])
        table = level_table(margins, question, *sides, signed=True)
        tested = level_table(margins, question, *sides)
        is_noisy = has_noise(margins, clique)
        return _two_way(answer, table, tested, level(question), is_noisy=is_noisy)
    return _stratified(answer, margins, question, clique)


def _two_way(
    answer: AnalysisAnswer, table: LevelTable, tested: LevelTable, alpha: float, *, is_noisy: bool
) -> AnalysisAnswer:
    """The table and what follows from it.

    Args:
        tested: The same counts from 0 up, for statistics that take roots and logarithms of them.
    """
    counts = table.counts
    with np.errstate(divide="ignore", invalid="ignore"):  # noise leaves some sums at 0
        tables = [
            table.table("counts", counts),
            table.table("row shares", counts / counts.sum(axis=1, keepdims=True)),
            table.table("column shares", counts / counts.sum(axis=0)),
        ]
    if min(tested.counts.shape) < 2:
        note = "one side of the table has a single level, so no test is possible"
        return replace(answer, tables=tuple(tables), notes=(note,))
    tables += [
        tested.table("expected", contingency.expected_counts(tested.counts)),
        tested.table("standardized_resids", contingency.adjusted_residuals(tested.counts)),
    ]
    if not is_noisy and contingency.expected_counts(counts).min() < _ROUGH:
        note = f"some expected counts are below {_ROUGH}: the p values of chi2 and g are approximate"
        answer = replace(answer, notes=(note,))
    answer = replace(answer, scalars=_independence(tested.counts))
    if counts.shape != (2, 2):
        return replace(answer, tables=tuple(tables))
    return _fourfold(replace(answer, tables=tuple(tables)), table, alpha, is_noisy=is_noisy)


def _fourfold(
    answer: AnalysisAnswer, table: LevelTable, alpha: float, *, is_noisy: bool
) -> AnalysisAnswer:
    """The answer with odds ratio and risk ratio of a 2 x 2 table."""
    if not np.all(table.counts > 0):
        note = _NOISE_EMPTIED if is_noisy else _EMPTY
        return replace(answer, notes=(*answer.notes, note))
    ratios = coefficients_of(("log_oddsratio", "log_riskratio"), *contingency.log_ratios(table.counts))
    scalars = list(answer.scalars)
    for name, value, error, pvalue in zip(
        ratios.names, ratios.params, ratios.bse, ratios.pvalues, strict=True
    ):
        # The ratio, and its logarithm with what tests that it is 0.
        scalars.append(Scalar(name.removeprefix("log_"), float(np.exp(value))))
        scalars.append(Scalar(name, value, float(error), (), float(pvalue)))
    (one, other), first = table.rows.names, table.columns.names[0]
    return replace(
        answer,
        coefficients=ratios,
        scalars=tuple(scalars),
        tables=(answer.tables[0], _ratio_table(ratios, alpha), *answer.tables[1:]),
        notes=(*answer.notes, f"ratios are of '{first}', '{one}' to '{other}'"),
    )


def _independence(counts: FloatArray) -> tuple[Scalar, ...]:
    chi2 = contingency.pearson(counts)
    ratio = contingency.likelihood_ratio(counts)
    yates = [test_scalar("chi2_corrected", contingency.pearson(counts, correction=True))]
    return (
        test_scalar("chi2", chi2),
        *(yates if chi2.degrees == 1 else ()),
        test_scalar("g", ratio),
        Scalar("cramers_v", contingency.cramers_v(counts)),
        Scalar("mutual_information", ratio.statistic / 2 / float(counts.sum())),
    )


def _ratio_table(ratios: Coefficients, alpha: float) -> AnswerTable:
    values = np.exp(np.column_stack([ratios.params, ratios.conf_int(alpha)]))
    rows = tuple(name.removeprefix("log_").replace("logodds", "oddsratio") for name in ratios.names)
    return table_of("ratios", rows, ("estimate", "lower", "upper"), values)


def _stratified(
    answer: AnalysisAnswer, margins: Margins, question: CheckedQuestion, clique: Clique
) -> AnalysisAnswer:
    """The first attribute by the second within the cells of the others."""
    flat = level_table(margins, question, clique[:1], clique[1:2], signed=True)
    is_noisy = has_noise(margins, clique)
    whole = margins.counts(clique) if is_noisy else np.maximum(margins.counts(clique), 0)
    counts = whole.reshape(*whole.shape[:2], -1)[np.ix_(flat.rows.places, flat.columns.places)]
    names = level_names(question, clique[2:])
    occupied = np.flatnonzero((counts.sum(axis=(0, 1)) > 0) | is_noisy)
    tables = tuple(flat.table(f"counts[{names[place]}]", counts[:, :, place]) for place in occupied)
    tested = [np.maximum(counts[:, :, place], 0) for place in occupied]
    scalars = _conditional([one for one in tested if one.any()])
    if counts.shape[:2] != (2, 2):
        return replace(answer, scalars=scalars, tables=tables)
    return _pooled(
        replace(answer, scalars=scalars, tables=tables), counts[:, :, occupied], level(question)
    )


def _conditional(tables: Sequence[FloatArray]) -> tuple[Scalar, ...]:
    """Tests of independence within strata: the sums over them."""
    inside = [table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0] for table in tables]
    scalars = []
    for name, test in (("chi2", contingency.pearson), ("g", contingency.likelihood_ratio)):
        tests = [test(table) for table in inside]
        freedom = sum(contingency.freedom(table) for table in inside)
        summed = Test.chi2(sum(test.statistic for test in tests), freedom)
        scalars.append(test_scalar(name, summed))
    return tuple(scalars)


def _pooled(answer: AnalysisAnswer, counts: FloatArray, alpha: float) -> AnalysisAnswer:
    """Add the pooled odds of strata of 2 x 2 tables, under the names of statsmodels' StratifiedTable."""
    strata = contingency.Strata.of(counts)
    log_odds, error = strata.pooled_odds()
    ratios = coefficients_of(("logodds_pooled",), np.array([log_odds]), np.array([[error**2]]))
    tests = (
        test_scalar("test_null_odds", strata.no_association()),
        test_scalar("test_equal_odds", strata.equal_odds()),
    )
    odds = Scalar("oddsratio_pooled", float(np.exp(log_odds)))
    table = _ratio_table(ratios, alpha)
    return replace(
        answer,
        coefficients=ratios,
        scalars=(*answer.scalars, odds, *tests),
        tables=(*answer.tables, table),
    )
