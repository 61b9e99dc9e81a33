"""Canaries through black boxes of a real controller: one that copies rows, one that is honest."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.client.audit import CanaryTerms, canary_audit
from gencard.client.shell.main import app
from gencard.core.card.budget import Neighbouring
from gencard.core.errors import InvalidNumberError
from tests.system.house import running

LEVELS = [f"level {code}" for code in range(12)]
NAMES = ("sex", "health", "work", "region", "age")  # the box "leaky" of the house names three of them

SCHEMA = """
title = "Many cells"
description = "For tests."
declared_by = "the tests"
reviewed = true
""" + "".join(
    f'\n[[attributes]]\nname = "{name}"\n'
    + (f"labels = {LEVELS}\n" if name != "age" else f"edges = {list(range(0, 130, 10))}\n")
    for name in NAMES
)


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 12, (500, 5))
    data = pd.DataFrame({name: np.array(LEVELS)[codes[:, axis]] for axis, name in enumerate(NAMES[:4])})
    data["age"] = codes[:, 4] * 10.0
    with running(tmp_path_factory.mktemp("canaries"), data=data, schema=SCHEMA) as started:
        yield started


@pytest.fixture(scope="module")
def card(house):
    with house.analyst("ana") as analyst:
        yield analyst.propose("survey", list(combinations(NAMES, 1)), purpose="?", rows=2000).accept()


def found(card, box, neighbouring=Neighbouring.REPLACE_ONE, **terms):
    audit = canary_audit(card.agreement, box, CanaryTerms(neighbouring, **terms), seed=5, progress=False)
    return audit, {each.statistic: each for each in audit.findings.findings}


@pytest.mark.parametrize("neighbouring", Neighbouring)
def test_a_copier_is_found(card, neighbouring):
    audit, by_name = found(card, "copier", neighbouring)
    least = 4 if neighbouring is Neighbouring.REPLACE_ONE else 2
    assert by_name["count"].bound.epsilon > least
    assert by_name["guesses"].bound.epsilon > 1
    assert by_name["guesses"].bound.delta == 1e-6
    assert audit.findings.membership.interval()[0] > 0.55
    assert audit.findings.against(1.0, 0.0, neighbouring)
    assert audit.findings.against(1.0, 1e-6, neighbouring) == (by_name["guesses"],)


def test_an_honest_box_is_not(card):
    audit, by_name = found(card, "")
    assert all(each.bound.epsilon < 0.5 for each in by_name.values())
    assert not audit.findings.against(0.5, 0.0, Neighbouring.REPLACE_ONE)
    low, high = audit.findings.membership.interval(0.999)
    assert low < 0.5 < high


def test_too_many_rows_leave_no_bound_and_that_is_said(card):
    audit, by_name = found(card, "copier", radius=4)
    assert by_name["count"].bound is None
    shown = "".join(map("".join, audit.lines()))
    assert "refused: there are so many rows" in shown
    assert "no bound" in shown


def test_views_and_numbers_out_of_range(card):
    audit, _ = found(card, "copier")
    assert "pure epsilon, replace-one" in audit._repr_html_()
    assert "(epsilon, 1e-06)" in audit._repr_html_()
    assert "0.95" in audit.meaning
    for terms in ({"canaries": 3}, {"beta": 0.9}, {"delta": 2.0}, {"records": 0}):
        with pytest.raises(InvalidNumberError):
            found(card, "copier", **terms)


def test_the_command(house, card, monkeypatch):
    monkeypatch.setenv("GENCARD_CONNECTION", str(house.person("ana")))
    (house.person("ana") / "connection.toml").write_text(f'address = "{house.address}"\n')
    words = ["canaries", card.name, "--neighbouring", "add-remove", "--black-box", "copier"]
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 0, result.output
    bounds = {each["statistic"]: each for each in json.loads(result.output)["bounds"]}
    assert float(bounds["count"]["epsilon"]) > 2
    assert bounds["count"]["delta"] == "0.0"
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "membership by distance" in result.output.replace("\n", " ") or "Canaries" in result.output
