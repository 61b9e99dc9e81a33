"""Reviewed runs: the twelve example programs, each through dry run, run on the records and review.

``python -m benchmarks.reviewed_runs``: at a controller on loopback with Fair's survey. A program runs
here on the rows of a release, once in the controller's sandbox on the 6,366 records, waits, and is
released by the steward's shell but for its red numbers; the analyst fetches the signed answer. The
seconds of a review are those of three commands, not of a person who reads. Hostile programs run in the
same sandbox: what comes out of each is the second table.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import bench
from examples.local_controller import start
from gencard.client import Analyst
from gencard.client.card import Card
from gencard.core.errors import AnswerWaitingError, BlackBoxError
from gencard.core.program_outputs import Output, OutputKind
from gencard.wire.canonical import sha256
from tests.system.programs import HOSTILE, HOSTILE_R, has_r, sandboxed, schema
from tests.system.programs import rows as rows_of_survey

PROGRAMS = sorted((Path(__file__).parents[1] / "examples" / "analyses").glob("*.py"))
LIBRARIES = ["scikit-learn", "scipy", "statsmodels"]
GRANTED = (
    f"analyses = {{ reviewed_runs = {len(PROGRAMS)}, program_numbers = 500, "
    f"libraries = {json.dumps(LIBRARIES)} }}"
)
OTHERS = ("rate_marriage", "age", "yrs_married", "children", "religious", "educ")
MARGINALS = tuple((name, "affairs") for name in OTHERS)
ONE_NUMBER = (Output(OutputKind.SCALAR, "x", ("value",), ("value",), ((1.0,),)),)
FAILED = "its run on the records did not finish correctly"
_SHELL = Path(sys.executable).with_name("gencard-controller")


def run(quick: bool) -> bench.Result:
    """One row for each program; ``quick`` takes the first three."""
    local = start()
    try:
        settings = local.people.parent / "controller.toml"
        _offer(settings)
        programs = PROGRAMS[:3] if quick else PROGRAMS
        with Analyst.connect(local.address, folder=local.people / "ana") as analyst:
            card = _agreed(analyst, programs)
            card.release(rows=1_500, seed=1, progress=False)
            rows = [_row(card, program, settings) for program in programs]
    finally:
        local.stop()
    hostile = [*HOSTILE.items()][:2] if quick else [*HOSTILE.items()]
    in_r = [*HOSTILE_R.items()][: 2 if quick else None] if has_r() else []
    outcomes = [_outcome("Python", *one) for one in hostile] + [_outcome("R", *one) for one in in_r]
    columns = (
        "program",
        "numbers",
        "green",
        "amber",
        "red",
        "released",
        "dry run s",
        "run s",
        "review s",
    )
    return bench.Result(
        tables=[
            bench.Table("Programs through dry run, run on the records, review", columns, rows),
            bench.Table(
                "What comes out of hostile programs", ("language", "tries", "comes out", "s"), outcomes
            ),
        ],
        targets=[
            bench.Target(
                "hostile programs of which more than the one failure comes out",
                sum(text != FAILED for _, _, text, _ in outcomes),
                0,
                "at most",
            ),
            bench.Target("programs with a signed answer", len(rows), len(programs), "at least"),
        ],
    )


def _offer(settings: Path) -> None:
    """Reviewed runs by policy, and room in all caps; a running service takes both over."""
    text, lines = re.subn(r"(?m)^analyses = .*$", GRANTED, settings.read_text(encoding="utf-8"))
    if lines != 1:
        raise SystemExit("the drafted settings grant no analyses")
    settings.write_text(re.sub(r"statistics = \d+", "statistics = 9_999", text), encoding="utf-8")


def _agreed(analyst: Analyst, programs: list[Path]) -> Card:
    """A card that names the programs, once the service offers such cards."""
    granted = {
        "programs": sorted(sha256(program.read_bytes()) for program in programs),
        "reviewed_runs": len(programs),
        "libraries": LIBRARIES,
    }
    for _ in range(50):
        card = analyst.propose("fair", MARGINALS, purpose="Twelve programs", analyses=granted)
        if not card.changes:
            return card.accept()
        time.sleep(0.2)
    raise SystemExit("the service does not offer reviewed runs")


def _row(card: Card, program: Path, settings: Path) -> tuple[str | int | float, ...]:
    begin = time.perf_counter()
    dry = card.dry_run(program, seed=1)
    dry_seconds = time.perf_counter() - begin
    name = ""
    begin = time.perf_counter()
    try:
        card.run(program=program, seed=1, progress=False)
    except AnswerWaitingError as waiting:
        name = waiting.fields["answer"]
    run_seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    numbers = json.loads(_steward(settings, "show", name, "--json"))["numbers"]
    _steward(settings, "release", name)
    answer = card.run(program=program, seed=1, progress=False).estimates
    released = sum(
        value is not None
        for table in answer.tables
        if "difference to" not in table.name
        for row in table.values
        for value in row
    )
    marks = [one["mark"] for one in numbers]
    counts = (marks.count(colour) for colour in ("green", "amber", "red"))
    seconds = (dry_seconds, run_seconds, time.perf_counter() - begin)
    return (program.stem, dry.numbers, *counts, released, *(round(one, 1) for one in seconds))


def _outcome(language: str, name: str, text: str) -> tuple[str, str, str, float]:
    """Run a harmful program in the sandbox of the service, and return what an analyst would see."""
    limits = {"cpu_seconds": 3} if name == "never ends" else {}
    libraries = ("R",) if language == "R" else ()
    begin = time.perf_counter()
    try:
        box = sandboxed(text, libraries, **limits)
        outputs = box.agreed_outputs(rows_of_survey(), schema(), ONE_NUMBER, seed=0)
        result = f"{sum(output.numbers for output in outputs)} numbers, for a steward to see"
    except BlackBoxError as error:
        result = error.fields["problem"]
    return language, name, result, round(time.perf_counter() - begin, 1)


def _steward(settings: Path, *words: str) -> str:
    command = [str(_SHELL), "emergency", "answers", *words, "--config", str(settings)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    bench.main("reviewed_runs", run)
