"""docs/wrong-actions.md: wrong actions at a real controller: ``python -m docs.wrong_actions``.

Operators, stewards, auditors and authors of black boxes act by the shells that they use. Each action
states words that name its cause and words that say what to do; the page states whether both are there.
"""

import re
import shlex
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from typer.testing import CliRunner

from gencard.client import Analyst, Steward, new_request
from gencard.client.shell.main import app as gencard
from gencard.controller.settings import Settings
from gencard.controller.shell import advice_of
from gencard.controller.shell.main import app as controller
from gencard.controller.wiring.opening import Reload, SettingsWatch, digest_of
from gencard.core.errors import GencardError
from gencard.wire.keys import Role

PAGE = Path(__file__).with_name("wrong-actions.md")

_HEAD = """\
# Wrong and unlucky actions

Made by `python -m docs.wrong_actions` at a running controller: what operators, stewards, auditors and
authors of black boxes read after a mistake or bad luck. The last two columns say whether the text names
the cause, and what to do next. `CARD` waits for a steward, `DECIDED` is offered, `SIGNED` is agreed;
`FAILS` has a table that fails the checks of the policy.
"""

TEXT = """\
operator: sets up in a folder that is in use
$ gencard-controller init HOUSE --data RECORDS
is not empty ... choose another folder

operator: names records that are not there
$ gencard-controller init NEW --data no.csv
there is no file or folder no.csv ... Correct the named value

operator: names settings that are not there
$ gencard-controller check --config no.toml
cannot be read ... with --config

operator: starts a second service
$ gencard-controller serve
in use by another service ... stop it first

operator: misspells a setting
$ gencard-controller check --config TYPO
limits.worker: is not a known name ... did you mean 'workers'

operator: misspells a table of settings
$ gencard-controller check --config SECTION
limit: is not a known name ... did you mean 'limits'

operator: forbids an attribute that is not there
$ gencard-controller check --config FORBIDS
policy.forbidden: names an attribute that the schema does not declare ... Correct the named value

operator: offers runs beside checked counts alone
$ gencard-controller check --config DROPS
only exact counts with rounding or checks ... remove transform, or add a mechanism with noise

operator: offers a threshold that pairs fail
$ gencard-controller check
male, bad: 2 ... Merge the levels in the schema, forbid the pair in the policy, or offer noise

operator: lowers a cap beside an unreviewed draft
$ gencard-controller caps set survey --statistics 900
Not in force: datasets/second: reviewed: is false ... read the schema, then set it to true

operator: asks which caps are in force
$ gencard-controller caps
Not in force: datasets/second: reviewed: is false ... read the schema, then set it to true

operator: changes the holdout under the service
$ gencard-controller caps
datasets/survey: holdout ... Needs a restart

operator: lowers a cap below what is spent
$ gencard-controller caps set survey --statistics 0
are spent already ... set the cap to at least what is spent

operator: sets a cap of a person who is not there
$ gencard-controller caps set survey --analyst bob --rho 1
nobody is enrolled as 'bob' ... enrolled: ana, aud

operator: sets a cap without an amount
$ gencard-controller caps set survey
caps ... give --rho, --epsilon or --statistics

operator: gives an option twice
$ gencard-controller caps set survey --rho 1 --rho 2
'--rho': it is given more than once ... --help

operator: misspells a dataset
$ gencard-controller caps set servey --rho 1
there is no 'servey' ... there are survey, second

operator: removes a dataset with open cards
$ gencard-controller dataset remove survey
cards that have not ended ... or use --force

operator: adds a dataset under a name in use
$ gencard-controller dataset add survey RECORDS
'survey' is taken ... choose another

operator: misspells an attribute
$ gencard-controller schema set helth --ordered --dataset survey
there is no 'helth' ... did you mean 'health'

operator: gives an attribute labels and edges
$ gencard-controller schema set work --labels a,b --edges 1,2 --dataset survey
cannot be given together with edges ... Correct the named value

operator: disables a person who is not there
$ gencard-controller person disable bob
nobody is enrolled as 'bob' ... names everybody

operator: enrols a person without a request
$ gencard-controller person add zoe --role analyst
there is no file zoe-request.json ... zoe must run `gencard enrol zoe` and send it to you

operator: reviews a black box that is not there
$ gencard-controller boxes review cheta --by Ann
'cheta' is not a black box of the settings ... which have

operator: voids a line that is settled
$ gencard-controller emergency ledger void SETTLED
is settled ... only a reserved line can be settled or released

operator: voids a line that is not there
$ gencard-controller emergency ledger void 999
The ledger line does not exist ... List the lines with `gencard-controller emergency ledger`

operator: restores while the service runs
$ gencard-controller restore BACKUP
in use by another service ... stop it first

operator: backs up into a folder that is in use
$ gencard-controller backup HOUSE
is not empty ... choose another folder

operator: tests notifications without settings
$ gencard-controller notify test
No notifications are configured ... add [notify.webhook] or [notify.mail] to the settings

operator: dismisses a failure that is not there
$ gencard-controller emergency refusals dismiss operations/0
The operation does not exist ... List failures with `gencard-controller emergency refusals`

steward: reviews a card that is not there
$ gencard steward show datasets/survey/cards/0000000000000000
The card does not exist ... `gencard cards` lists the cards

steward: approves a card that was not shown
$ gencard steward approve CARD --yes --reason x
--shown: is required ... Review it first: its digest is printed after Shown

steward: approves by the digest of another card
$ gencard steward approve CARD --shown OLD --yes --reason x
is not what was read, or has changed since ... repeat with the digest that is shown

steward: approves a card that is decided
$ gencard steward approve DECIDED --shown DECIDED_SHOWN --yes --reason x
A card in state offered does not allow this ... to see the card's next step

steward: approves a card that must fail
$ gencard steward approve FAILS --shown FAILS_SHOWN --yes --reason x
tables fail the checks of the policy: sex, health ... counter --drop sex,health

steward: counters without a change
$ gencard steward counter CARD --yes --reason x
needs --drop, --without or --rows ... to offer the terms unchanged, use approve

steward: leaves out a marginal that was not proposed
$ gencard steward counter CARD --drop sex,work --shown SHOWN --yes --reason x
drop: names a marginal that was not proposed ... Correct the named value

steward: revokes a card that was never agreed
$ gencard steward revoke CARD --shown SHOWN --yes --reason x
A card in state requested does not allow this ... to see the card's next step

steward: decides twice where two stewards must
$ gencard steward revoke SIGNED --shown SIGNED_SHOWN --yes --reason x
the first decision is your own ... Ask another steward

steward: settles a line that is not there
$ gencard steward settle 999
The ledger line does not exist ... `gencard steward ledger` lists the lines

steward: releases an answer that is not there
$ gencard steward release SIGNED/answers/0 --shown OLD --yes --reason x
The answer does not exist ... stewards: `gencard steward answers`

steward: enrols a person under a wrong fingerprint
$ gencard steward enrol REQUEST --project p --fingerprint WRONG --shown OLD --yes --reason x
does not match the request ... Compare what you typed

steward: disables a person who is not there
$ gencard steward disable bob --shown OLD --yes --reason x
nobody is enrolled as 'bob' ... the list of people names everybody

steward: looks up a log entry that is not there
$ gencard steward log --entry 99999
must be the number of an entry of the log ... in the stated range

steward: has a certificate of an analyst
$ gencard steward queue -c ANA
The role of this certificate may not call this method ... Ask the controller's steward

auditor: audits a card that is not there
$ gencard audit datasets/survey/cards/0000000000000000 -c AUD
The card does not exist ... `gencard cards` lists the cards

auditor: misspells a black box
$ gencard audit SIGNED --black-box cheta -c AUD
'cheta' does not exist ... Did you mean 'cheat'?

auditor: audits a black box that is not lent
$ gencard audit SIGNED --black-box hidden -c AUD
hidden ... steward

auditor: audits checked counts at the records
$ gencard audit SIGNED --where card -c AUD
the card has rounding or checks ... Audit on made-up records

auditor: audits at a place that is none
$ gencard audit SIGNED --where moon -c AUD
'moon' is not one of ... 'made-up', 'card'

auditor: inserts canaries of no relation
$ gencard canaries SIGNED --neighbouring near -c AUD
'near' is not one of ... 'add-remove', 'replace-one'

auditor: audits a card whose Phi determines everything
$ gencard audit ALL -c AUD
Phi determines every interaction ... This is not a passed audit: nothing was tested

auditor: proposes a card
$ gencard propose survey --marginal work --purpose x -c AUD
The role of this certificate may not call this method ... Ask the controller's steward

auditor: verifies a folder that is not there
$ gencard verify no/such/folder -c AUD
there is no file of this name ... Check the path

auditor: was disabled
$ gencard cards -c BEA
the person of this certificate is disabled ... Ask the controller's steward to enable you

author: names a file that is not in the folder
$ gencard-controller check --config ABSENT
names a file that is not in the folder ... Correct the named value

author: declares a library that is not installed
$ gencard-controller check --config LIBRARY
name 'nothing-here', which is not installed ... Correct the named value

author: gives a built-in box a wrong parameter
$ gencard-controller check --config PARAMETER
black_boxes/deep: epsilon ... must be a decimal from

author: misspells a built-in box
$ gencard-controller check --config BUILT_IN
black_boxes/deep ... must be one of

author: raises an error
$ gencard audit SIGNED --black-box raises -c AUD
made to fail ... Correct the program

author: returns too few rows
$ gencard audit SIGNED --black-box short -c AUD
does not have the requested number of rows: 99, not 100 ... Correct the program

author: changes the program under the service
$ gencard audit SIGNED --black-box cheat -c AUD
differs from what the service read at its start ... a steward restarts the service
"""


