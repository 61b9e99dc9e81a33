"""Answers from sums of psi beside least squares: Poisson regression, components, discriminants."""

import numpy as np
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from gencard.analysis.answers.margins import PsiMargins
from gencard.analysis.answers.noisy_margins import margins_of
from gencard.analysis.formulas.answering import answer_of, level_notes
from gencard.analysis.formulas.formulas import read_factors
from gencard.analysis.formulas.model_matrix import numbers_of
from gencard.analysis.formulas.numbers import NumbersUsed
from gencard.analysis.formulas.summing import question_needs
from gencard.core.coding import Attribute, Coding, Edges
from gencard.core.errors import (
    InvalidFormulaError,
    InvalidInputError,
    LackingMarginalsError,
    LevelsTooWideError,
    NoEstimateError,
)
from gencard.core.statistics.formula import Analysis
from tests.core.test_answers_of_numbers import (
    CODING,
    complete_records,
    noisy_of,
    psi_with,
    records,
    same_names,
)

__all__ = ["records"]


def planned_psi(frame, text, kind, *, where="", missing="drop"):
    """Measure the statistics that the plan of a question names, exactly."""
    needs = question_needs(text, kind, CODING, where=where, missing=missing)
    return psi_with(frame, needs.cliques, needs.sums)


def planned(frame, text, kind, *, where="", missing="drop", options=None, psi=None):
    """The answer from what the plan names alone."""
    psi = psi or planned_psi(frame, text, kind, where=where, missing=missing)
    margins = PsiMargins(psi, CODING)
    return answer_of(text, kind, margins, CODING, where=where, missing=missing, options=options)


def with_midpoints(frame, names):
    """The records with the numbers of levels in place of some numbers."""
    middles = numbers_of(CODING)
    for name in names:
        edges = np.array(CODING.attribute(name).coding.edges)
        level = np.minimum(np.searchsorted(edges, frame[name], side="right") - 1, len(edges) - 2)
        frame = frame.assign(**{name: np.array(middles[name])[level]})
    return frame


