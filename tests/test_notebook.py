"""The notebook of the first hour runs, says nothing that a newcomer must not see, and loads nothing."""

import re
import shutil
from importlib import import_module

import numpy as np
import pytest
from matplotlib.image import imread

from tests.printed import check_regression, lines_of_page, regressions


@pytest.fixture(scope="module")
def docs():
    """``docs.notebook``; to import it takes seconds, which every process of the tests would spend."""
    pytest.importorskip("statsmodels", reason="the survey comes with it")
    return import_module("docs.notebook")


@pytest.fixture(scope="module")
def notebook(docs):
    return docs.executed()


def test_it_is_kept_without_outputs(docs):
    kept = docs.nbformat.read(docs.NOTEBOOK, as_version=4)
    docs.nbformat.validate(kept)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in kept.cells)


def test_no_cell_fails_or_warns(docs, notebook):
    shown = "\n".join(docs.texts(notebook))
    assert not re.search(r"(?m)^stderr: |Warning|Traceback", shown)


def test_each_step_of_the_first_hour_shows_its_result(docs, notebook):
    page = docs.html(notebook)
    for words in (
        "6,366, as declared",
        "ORDER_TOO_HIGH",
        "agreed",
        "Every byte agrees",
        "psi SHA-256",
        "Unique rows and small counts",
        "not named on the card",
        "Evidence of leakage",
        "Exact statistics",
    ):
        assert words in page


def test_its_numbers_are_those_of_the_survey(docs, notebook):
    """Coefficients equal least squares; means of 10,000 rows are within four standard errors."""
    survey = import_module("statsmodels.api").datasets.fair.load_pandas().data
    page = docs.html(notebook)
    (answered,) = regressions(lines_of_page(page))
    formula = "affairs ~ rate_marriage + religious"
    check_regression(answered, import_module("statsmodels.formula.api").ols(formula, survey).fit())
    means = re.findall(r"(?m)^(\d) +([\d.]+) +(\d+)$", "\n".join(docs.texts(notebook)))
    groups = survey.groupby("rate_marriage").affairs.agg(["mean", "std", "count"])
    assert [int(level) for level, *_ in means] == groups.index.tolist()
    for (_, mean, count), (truth, deviation, records) in zip(means, groups.to_numpy(), strict=True):
        assert float(mean) == pytest.approx(truth, abs=4 * deviation / np.sqrt(int(count)))
        assert int(count) == pytest.approx(10_000 * records / len(survey), abs=4 * np.sqrt(int(count)))


def test_the_page_loads_nothing_from_elsewhere(docs, notebook):
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", docs.html(notebook))


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_draws_it(docs, notebook, tmp_path):
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    page.write_text(docs.html(notebook), encoding="utf-8")
    docs.take_picture(page, picture, width=1_000, height=2_000)
    pixels = imread(picture)[:, :, :3]
    assert pixels.shape[1] == 1_000
    assert 500 < pixels.shape[0] <= 2_000
    assert pixels.std() > 0.05


def test_the_figures_are_the_sections_alone(docs):
    named = '<section class="measure" aria-labelledby="{0}">{0}</section>'
    page = f"<head></head><body class='x'>{''.join(map(named.format, ('dcr', 'nndr', 'tables')))}"
    shown = docs.figures_of(page)
    assert named.format("dcr") in shown
    assert named.format("tables") in shown
    assert "nndr" not in shown