@dataclass(frozen=True, slots=True)
class Action:
    """One wrong or unlucky action.

    Args:
        who: operator, steward, auditor or author.
        what: The action in plain words.
        command: As typed in a shell; names in capitals stand for what ``surroundings`` gives.
        cause: Words of the text that name the cause.
        advice: Words of the text that say what to do.
    """

    who: str
    what: str
    command: str
    cause: str
    advice: str


def _action(block: str) -> Action:
    head, command, words = block.strip().splitlines()
    who, _, what = head.partition(": ")
    cause, _, advice = words.partition(" ... ")
    return Action(who, what, command.removeprefix("$ "), cause, advice)


ACTIONS = tuple(map(_action, TEXT.split("\n\n")))

_SCHEMA = """
title = "A made-up survey"
description = "For this page."
declared_by = "the page"
reviewed = true

[[attributes]]
name = "sex"
labels = ["female", "male"]

[[attributes]]
name = "health"
labels = ["good", "fair", "bad"]

[[attributes]]
name = "work"
labels = ["none", "part"]
"""
_COUNTS = dict(
    zip(product(("female", "male"), ("good", "fair", "bad")), (40, 40, 40, 40, 40, 2), strict=True)
)
_BODIES = {
    "cheat": "return table.dataset.take(rng.integers(len(table), size=rows))",
    "hidden": "return table.dataset.take(rng.integers(len(table), size=rows))",
    "raises": 'raise ValueError("made to fail")',
    "short": "return table.dataset.take(rng.integers(len(table), size=rows - 1))",
}
_BOX = """
from gencard.wire.black_box import black_box

@black_box
def box(table, rows, *, rng):
    {body}

box.main()
"""
_BOX_TABLE = """
[[black_boxes]]
name = "{name}"
kind = "program"
folder = "boxes/{name}"
command = ["python", "./box.py"]
"""
_DEEP = '\n[[black_boxes]]\nname = "deep"\nkind = "built_in"\n'
_RUNS = 'automatic = false\nanalyses = { kinds = ["crosstab"], checked_runs = 5 }'
_VARIANTS = {
    "TYPO": (r"(?m)^\[limits\].*$", "[limits]\nworker = 2"),
    "SECTION": (r"\Z", "\n[limit]\nworkers = 2\n"),
    "FORBIDS": (r"(?m)^forbidden = .*$", 'forbidden = [["agee"]]'),
    "DROPS": (r"(?m)^automatic = .*$", _RUNS),
    "ABSENT": (r"(?m)^command = .*$", 'command = ["python", "./bix.py"]'),
    "LIBRARY": (r"(?m)^command = .*$", 'command = ["python", "./box.py"]\nlibraries = ["nothing-here"]'),
    "PARAMETER": (r"\Z", f'{_DEEP}box = "mst"\nparameters = {{ epsilon = "much" }}\n'),
    "BUILT_IN": (r"\Z", f'{_DEEP}box = "mts"\n'),
}
"""Settings with one mistake: what is replaced in those of the controller, and by what."""