class TestPoisson:
    @pytest.mark.parametrize(
        ("text", "where"),
        [
            ("y ~ 1", ""),
            ("y ~ g", ""),
            ("y ~ g + h", ""),
            ("y ~ g * h", ""),
            ("y ~ g + k", ""),
            ("y ~ h - 1", ""),
            ("y ~ g + h", "x < 40 and z >= 0"),
            ("I(y / 10 + 1) ~ g", ""),
            ("y ~ x + g", ""),
            ("y ~ x * h", "g != 'c'"),
            ("y ~ z + C(g, Sum)", ""),
        ],
    )
    def test_it_is_that_of_statsmodels_on_the_records(self, records, text, where):
        answer = planned(records, text, Analysis.POISSON, where=where)
        chosen = complete_records(records, text)
        chosen = chosen.query(where, engine="python") if where else chosen
        chosen = with_midpoints(chosen, [name for name in "xz" if name in text])
        fit = smf.glm(text, chosen, family=sm.families.Poisson()).fit(tol=1e-14, maxiter=200)
        own = answer.coefficients
        names = same_names([name.replace(" (3 groups)", "") for name in own.names])
        order = [names.index(name) for name in same_names(fit.params.index)]
        errors = fit.bse.to_numpy()
        assert (np.abs(np.array(own.params)[order] - fit.params) <= 1e-9 * errors).all()
        assert np.allclose(own.bse[order], errors, rtol=1e-9)
        assert answer.n == fit.nobs
        assert answer["llr"] == pytest.approx(2 * (fit.llf - fit.llnull), rel=1e-9, abs=1e-6)

    def test_what_sums_do_not_determine_is_left_out_and_said(self, records):
        answer = planned(records, "y ~ g", Analysis.POISSON)
        assert [one.name for one in answer.scalars] == ["llr"]
        assert any("deviance" in note for note in answer.notes)

    def test_a_plan_asks_for_the_sums_of_each_term_and_the_table_of_all(self):
        needs = question_needs("y ~ g + k", Analysis.POISSON, CODING, missing="drop")
        sums = [(one.of, one.by, one.present) for one in needs.sums]
        assert sums == [((), ("g", "k"), ("y",)), (("y",), ("g",), ()), (("y",), ("k",), ())]
        assert ("g", "k") in needs.cliques

    def test_records_without_a_number_are_left_out_and_the_answer_says_so(self, records):
        answer = planned(records, "y ~ g", Analysis.POISSON, missing="level")
        assert answer.n == records.y.notna().sum()
        assert "of the records that have y" in answer.notes

    def test_levels_that_are_too_wide_name_the_sums_that_answer(self, records):
        with pytest.raises(LevelsTooWideError) as raised:
            planned(records, "y ~ g", Analysis.POISSON, psi=psi_with(records, [("g", "y")], []))
        assert [(one.of, one.by) for one in raised.value.lacking_sums] == [(("y",), ("g",))]

    def test_the_table_of_all_features_is_lacking(self, records):
        sums = question_needs("y ~ g + h", Analysis.POISSON, CODING, missing="drop").sums
        psi = psi_with(records, [("g", "y")], [one for one in sums if one.of])
        with pytest.raises(LackingMarginalsError) as raised:
            planned(records, "y ~ g + h", Analysis.POISSON, psi=psi)
        assert [(one.of, one.by) for one in raised.value.lacking_sums] == [((), ("g", "h"))]

    @pytest.mark.parametrize("response", ["log(y + 1)", "I(y**2)", "I(y > 5)"])
    def test_functions_inside_levels_have_no_run_to_answer_them(self, response):
        with pytest.raises(LevelsTooWideError) as raised:
            question_needs(f"{response} ~ g", Analysis.POISSON, CODING)
        assert "card.run" not in str(raised.value)

    @pytest.mark.parametrize("response", ["z", "I(y - 1)", "I(-1 * y)"])
    def test_numbers_below_zero_are_refused_by_the_schema_alone(self, response):
        with pytest.raises(InvalidInputError, match="0 or more"):
            question_needs(f"{response} ~ g", Analysis.POISSON, CODING)

    def test_values_by_hand_take_the_levels(self, records):
        psi = psi_with(records, [("g", "y")], [])
        margins, values = PsiMargins(psi, CODING), {"y": [5.0, 40.0, 300.0]}
        answer = answer_of("y ~ g", Analysis.POISSON, margins, CODING, values=values, missing="drop")
        assert answer["deviance"] > 0
        assert any("the analyst gave" in note for note in answer.notes)

    @pytest.mark.parametrize(("text", "stddev"), [("y ~ h", 0.3), ("y ~ g + k", 0.3)])
    def test_the_part_that_is_noise_covers_the_answer_without_noise(self, records, text, stddev):
        psi = planned_psi(records, text, Analysis.POISSON)
        truth = np.array(planned(records, text, Analysis.POISSON).coefficients.params)
        rng, covered, draws = np.random.default_rng(11), 0, 200
        for _ in range(draws):
            margins = margins_of(noisy_of(psi, stddev, rng), CODING)
            answer = answer_of(text, Analysis.POISSON, margins, CODING, missing="drop")
            own = answer.coefficients
            part = np.array([row[0] for row in answer.table("noise").values])
            assert not answer.scalars
            covered += np.sum(np.abs(np.array(own.params) - truth) <= 1.96 * part)
        number = draws * len(truth)
        assert stats.binomtest(int(covered), number, 0.95).pvalue > 1e-4, covered / number


def as_array(table) -> np.ndarray:
    return np.array(table.values, dtype=float)


