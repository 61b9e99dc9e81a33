"""The tutorial, typed as it stands: what it prints is what the commands print, and least squares."""

import re
import shlex
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pandas as pd
import pytest
from statsmodels.formula.api import logit, ols
from typer.testing import CliRunner

from gencard.client.shell import negotiation
from gencard.client.shell.main import app as analyst_shell
from gencard.controller.shell.main import app as steward_shell
from tests.printed import check_regression, lines_of_text, regressions
from tests.system.house import House
from tests.system.receivers import free_port

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
SHELLS = {"gencard": analyst_shell, "gencard-controller": steward_shell}
LEFT_OUT = {"make", ".", "export"}
"""Commands that are no commands of ours."""

PERMITS = {
    'mechanisms = ["gaussian"]': 'mechanisms = ["gaussian", "exact"]',
    "# analyses = {": "analyses = {",
    "numbers = 100": "numbers = 20",
}
"""Edits of the settings before a checked run, which the page describes in words."""


@pytest.fixture(scope="module")
def printed(tmp_path_factory) -> Iterator[list[tuple[str, str]]]:
    """Each command of the page, and what it printed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("tutorial"))
        patch.setenv("GENCARD_CONNECTION", "ana")
        patch.setattr(negotiation, "is_interactive", lambda: True)
        (records,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
        exec(records, {})
        house = House(Path("house").absolute())
        yield list(typed(house))
        house.stop()


def typed(house: House) -> Iterator[tuple[str, str]]:
    cards: list[str] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL):
        for line in re.findall(r"(?m)^\$ (.*)$", block):
            names = zip(("FIRST_CARD", "SECOND_CARD"), cards, strict=False)
            filled = reduce(lambda text, pair: text.replace(*pair), names, line)
            program, *words = shlex.split(filled)
            if program in LEFT_OUT or words[0] == "audit":  # the audit takes minutes
                continue
            if words[0] == "serve":
                house.edit({"address": f'"localhost:{free_port()}"'})
                house.start()
                continue
            if "--analyses" in words:
                permit_runs(house)
            result = CliRunner().invoke(SHELLS[program], words, input="y\ny\n")
            assert result.exit_code == 0, (line, result.output)
            if words[0] == "propose":
                cards += set(re.findall(r"datasets/survey/cards/[0-9a-f]+", result.output))
            yield line, result.output


def permit_runs(house: House) -> None:
    text = house.settings_file.read_text()
    for drafted, edited in PERMITS.items():
        assert drafted in text
        text = text.replace(drafted, edited)
    house.stop()
    house.settings_file.write_text(text)
    house.start()


def output_of(printed: list[tuple[str, str]], *words: str) -> str:
    (output,) = (output for line, output in printed if all(word in line for word in words))
    return output


def test_the_offer_is_the_one_on_the_page(printed):
    offer, _ = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    output = plain(output_of(printed, "propose", "--marginals-of-order 2"))
    for line in offer.splitlines():
        assert plain(line) in output
    assert "MECHANISM_NOT_OFFERED" in output


def plain(text: str) -> str:
    return " ".join(re.sub(r"[│─╭╮╰╯]", " ", text).split())


def test_what_the_page_says_of_a_release(printed):
    assert "Everything agrees." in output_of(printed, "gencard verify")
    assert "Every byte agrees" in output_of(printed, "gencard replay")


@pytest.mark.parametrize(
    ("command", "model", "formula"),
    [
        ("gencard answer FIRST_CARD", ols, "age ~ health"),
        ("gencard answer release", logit, "I(1 * (health == 'poor')) ~ sex + age"),
    ],
    ids=["linear", "logistic"],
)
def test_answers_with_noise_are_near_the_file(printed, command, model, formula):
    """Within four of their stated standard errors, which include the noise."""
    (answered,) = regressions(lines_of_text(output_of(printed, command)))
    fitted = model(formula, pd.read_csv("survey.csv")).fit()
    assert len(answered) == len(fitted.params)
    for (estimate, error, *_), truth in zip(answered.values(), fitted.params, strict=True):
        assert abs(float(estimate) - truth) < 4 * float(error)


def test_the_confirmed_answer_is_least_squares_on_the_file(printed):
    """The table on the page is the same, number by number."""
    (of_page,) = regressions(lines_of_text(PAGE))
    (of_run,) = regressions(lines_of_text(output_of(printed, "gencard run")))
    assert of_page == of_run
    check_regression(of_run, ols("age ~ health", pd.read_csv("survey.csv")).fit(), rounded=True)