_CARDS: dict[str, list[tuple[str, ...]]] = {
    "CARD": [("sex",), ("work",)],
    "DECIDED": [("health",)],
    "SIGNED": [("sex",), ("health",), ("work",)],
    "ALL": [("work",)],
    "FAILS": [("sex", "health")],
}
"""Marginals of the cards that commands name."""


@contextmanager
def _watched(house: Any) -> Iterator[None]:
    """Read settings again when they change, as ``gencard-controller serve`` does."""
    file, over, running = house.settings_file, threading.Event(), house.controller
    watch = SettingsWatch(file, house.settings())

    def read() -> None:
        while not over.wait(0.2):
            with suppress(GencardError):
                if watch.changed():
                    settings = Settings.load(file)
                    watch.follow(settings)
                    running.reload(settings, digest_of(file, settings))

    running.state_in_force(Reload(), digest_of(file, house.settings()))
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _built(folder: Path) -> Any:
    """A controller with checks of counts, two stewards for revocations, and programs as black boxes."""
    from tests.system.house import build  # noqa: PLC0415 - the controller of the tests

    rows = [cell for cell, number in _COUNTS.items() for _ in range(number)]
    frame = pd.DataFrame(rows, columns=["sex", "health"]).assign(work="none")
    frame.loc[::2, "work"] = "part"
    house = build(folder, frame, _SCHEMA)
    transform = "transform = { threshold = 10, rounding = 5 }"
    house.edit({"automatic": f'false\ntwo_stewards = ["revocation"]\n{transform}'})
    for name, body in _BODIES.items():
        place = house.folder / "boxes" / name
        place.mkdir(parents=True)
        (place / "box.py").write_text(_BOX.format(body=body))
    with house.settings_file.open("a") as settings:
        settings.write("".join(_BOX_TABLE.format(name=name) for name in _BODIES))
    house.edit({"black_boxes": '["cheat", "honest", "ipf", "raises", "short"]'})
    house.enrol("bea", Role.AUDITOR, "pilot")
    return house