class TestComponents:
    @pytest.mark.parametrize("matrix", ["correlation", "covariance"])
    @pytest.mark.parametrize("text", ["~ x + y", "~ x:k + y + z", "~ x + k + y", "y ~ x + I(3 - 2*z)"])
    def test_they_are_those_of_numpy_on_the_records(self, records, text, matrix):
        answer = planned(records, text, Analysis.COMPONENTS, options={"matrix": matrix})
        names = list(answer.table("attributes").row_names)
        chosen = complete_records(records, text)[names]
        if "3 - 2*z" in text:
            chosen = chosen.assign(z=3 - 2 * chosen.z)
        square = chosen.corr() if matrix == "correlation" else chosen.cov()
        values, vectors = np.linalg.eigh(square.to_numpy())
        values, vectors = values[::-1], vectors[:, ::-1]
        vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(names))])
        assert answer.n == len(chosen)
        assert np.allclose(as_array(answer.table("explained_variance"))[:, 0], values, rtol=1e-10)
        assert np.allclose(as_array(answer.table("components")), vectors, atol=1e-9)
        assert np.allclose(as_array(answer.table("loadings")), vectors * np.sqrt(values), rtol=1e-8)
        moments = np.column_stack([chosen.mean(), chosen.std()])
        assert np.allclose(as_array(answer.table("attributes")), moments, rtol=1e-12)

    def test_part_of_the_records(self, records):
        answer = planned(records, "~ y + z", Analysis.COMPONENTS, where="g != 'c'")
        chosen = records.query("g != 'c'")[["y", "z"]].dropna()
        values = np.linalg.eigvalsh(chosen.corr())[::-1]
        assert np.allclose(as_array(answer.table("explained_variance"))[:, 0], values, rtol=1e-10)

    def test_records_are_complete_and_the_answer_says_so(self, records):
        answer = planned(records, "~ x + y", Analysis.COMPONENTS, missing="level")
        assert answer.n == len(records[["x", "y"]].dropna())
        assert "of the records that have x, y" in answer.notes

    def test_a_plan_asks_for_sums_squares_and_products(self):
        needs = question_needs("~ x + z", Analysis.COMPONENTS, CODING)
        assert {(*one.of, *one.by) for one in needs.sums if one.of} >= {
            *(("x",), ("z",), ("x", "x"), ("x", "z"), ("z", "z"))
        }

    def test_a_function_of_a_number_is_one_of_its_levels(self, records):
        text = "~ y + log(z + 6)"
        answer = planned(records, text, Analysis.COMPONENTS)
        assert any(note.startswith("z: each level counts") for note in answer.notes)
        chosen = with_midpoints(records.dropna(subset=["y"]), ["z"])[["y", "z"]]
        values = np.linalg.eigvalsh(chosen.assign(z=np.log(chosen.z + 6)).corr())[::-1]
        assert np.allclose(as_array(answer.table("explained_variance"))[:, 0], values, rtol=1e-10)

    def test_numbers_without_sums_are_grouped(self, records):
        psi = psi_with(records, [("x", "y"), ("x", "z"), ("y", "z")], [])
        answer = planned(records, "~ x + z", Analysis.COMPONENTS, psi=psi)
        assert any("each level counts" in note for note in answer.notes)
        values = np.linalg.eigvalsh(with_midpoints(records[["x", "z"]].dropna(), "xz").corr())[::-1]
        assert np.allclose(as_array(answer.table("explained_variance"))[:, 0], values, rtol=1e-10)

    def test_a_response_in_a_function_is_refused(self):
        with pytest.raises(LevelsTooWideError):
            question_needs("log(y + 1) ~ z", Analysis.COMPONENTS, CODING)

    def test_noise_is_beside_each_number(self, records):
        psi = planned_psi(records, "~ x + z", Analysis.COMPONENTS)
        options = {"matrix": "covariance"}
        exact = planned(records, "~ x + z", Analysis.COMPONENTS, options=options, psi=psi)
        truth = as_array(exact.table("attributes"))[:, 1]
        rng, covered, draws = np.random.default_rng(19), np.zeros(2), 200
        for _ in range(draws):
            margins = margins_of(noisy_of(psi, 1.0, rng), CODING)
            answer = answer_of("~ x + z", Analysis.COMPONENTS, margins, CODING, options=options)
            noise = dict(zip(answer.table("noise").row_names, answer.table("noise").values, strict=True))
            part = [noise[f"attributes: {name}, std"][0] for name in "xz"]
            place = answer.table("attributes").column_names.index("std")
            own = as_array(answer.table("attributes"))[:, place]
            covered += np.abs(own - truth) <= 1.96 * np.array(part)
        for number in covered:
            assert stats.binomtest(int(number), draws, 0.95).pvalue > 1e-3, covered


