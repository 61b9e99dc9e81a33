"""docs/wrong-uses.md: what wrong uses answer, at a real controller: ``python -m docs.wrong_uses``."""

import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from typer.testing import CliRunner

from gencard import client
from gencard.client import Analyst
from gencard.client.shell.main import app

PAGE = Path(__file__).with_name("wrong-uses.md")

_HEAD = """\
# Wrong uses

Made by `python -m docs.wrong_uses`: what a wrong call or command answers. `analyst` is connected,
`closed` was closed, `card` is agreed and `offered` is not; `release` is a release of `card`, `frame` its
rows and `others` a release of another card.
"""

NAMES = ("sex", "health", "work")

PYTHON = """\
Analyst("localhost:7443")
Analyst.connect()
Analyst.connect("localhost:7443")
Analyst.connect(folder=frame)
Analyst.connect(folder="no/such/folder")
Analyst.connect("localhost", folder=folder)
Analyst.connect(foldr=folder)
closed.datasets()
closed.dataset("survey")
closed.propose("survey", [("sex", "health")], purpose="x")
closed_card.refresh()
closed_card.generate(rows=10)
analyst.dataset("servey")
analyst.dataset("Survey")
analyst.dataset("")
analyst.dataset(frame)
analyst.dataset(analyst.dataset("survey"))
analyst.card(card)
analyst.card("survey")
analyst.card("datasets/survey/cards/0000000000000000")
analyst.card(7)
analyst.cards(dataset=3)
analyst.budget("servey")
analyst.propose()
analyst.propose("survey")
analyst.propose("survey", [("sex", "health")])
analyst.propose("survey", [("sex", "health")], "To see")
analyst.propose("survey", [("sex", "health")], purpose="")
analyst.propose("survey", [("sex", "health")], purpose=3)
analyst.propose("survey", "sex,health", purpose="x")
analyst.propose("survey", ["sex", "health"], purpose="x")
analyst.propose("survey", ("sex", "health"), purpose="x")
analyst.propose("survey", [], purpose="x")
analyst.propose("survey", [()], purpose="x")
analyst.propose("survey", None, purpose="x")
analyst.propose("survey", frame, purpose="x")
analyst.propose("survey", {"sex": "health"}, purpose="x")
analyst.propose("survey", [("sex", 3)], purpose="x")
analyst.propose("survey", [("Sex", "health")], purpose="x")
analyst.propose("survey", [("sex", "helth")], purpose="x")
analyst.propose("survey", [("sex", "sex")], purpose="x")
analyst.propose("survey", [("sex", "health"), ("health", "sex")], purpose="x")
analyst.propose("survey", mean("age"), purpose="x")
analyst.propose("survey", [mean("sex")], purpose="x")
analyst.propose("survey", all_marginals("2"), purpose="x")
analyst.propose("survey", all_marginals(9), purpose="x")
analyst.propose("survey", all_marginals(2, "sex,health"), purpose="x")
analyst.propose("survey", [("sex", "health")], purpose="x", rows="10")
analyst.propose("survey", [("sex", "health")], purpose="x", rows=-1)
analyst.propose("survey", [("sex", "health")], purpose="x", rows=True)
analyst.propose("survey", [("sex", "health")], purpose="x", rows=10.0)
analyst.propose("survey", [("sex", "health")], purpose="x", generator="ifp")
analyst.propose("survey", [("sex",), ("health",)], purpose="x", generator="saturated")
analyst.propose("survey", [("sex", "health")], purpose="x", dry_run="yes")
analyst.propose("survey", [("sex", "health")], purpose="x", epsilom=1)
analyst.propose("survey", [("sex", "health")], purpose="x", epsilon=1)
analyst.propose("survey", [("sex", "health")], purpose="x", epsilon="a lot", neighbouring="add-remove")
analyst.propose("survey", [("sex", "health")], purpose="x", epsilon=-1, neighbouring="add-remove")
analyst.propose("survey", [("sex", "health")], purpose="x", epsilon=1, neighbouring="addremove")
analyst.propose("survey", [("sex", "health")], purpose="x", epsilon=1, rho=1, neighbouring="add-remove")
analyst.propose("survey", [("sex", "health")], purpose="x", neighbouring="add-remove")
analyst.propose("survey", [("sex", "health")], purpose="x", weights=[3])
analyst.propose("survey", [("sex", "health")], purpose="x", weights={("sex", "work"): 3})
analyst.propose("survey", [("sex", "health")], purpose="x", measures="dcr")
analyst.propose("survey", [("sex", "health")], purpose="x", audit=10)
analyst.price("survey", "sex,health")
analyst.price("survey", [("sex", "health")], purpose="x")
analyst.plan("survey", "health ~ sexx")
analyst.plan("survey", "health ~ sex +")
analyst.plan("survey", 3)
analyst.plan("survey", "health ~ sex", kind="logit")
analyst.synthesize("survey", "health ~ sex")
analyst.synthesize("survey", "health ~ sex", rows="10")
card.wait("long")
offered.generate(rows=10)
card.accept()
card.counter(marginals="sex,health")
card.generate()
card.generate(rows="10")
card.generate(rows=0)
card.generate(rows=10, seed=1.5)
card.generate(rows=10, seed=-1)
card.generate(rows=10, seed="7")
card.generate(rows=10, values="level")
card.generate(rows=10, progress="yes")
card.generate(rows=10_000_000)
card.answer()
card.answer("health ~ sexx")
card.answer("health ~", "crosstab")
card.answer("health ~ sex", "logit")
card.answer("health ~ sex", kind="linear", values=[1, 2])
card.answer("health ~ sex", "crosstab", values={"sex": ["m", "f"]})
card.answer("health ~ sex", "crosstab", values={"sex": [1, 2, 3]})
card.answer("health ~ sex", "crosstab", test="welch")
card.answer("health ~ sex", "crosstab", wehre="sex == 'male'")
card.answer("health ~ sex", "crosstab", where="sex = 'male'")
card.answer("health ~ sex", "crosstab", missing="ignore")
card.answer("health ~ region", "crosstab")
card.answer("health ~ sex", "crosstab").plot()
card.answer("health ~ sex", "crosstab").to_frame("exepcted")
card.answer("health ~ sex", "crosstab").to_csv("no/such/folder/a.csv")
offered.answer("health ~ work", "crosstab")
answer("no/such/folder", "health ~ sex")
answer(card, "health ~ sex")
card.run("health ~ sex", "crosstab")
card.run("health ~ sex", "crosstab", values={"sex": ["m", "f"]})
card.report(answers=card.answer("health ~ sex", "crosstab"))
card.replay("rows.csv")
card.replay(others)
card.replay(frame.drop(columns="sex"))
card.fidelity("rows.csv")
card.fidelity(frame.drop(columns="sex"))
card.report(7)
card.report(release="none")
card.measures("dcr")
card.measures(["dcrr"])
card.audit("leeky", progress=False)
card.audit(where="records")
card.audit(where="card", runs=10)
card.audit(runs=1)
release.to_frame("level")
release.save(frame)
release.write("rows.xls")
mean()
mean(3)
moment("age", 9)
group_means("age", "sex")
new_request(3, "ana")
install_answer(folder, frame)
""".splitlines()