def _files(house: Any, folder: Path) -> dict[str, str]:
    """Files and folders by the names that commands use."""
    text = house.settings_file.read_text()
    names = {"HOUSE": house.folder, "NEW": folder / "new", "RECORDS": folder / "survey.csv"}
    names |= {"BACKUP": folder / "monday", "REQUEST": new_request(folder / "dora", "dora").file}
    for name, (old, new) in _VARIANTS.items():
        names[name] = house.folder / f"{name.lower()}.toml"
        names[name].write_text(re.sub(old, new.replace("\\", r"\\"), text, count=1))
    for name in ("ana", "aud", "bea", "sam"):
        names[name.upper()] = house.person(name)
    return {name: str(path) for name, path in names.items()}


def _cards(ana: Analyst, sam: Steward) -> dict[str, str]:
    """Cards in several states, and the digests of what a steward was shown of them."""
    cards = {
        name: ana.propose("survey", marginals, purpose="To see", rows=100)
        for name, marginals in _CARDS.items()
    }
    names = {name: card.name for name, card in cards.items()}
    names["OLD"] = sam.review(names["DECIDED"]).shown
    for name in ("DECIDED", "SIGNED", "ALL"):
        sam.approve(sam.review(names[name]), reason="seen")
    for name in ("SIGNED", "ALL"):
        cards[name].refresh().accept()
    cards["SIGNED"].generate(rows=10, progress=False)
    sam.risk(names["FAILS"], progress=False)
    for name in ("DECIDED", "FAILS", "SIGNED"):
        names[f"{name}_SHOWN"] = sam.review(names[name]).shown
    names["SHOWN"] = sam.review(names["CARD"]).shown
    sam.revoke(sam.review(names["SIGNED"]), reason="first")
    return names | {"SETTLED": str(ana.spends()[0].line), "WRONG": "0" * 64}


@contextmanager
def surroundings(folder: Path) -> Iterator[tuple[Any, dict[str, str]]]:
    """A running controller, and what the names in capitals stand for."""
    house = _built(folder)
    names = _files(house, folder)
    try:
        house.start()
        for name in ("ana", "aud", "bea", "sam"):
            (house.person(name) / "connection.toml").write_text(f'address = "{house.address}"\n')
        with house.analyst() as ana, Steward.connect(folder=house.person("sam")) as sam:
            names |= _cards(ana, sam)
        with _watched(house):
            yield house, names
    finally:
        house.stop()