class TestDiscriminant:
    @pytest.mark.parametrize("text", ["g ~ x + y", "g ~ y", "g ~ x + k + z", "h ~ x + I(2*z - 1) + y"])
    def test_it_is_that_of_scikit_learn_on_the_records(self, records, text):
        answer = planned(records, text, Analysis.DISCRIMINANT)
        response = text[0]
        features = list(answer.table("covariance").row_names)
        chosen = complete_records(records, text)
        chosen = chosen.assign(z=2 * chosen.z - 1) if "2*z" in text else chosen
        model = LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True)
        model.fit(chosen[features], chosen[response])
        assert answer.n == len(chosen)
        assert np.allclose(as_array(answer.table("means")), model.means_, rtol=1e-11)
        assert np.allclose(as_array(answer.table("covariance")), model.covariance_, rtol=1e-10)
        assert np.allclose(as_array(answer.table("priors"))[:, 0], model.priors_, rtol=1e-12)
        coef = as_array(answer.table("coef"))
        differences = [model.coef_, model.intercept_[:, None]]
        if len(model.classes_) == 2:
            coef = coef[1:] - coef[:1]
            assert np.allclose(coef, np.hstack(differences[::-1]), rtol=1e-7)
        else:
            theirs = np.hstack(differences[::-1])
            assert np.allclose(coef - coef[0], theirs - theirs[0], rtol=1e-6, atol=1e-9)

    def test_what_needs_each_record_is_left_out_and_said(self, records):
        needs = question_needs("g ~ x + y", Analysis.DISCRIMINANT, CODING, missing="drop")
        psi = psi_with(records, [*needs.cliques, ("g", "x", "y")], needs.sums)
        answer = planned(records, "g ~ x + y", Analysis.DISCRIMINANT, psi=psi)
        assert "accuracy" not in {one.name for one in answer.scalars}
        assert any(note.startswith("accuracy is not given") for note in answer.notes)

    def test_a_plan_asks_for_sums_by_class_squares_and_products(self):
        needs = question_needs("g ~ x + z", Analysis.DISCRIMINANT, CODING)
        sums = {(one.of, one.by) for one in needs.sums if one.of}
        assert sums == {
            *((("x",), ("g",)), (("z",), ("g",))),
            *((("x", "x"), ()), (("x", "z"), ()), (("z", "z"), ())),
        }

    def test_records_without_a_number_are_left_out_and_the_answer_says_so(self, records):
        answer = planned(records, "h ~ x + y", Analysis.DISCRIMINANT, missing="level")
        assert answer.n == len(records[["x", "y"]].dropna())
        assert "of the records that have x, y" in answer.notes
        assert len(answer.table("priors").row_names) == 3

    def test_part_of_the_records(self, records):
        answer = planned(records, "h ~ z + y", Analysis.DISCRIMINANT, where="g != 'c'")
        chosen = records.query("g != 'c'")[["h", "z", "y"]].dropna()
        assert np.allclose(as_array(answer.table("means")), chosen.groupby("h").mean(), rtol=1e-11)

    def test_collinear_numbers_have_none(self, records):
        same = records.assign(z=np.where(records.g == "a", 1.0, 2.0))
        with pytest.raises(NoEstimateError):
            planned(same, "g ~ z + x", Analysis.DISCRIMINANT)

    def test_noise_is_beside_each_number(self, records):
        psi = planned_psi(records, "g ~ x + z", Analysis.DISCRIMINANT)
        truth = as_array(planned(records, "g ~ x + z", Analysis.DISCRIMINANT, psi=psi).table("means"))
        rng, own, part = np.random.default_rng(23), [], []
        for _ in range(60):
            margins = margins_of(noisy_of(psi, 1.0, rng), CODING)
            answer = answer_of("g ~ x + z", Analysis.DISCRIMINANT, margins, CODING)
            noise = dict(zip(answer.table("noise").row_names, answer.table("noise").values, strict=True))
            own.append(as_array(answer.table("means")) - truth)
            part.append([[noise[f"means: {g}, {x}"][0] for x in "xz"] for g in "abc"])
        ratio = np.mean(part, axis=0) / np.sqrt(np.mean(np.square(own), axis=0))
        assert (np.abs(ratio - 1) < 0.3).all(), ratio


