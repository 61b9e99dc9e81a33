"""The pages' sessions, run as they stand, on the survey of the demonstration."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from statsmodels.formula.api import ols

from examples import demo, local_controller
from examples.fair_survey import write_records
from examples.local_controller import LocalController
from gencard.client import Analyst
from tests.printed import check_regression, lines_of_text, regressions

ROOT = Path(__file__).resolve().parents[2]
AUDIT = {'card.audit("smuggler")': 'card.audit("smuggler", runs=6)'}
"""Calls that a test shortens."""

WITHOUT_AUDITS = """
from examples import demo
demo.audit = lambda *_: None
raise SystemExit(demo.main())
"""
"""The demonstration without its audits, which print no estimates."""


@pytest.fixture(scope="module")
def controller() -> Iterator[LocalController]:
    started = local_controller.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def survey(tmp_path_factory) -> pd.DataFrame:
    file = tmp_path_factory.mktemp("survey") / "fair.csv"
    write_records(file)
    return pd.read_csv(file)


def test_the_session(controller, survey, tmp_path) -> None:
    said = run(ROOT / "README.md", AUDIT, controller, tmp_path)
    assert "ORDER_TOO_HIGH" in said
    assert "Every byte agrees" in said
    assert "Evidence of leakage" in said
    assert "rate_marriage × religious × affairs" in said
    fitted = ols("affairs ~ religious", survey).fit()
    for name, truth in fitted.params.items():
        (own,) = re.findall(rf"(?m)^{name} +(-?[\d.]+)$", said)
        assert float(own) == pytest.approx(truth, abs=1e-6 * fitted.bse[name] + 1e-6)


def test_the_session_of_a_plan(controller, tmp_path) -> None:
    said = run(ROOT / "docs" / "analysts.md", {}, controller, tmp_path)
    assert "('religious', 'affairs')" in said
    assert "match psi within sampling error" in said
    assert (tmp_path / "fidelity.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_answer_of_the_guide_is_that_of_the_file(controller, survey) -> None:
    """The guide's one line is run on a card that its own plan makes."""
    page = (ROOT / "docs" / "answers.md").read_text(encoding="utf-8")
    ((formula, kind),) = re.findall(r'answer = card\.answer\("([^"]+)", "([^"]+)"\)', page)
    with Analyst.connect(controller.address, folder=controller.people / "ana") as analyst:
        release = analyst.synthesize("fair", formula, kind=kind, rows=100, accept=True, progress=False)
        answer = analyst.card(release.card).answer(formula, kind)
    fitted = ols(formula, survey).fit()
    assert np.allclose(answer.params[fitted.params.index], fitted.params, rtol=1e-9)
    assert np.allclose(answer.bse[fitted.params.index], fitted.bse, rtol=1e-9)


def test_the_demonstration_prints_regressions_of_the_file(survey, tmp_path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    command = [sys.executable, "-c", WITHOUT_AUDITS]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answered, confirmed = regressions(lines_of_text(done.stdout))
    check_regression(answered, ols(demo.FORMULA, survey).fit())
    check_regression(confirmed, ols(demo.RUN_FORMULA, survey).fit(), rounded=True)
    (apart,) = re.findall(r"largest relative difference (\S+)\.", done.stdout)
    assert float(apart) < 1e-9
    (rounding,) = re.findall(r"at most (\S+) standard errors away", done.stdout)
    assert float(rounding) <= 0.05


def run(page: Path, in_place: dict[str, str], controller: LocalController, tmp_path: Path) -> str:
    """Run the one session of a page, and return its output."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (session,) = (block for block in blocks if "Analyst.connect" in block)
    for shown, tested in in_place.items():
        assert shown in session
        session = session.replace(shown, tested)
    person = tmp_path / "demo" / "controller" / "people" / "ana"
    shutil.copytree(controller.people / "ana", person)
    (person / "connection.toml").write_text(f'address = "{controller.address}"\n')
    (tmp_path / "session.py").write_text(session)
    command = [sys.executable, "session.py"]
    done = subprocess.run(
        command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
