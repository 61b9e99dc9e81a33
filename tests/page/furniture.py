"""A controller with something of every kind, whose analyst writes markup and scripts wherever it can."""

from contextlib import suppress
from pathlib import Path

from gencard.client import Analyst
from gencard.client.card import Card
from gencard.core.errors import AnswerWaitingError, RunRefusedError
from gencard.wire.canonical import sha256
from tests.page.by_http import PageHouse
from tests.system.sandboxes import isolation_works
from tests.system.stewards import Steward

MARK = "data-attack"
"""An attribute that no page of ours has."""

SCRIPT = f"<img src=x {MARK} onerror=window.attacked=1><script>window.attacked=1;alert(1)</script>"
HOSTILE = (
    f'Study of "><b {MARK}>health</b> {SCRIPT}',
    f"{{{{7*7}}}} ${{7*7}} {{% raw %}} &lt;b {MARK}&gt; ' onfocus=alert(1) autofocus x='",
    f"javascript:alert(1)//\u202e\u0000 <svg {MARK} onload=alert(1)>".replace("\0", ""),
    "a" * 1_900,
    "word " * 390,
)
"""Purposes: markup, templates, attributes, a word without end, a text without end."""

RUNS = (
    'analyses = { kinds = ["crosstab"], checked_runs = 3, numbers = 200, reviewed_runs = 3, '
    'program_numbers = 60, release = "steward" }\n'
)
"""Part of a policy that lets analyses and analysts' programs run; all wait for a steward."""

PROGRAM = f"""
# {SCRIPT}
from gencard.run import output, records
frame = records()
output.table("sex by <b {MARK}>health</b>", frame.value_counts(["sex", "health"]).unstack())
output.scalar("mean age", frame["age"].mean())
output.scalar("few", len(frame) % 7, count=True)
"""


LABEL = f"<b {MARK}>good</b>"


def label_with_markup(house: PageHouse) -> None:
    """Make one of the schema's labels markup; before the house is started."""
    schema, records = house.folder / "schema.toml", house.folder.parent / "survey.csv"
    schema.write_text(schema.read_text().replace('"good"', f'"{LABEL}"'))
    records.write_text(records.read_text().replace(",good,", f",{LABEL},"))


def furnish(house: PageHouse) -> None:
    """Cards that wait, are offered, agreed and refused; a release, and a run that waits."""
    sam = _sam(house)
    with house.analyst() as analyst:
        names = [
            analyst.propose("survey", [("sex", "health"), ("sex", "age")], purpose=purpose).name
            for purpose in HOSTILE
        ]
        sam.approve(names[0])
        sam.reject(names[1], SCRIPT[:150])
        agreed = _agreed(house, analyst)
        agreed.release(rows=200, seed=1)
        if isolation_works():
            _let_wait(agreed, house.folder)


def _sam(house: PageHouse) -> Steward:
    """Sam at the desk, without a page."""
    assert house.controller is not None
    return Steward(house.controller.controller_state)


def _agreed(house: PageHouse, analyst: Analyst) -> Card:
    granted = {"programs": [sha256(PROGRAM.encode())], "reviewed_runs": 3, "program_numbers": 60}
    granted |= {"kinds": ["crosstab"], "checked_runs": 3, "numbers": 200}
    marginals = [("sex", "health"), ("sex", "age"), ("region", "work")]
    asked = analyst.propose("survey", marginals, purpose=HOSTILE[0], analyses=granted)
    _sam(house).approve(asked.name)
    return analyst.card(asked.name).accept()


def _let_wait(card: Card, folder: Path) -> None:
    """A reviewed run that waits for a steward, and checked ones whose formula quotes a label."""
    for where in (f"health != '{LABEL}'", f"health == '{LABEL}' or sex == 'male'"):
        with suppress(AnswerWaitingError, RunRefusedError):
            card.run("health ~ sex", "crosstab", where=where, progress=False)
    program = folder / "analysis.py"
    program.write_text(PROGRAM)
    with suppress(AnswerWaitingError):
        card.run(program=program, seed=3, progress=False)