SHELL = """\
gencard datasets servey
gencard cards survey
gencard cards datasets/survey/cards/0000000000000000
gencard propose survey --purpose x
gencard propose survey --marginal sex,helth --purpose x
gencard propose survey --marginal sex,health --marginals-of-order 2 --purpose x
gencard propose survey --marginal sex,health --purpose x --generator ifp
gencard propose survey --marginal sex,health --purpose x --rows 0
gencard propose survey --marginal sex,health --purpose x --epsilon 1
gencard propose survey --marginal sex,health --purpose x --epsilon 1 --neighbouring near
gencard propose survey --moment average=age --purpose x
gencard propose survey --marginal sex,health
gencard propos survey
gencard price survey --marginal sex,health --row 10
gencard plan survey 'health ~ sexx'
gencard answer CARD 'health ~ sex' --kind logit
gencard answer CARD 'health ~ region' --kind crosstab
gencard answer CARD 'health ~ sex' --kind crosstab --values sex
gencard answer CARD 'health ~ sex' --kind crosstab --option test=welch
gencard answer CARD 'health ~ sex' --kind crosstab --plot answer.gif
gencard answer no/such/folder 'health ~ sex'
gencard run CARD 'health ~ sex' --kind crosstab
gencard generate CARD --rows ten -o rows.csv
gencard generate CARD --rows 0 -o rows.csv
gencard generate datasets/survey/cards/0000000000000000 --rows 10 -o rows.csv
gencard audit CARD --black-box leeky
gencard audit CARD --where moon
gencard verify no/such/folder
gencard datasets -c no/such/folder
""".splitlines()