def _before(house: Any, names: Mapping[str, str], what: str) -> None:
    """Events before some of the actions."""
    outside = house.folder.parent
    match what:
        case "lowers a cap beside an unreviewed draft":
            (outside / "second.csv").write_text("a,b\n" + "x,1\ny,2\n" * 30)
            run(names, f"gencard-controller dataset add second {outside / 'second.csv'}")
        case "changes the holdout under the service":
            shutil.copy(outside / "survey.csv", outside / "others.csv")
            text, key = house.settings_file.read_text(), 'schema = "schema.toml"\n'
            line = f'{key}holdout = "{outside / "others.csv"}"\n'
            house.settings_file.write_text(text.replace(key, line, 1))
        case "restores while the service runs":
            run(names, f"gencard-controller backup {names['BACKUP']}")
        case "was disabled":
            run(names, "gencard-controller person disable bea")
        case "changes the program under the service":
            (house.folder / "boxes" / "cheat" / "box.py").write_text("changed")


def run(names: Mapping[str, str], command: str) -> tuple[str, str]:
    """Exit code of a command, and all that it prints, in one line."""
    pattern = re.compile(rf"\b({'|'.join(sorted(names, key=len, reverse=True))})\b")
    words = [pattern.sub(lambda name: names[name[1]], word) for word in shlex.split(command)]
    settings = {
        "GENCARD_CONTROLLER": f"{names['HOUSE']}/controller.toml",
        "GENCARD_CONNECTION": names["SAM"],
    }
    is_controller = words[0] == "gencard-controller"
    result = CliRunner().invoke(
        controller if is_controller else gencard,
        words[1:],
        env={**settings, "COLUMNS": "300", "NO_COLOR": "1"},
    )
    text, code = result.output, result.exit_code
    if isinstance(result.exception, GencardError):  # the programs print it; see ``run_shell``
        error, code = result.exception, 1
        advice = advice_of(error) if is_controller else error.advice
        notes = " ".join(getattr(error, "__notes__", ()))
        text = f"{text} {error.reason} {error.message} {notes} → {advice}"
    return f"exit {code}", re.sub(r"\s+", " ", text).strip()


_SHAPES = (
    (r"localhost:\d+", "HOST:PORT"),
    (r"cards/(?!0{16})[0-9a-f]{16}", "cards/CARD"),
    (r"\b[0-9a-f]{32,64}\b", "DIGEST"),
    (r"\d{4}-\d\d-\d\dT[\d:]+Z|\d{4}-\d\d-\d\d", "TIME"),
    (r"Traceback \(most recent call last\): .*(\b[A-Z]\w*Error: )", r"Traceback … \1"),
    (r"[─-╿]+", " "),
    (r"\s+", " "),
)


def masked(text: str, names: Mapping[str, str], folder: str) -> str:
    """Text without what differs from run to run."""
    for name in ("BACKUP", "NEW", "REQUEST", "HOUSE"):
        text = text.replace(names[name], name)
    text = text.replace(folder, "FOLDER")
    for shape, word in _SHAPES:
        text = re.sub(shape, word, text)
    return text.strip()


def answers() -> list[tuple[Action, str, str]]:
    """Each action with its exit code and the text."""
    lines = []
    with tempfile.TemporaryDirectory() as folder, surroundings(Path(folder)) as (house, names):
        for action in ACTIONS:
            _before(house, names, action.what)
            ends, text = run(names, action.command)
            lines.append((action, ends, masked(text, names, folder)))
    return lines


def page(lines: Sequence[tuple[Action, str, str]]) -> str:
    """The whole page."""
    heads = "| who | action | command | ends with | text | cause | what to do |"
    rows = []
    for action, ends, text in lines:
        marks = ("yes" if words in text else "**no**" for words in (action.cause, action.advice))
        cells = (action.who, action.what, f"`{action.command}`", ends, text, *marks)
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([_HEAD, heads, "|---|---|---|---|---|---|---|", *rows, ""])


def main() -> None:
    """Write the page anew."""
    PAGE.write_text(page(answers()), encoding="utf-8")


if __name__ == "__main__":
    main()