class TestCentre:
    @pytest.mark.parametrize(
        ("text", "where"),
        [
            ("y ~ center(x)", ""),
            ("y ~ center(x) + z:g", ""),
            ("y ~ center(x) * g + center(z)", ""),
            ("y ~ I(center(x) / 10) + h", "g != 'c'"),
            ("y ~ center(I(x - 2 * z)) + center(z) - 1", ""),
            ("center(y) ~ g + z", ""),
            ("center(I(3 - y)) ~ center(x)", "z >= 0"),
        ],
    )
    def test_it_is_that_of_patsy_on_the_complete_records(self, records, text, where):
        answer = planned(records, text, Analysis.LINEAR, where=where)
        chosen = complete_records(records, text)
        chosen = chosen.query(where) if where else chosen
        fit = smf.ols(text, chosen).fit()
        own = answer.coefficients
        names = same_names(own.names)
        order = [names.index(name) for name in same_names(fit.params.index)]
        errors = fit.bse.to_numpy()
        assert answer.n == fit.nobs
        assert (np.abs(np.array(own.params)[order] - fit.params) <= 1e-9 * errors).all()
        assert np.allclose(own.bse[order], errors, rtol=1e-9)

    def test_the_answer_says_what_is_subtracted(self, records):
        answer = planned(records, "y ~ center(x)", Analysis.LINEAR)
        mean = complete_records(records, "y ~ x").x.mean()
        assert f"center subtracts means of the records of the answer: {mean:.10g} from x" in answer.notes

    def test_the_card_is_that_of_the_number(self):
        one, other = (
            question_needs(text, Analysis.LINEAR, CODING) for text in ("y ~ center(x)", "y ~ x")
        )
        assert one == other

    def test_kinds_without_a_model_matrix(self, records):
        chosen = records[["x", "y", "g"]].dropna()
        one = planned(records, "~ center(x) + y", Analysis.CORRELATION)
        assert one["pearsonr"] == pytest.approx(chosen.x.corr(chosen.y), rel=1e-10)
        means = planned(records, "center(y) ~ g", Analysis.MEANS).table("means")
        part = records[["y", "g"]].dropna()
        expected = part.groupby("g").y.mean() - part.y.mean()
        assert np.allclose(as_array(means)[:, 1], expected, rtol=1e-9)
        moments = planned(records, "~ center(x) + y", Analysis.COMPONENTS).table("attributes")
        assert np.allclose(as_array(moments)[0], (0, chosen.x.std()), atol=1e-9)

    def test_a_number_in_two_forms_is_refused(self, records):
        with pytest.raises(InvalidFormulaError, match="two forms"):
            planned(records, "~ center(x) + x + y", Analysis.CORRELATION)

    def test_a_poisson_response_cannot_be_centred(self):
        for response in ("center(y)", "I(-1 * center(y))"):
            with pytest.raises(InvalidInputError, match="0 or more"):
                question_needs(f"{response} ~ g", Analysis.POISSON, CODING)

    def test_levels_have_no_mean_to_subtract(self, records):
        with pytest.raises(InvalidFormulaError, match="depends on the records"):
            planned(records, "y ~ center(x)", Analysis.POISSON)

    def test_the_part_that_is_noise_covers_the_answer_at_the_same_centre(self, records):
        psi = planned_psi(records, "y ~ center(x)", Analysis.LINEAR)
        rng, covered, draws = np.random.default_rng(29), np.zeros(2), 200
        slope = planned(records, "y ~ x", Analysis.LINEAR).coefficients.params
        for _ in range(draws):
            margins = margins_of(noisy_of(psi, 1.0, rng), CODING)
            answer = answer_of("y ~ center(x)", Analysis.LINEAR, margins, CODING, missing="drop")
            note = next(note for note in answer.notes if note.startswith("center subtracts"))
            centre = float(note.split(": ")[1].split()[0])
            truth = np.array([slope[0] + slope[1] * centre, slope[1]])
            part = np.array([row[0] for row in answer.table("noise").values])
            covered += np.abs(np.array(answer.coefficients.params) - truth) <= 1.96 * part
        for number in covered:
            assert stats.binomtest(int(number), draws, 0.95).pvalue > 1e-3, covered