_SHAPES = ((r"localhost:\d+", "HOST:PORT"), (r"cards/(?!0{16})[0-9a-f]{16}", "cards/CARD"))


@contextmanager
def surroundings(house: Any) -> Iterator[dict[str, Any]]:
    """The names that the calls use, at a running controller of a made-up survey."""
    with house.analyst("ana") as analyst, house.analyst("ana") as closed:
        card = analyst.propose("survey", client.all_marginals(2, NAMES), purpose="To see").accept()
        other = analyst.propose("survey", [("sex", "work")], purpose="To see").accept()
        release = card.release(20, seed=1, progress=False)
        closed_card = closed.card(card.name)
        closed.close()
        yield {
            **{name: getattr(client, name) for name in client.__all__},
            "Analyst": Analyst,
            "analyst": analyst,
            "closed": closed,
            "closed_card": closed_card,
            "card": card,
            "offered": analyst.propose("survey", [("health", "work")], purpose="To see"),
            "release": release,
            "frame": pd.DataFrame(release.to_frame()),
            "others": other.release(20, seed=1, progress=False),
            "folder": house.person("ana"),
        }


def python_answer(call: str, names: Mapping[str, Any]) -> tuple[str, str]:
    """Class and text of the error that a call ends with; of no class where it ends well."""
    try:
        eval(call, dict(names))  # noqa: S307 - the calls of this file
    except Exception as error:
        return type(error).__name__, str(error)
    return "", ""


def shell_answer(command: str, names: Mapping[str, Any]) -> tuple[str, str]:
    """Exit code and what a command prints to standard error."""
    words = [names["card"].name if word == "CARD" else word for word in shlex.split(command)[1:]]
    settings = {"GENCARD_CONNECTION": str(names["folder"]), "COLUMNS": "300", "NO_COLOR": "1"}
    result = CliRunner().invoke(app, words, env=settings)
    return f"exit {result.exit_code}", re.sub(r"\s+", " ", result.stderr or result.output).strip()


def masked(text: str) -> str:
    """Text of one line without what differs from run to run."""
    for shape, word in _SHAPES:
        text = re.sub(shape, word, text)
    return text


def answers(house: Any) -> list[tuple[str, str, str]]:
    """Call or command, class or exit code, text: a line for each wrong use."""
    with surroundings(house) as names:
        lines = [(call, *python_answer(call, names)) for call in PYTHON]
        (names["folder"] / "connection.toml").write_text(f'address = "{house.address}"\n')
        lines += [(command, *shell_answer(command, names)) for command in SHELL]
    return [(use, kind, masked(text)) for use, kind, text in lines]


def page(lines: list[tuple[str, str, str]]) -> str:
    """The whole page."""
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    rows = [f"| `{use}` | {kind} | {text} |" for use, kind, text in cells]
    return "\n".join([_HEAD, "| use | ends with | text |", "|---|---|---|", *rows, ""])


def main() -> None:
    """Write the page anew."""
    from tests.system.house import running  # noqa: PLC0415 - the controller of the tests

    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as house:
        PAGE.write_text(page(answers(house)), encoding="utf-8")


if __name__ == "__main__":
    main()