class TestConstantsUnderNoise:
    """A constant in the response, beside that of its scale: both are parts of one column."""

    @pytest.mark.parametrize("terms", ["1", "x", "g", "x * g", "h + z"])
    def test_a_shifted_response_has_the_same_errors(self, records, terms):
        psi = planned_psi(records, f"y ~ {terms}", Analysis.LINEAR)
        margins = margins_of(noisy_of(psi, 0.3, np.random.default_rng(3)), CODING)
        one, other, centred = (
            answer_of(f"{response} ~ {terms}", Analysis.LINEAR, margins, CODING, missing="drop")
            for response in ("y", "I(y + 100)", "center(y)")
        )
        shift = np.array(other.coefficients.params) - one.coefficients.params
        assert shift == pytest.approx([100, *[0] * (len(shift) - 1)], abs=1e-6)
        for shifted in (other, centred):
            assert shifted.coefficients.bse == pytest.approx(one.coefficients.bse, rel=1e-6)
        assert centred.coefficients.params[1:] == pytest.approx(one.coefficients.params[1:], rel=1e-6)

    def test_a_shifted_count_has_errors(self, records):
        text = "I(y + 1) ~ h"
        psi = planned_psi(records, text, Analysis.POISSON)
        margins = margins_of(noisy_of(psi, 0.3, np.random.default_rng(3)), CODING)
        noisy = answer_of(text, Analysis.POISSON, margins, CODING, missing="drop").coefficients
        exact = planned(records, text, Analysis.POISSON).coefficients
        assert (np.array(noisy.bse) >= np.array(exact.bse)).all()
        assert (np.abs(np.array(noisy.params) - exact.params) <= 5 * np.array(noisy.bse)).all()


class TestNotes:
    @pytest.mark.parametrize(
        ("text", "kind", "options", "first"),
        [
            ("h ~ x", Analysis.LOGISTIC, {}, "x: each level counts as one number"),
            ("h ~ C(x)", Analysis.LOGISTIC, {}, ""),
            ("h ~ g + k", Analysis.LOGISTIC, {}, ""),
            ("g ~ h", Analysis.CROSSTAB, {}, ""),
            ("x ~ g", Analysis.CROSSTAB, {}, ""),
            ("y ~ g", Analysis.QUANTILES, {}, "y: each level counts as one number"),
            ("y ~ g", Analysis.ANOVA, {"test": "kruskal"}, "y: levels count in their order"),
            ("x ~ y", Analysis.CORRELATION, {"method": "kendall"}, "x, y: levels count in their order"),
            ("x ~ z", Analysis.POLYCHORIC, {}, "x, z: levels count in their order"),
            ("k ~ h + g", Analysis.LINEAR, {}, ""),
        ],
    )
    def test_the_first_one_says_which_numbers_go_by_levels(self, records, text, kind, options, first):
        written = question_needs(text, kind, CODING, missing="drop")
        cliques = written.cliques if not options else [read_factors(text, CODING).formula.attributes]
        psi = psi_with(records.dropna(), cliques, written.sums if not options else [])
        answer = planned(records, text, kind, options=options, psi=psi)
        notes = [note for note in answer.notes if "level" in note]
        assert bool(notes) == bool(first)
        assert not first or answer.notes[0].startswith(first)

    def test_numbers_of_levels_are_listed(self, records):
        answer = planned(records, "h ~ x + z", Analysis.LOGISTIC)
        assert answer.notes[0].endswith("(x: 9.5, 29.5, 70; z: -2.75, 0.75, 5.5)")

    def test_long_lists_are_cut_short(self):
        coding = Coding((Attribute("a", Edges(tuple(range(0, 100, 5)))), *CODING.attributes))
        written = read_factors("g ~ a", coding)
        (note,) = level_notes(
            written, Analysis.MULTINOMIAL, coding, numbers_of(coding), NumbersUsed(), {}
        )
        assert note.endswith("(a: 2.5, 7.5, 12.5, ..., 92.5)")
