"""Demonstration of both sides on a real survey: negotiate, measure, synthesise, replay, audit.

Run it with ``make demo``, or ``make demo VERBOSE=1`` for cards and audits in full. It starts a
controller in a separate process, connects to it by mutual TLS on loopback, and writes all files to
``demo/``.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from examples.fair_survey import (
    ATTRIBUTES,
    BLACK_BOXES,
    SCHEMA,
    offering_exact_counts,
    regression,
    write_records,
)
from examples.wire_meter import WireMeter
from gencard.client import Analyst, Answer, histogram, total
from gencard.client.agreement import Release
from gencard.client.answers.answer import coefficient_grid
from gencard.client.audit import Audit
from gencard.client.card import Card
from gencard.client.common.display import Facts
from gencard.core.audit.report import Verdict
from gencard.core.errors import GencardError

FOLDER = Path("demo")
CONTROLLER = FOLDER / "controller"
RECORDS = FOLDER / "records" / "fair.csv"
ANA, AUD = (CONTROLLER / "people" / name for name in ("ana", "aud"))
PROGRAMS = Path(os.path.relpath(Path(sys.executable).parent))
PURPOSE = "How marriage, religion and affairs go together"
FEATURES = ATTRIBUTES[:-1]
FORMULA = f"affairs ~ {' + '.join(FEATURES)}"
SUMS = [total("affairs", "affairs"), *(total("affairs", by=[name]) for name in FEATURES)]
"""Sums of a number's values that a regression needs, beside the marginals of the other attributes."""

RUN_FORMULA = "affairs ~ rate_marriage * religious"
"""Needs sums by two attributes, which are statistics of three; the policy offers two at most."""

ROWS, SEED = 10_000, 7
VERBOSE = bool(os.environ.get("VERBOSE"))
console = Console(highlight=False)


def main() -> int:
    """Run all parts; exit code 1 if one fails."""
    began = time.monotonic()
    try:
        prepare()
        with serving() as meter:
            audit(meter, negotiate_and_release(meter))
        keep_log()
    except GencardError as error:
        console.print(f"[bold red]{error.reason}[/] {error.message}\n[dim]→ {error.advice}[/]")
        return 1
    close(time.monotonic() - began)
    return 0


def prepare() -> None:
    """Set up the controller: records, reviewed schema, certificates."""
    chapter(
        "The controller sets up",
        "gencard-controller init demo/controller --data demo/records/fair.csv --demo-people",
    )
    shutil.rmtree(FOLDER, ignore_errors=True)
    RECORDS.parent.mkdir(parents=True)
    write_records(RECORDS)
    steward("init", str(CONTROLLER), "--data", str(RECORDS), "--demo-people", quiet=True)
    (CONTROLLER / "schema.toml").write_text(SCHEMA)
    settings = CONTROLLER / "controller.toml"
    settings.write_text(offering_exact_counts(settings.read_text()) + BLACK_BOXES)
    say("Created: 6,366 records, a schema that a steward wrote, a certificate authority, and keys for")
    say("[bold]ana[/] (analyst), [bold]aud[/] (auditor) and [bold]sam[/] (steward).")
    say("[yellow]Demonstration only:[/] the controller made these keys and could sign in their names;")
    say("otherwise each person makes keys on their own machine with [bold]gencard enrol[/].")
    say("The survey is public, so the policy offers exact counts; drafted policies offer noise only.")


@contextmanager
def serving() -> Iterator[WireMeter]:
    """Run the controller in a separate process, behind a proxy that counts bytes."""
    command = [*shell("gencard-controller"), "serve", "--config", str(CONTROLLER / "controller.toml")]
    environment = {**os.environ, "GENCARD_SERVER__ADDRESS": "localhost:0", "NO_COLOR": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        meter = WireMeter(port_of(process))
        say(f"The service listens on loopback, port {meter.target}, with mutual TLS.")
        try:
            yield meter
        finally:
            meter.close()
            process.terminate()
            process.wait(timeout=30)


def port_of(process: "subprocess.Popen[str]") -> int:
    """The port that the service says it listens on."""
    for line in process.stdout or ():
        if match := re.search(r"Serving on localhost:(\d+)", line):
            return int(match[1])
    raise SystemExit("The controller did not start; see its output above.")


def negotiate_and_release(meter: WireMeter) -> str:
    """The analyst's part; returns the name of the agreed card."""
    with Analyst.connect(f"localhost:{meter.port}", folder=ANA) as analyst:
        read_catalogue(meter, analyst)
        card = propose(meter, analyst)
        agree(meter, card)
        replay(card, make_release(meter, card))
        ask(meter, card)
        run(meter, card)
        return card.name


def read_catalogue(meter: WireMeter, analyst: Analyst) -> None:
    chapter(
        "The analyst reads the catalogue", f"export GENCARD_CONNECTION={ANA}", "gencard datasets fair"
    )
    dataset = analyst.dataset("fair")
    say(f"{dataset.title}: {len(dataset.coding.attributes)} attributes, with schema and policy.")
    crossed(meter, "schema and policy, both public")


def propose(meter: WireMeter, analyst: Analyst) -> Card:
    """Propose all three-way marginals; the policy offers fewer."""
    chapter(
        "The analyst proposes more than the policy allows",
        f"gencard propose fair --marginals-of-order 3 --rows {ROWS} --analyses linear "
        f'--purpose "{PURPOSE}"',
    )
    card = analyst.propose(
        "fair",
        [*combinations(ATTRIBUTES, 3), histogram("affairs"), *SUMS],
        purpose=PURPOSE,
        rows=ROWS,
        analyses={"kinds": ["linear"], "checked_runs": 1},
    )
    number = len(card.negotiation.proposed.marginals)
    say(f"Proposed Phi: all {number} marginals (tables of counts) of three attributes.")
    say("The counter-offer; its price is the number of independent statistics in the offered Phi:")
    show(card, "Marginals", "Generator", "Price")
    first = card.changes[0]
    say(f"It differs in {len(card.changes)} places, each with a reason. The first: {first.reason},")
    say(f"  {first.old}  →  {first.new}")
    crossed(meter, "a proposal and a counter-offer with its price; no record was read")
    return card


def agree(meter: WireMeter, card: Card) -> None:
    chapter("Both sign", f"gencard accept {card.name}")
    card.accept()
    say(f"State: [bold]{card.state}[/]. SHA-256 of the card: {card.offer.digest[:16]}…")
    crossed(meter, "two Ed25519 signatures over the same bytes")


def make_release(meter: WireMeter, card: Card) -> Release:
    chapter(
        "Measure, fit, sample",
        f"gencard generate {card.name} --rows {ROWS} --seed {SEED} --output release",
    )
    release = card.release(rows=ROWS, seed=SEED)
    released = sum(measurement.values.size for measurement in card.psi.measurements)
    say(f"{ROWS:,} synthetic rows, computed only from psi, the {released:,} measured counts:")
    console.print(release.frame.head(5).to_string(index=False))
    crossed(meter, "psi, rows and a signed receipt")
    return release


def replay(card: Card, release: Release) -> None:
    chapter("The analyst replays", "gencard replay demo/")
    replayed = card.replay(release)
    say("The analyst's machine recomputes the rows from psi, card and seed.")
    say(str(replayed))
    release.save(FOLDER, rows="synthetic.parquet")


def ask(meter: WireMeter, card: Card) -> None:
    """An answer from psi, beside the same analysis of the records."""
    chapter(
        "The analyst answers an analysis from psi",
        f'gencard answer {card.name} "{FORMULA}" --kind linear',
    )
    meter.since_last()
    answer = card.answer(FORMULA, "linear")
    show_answer(answer)
    estimates, errors = regression(RECORDS, FORMULA)
    apart = max(
        abs(ours / theirs - 1)
        for column, other in ((answer.params, estimates), (answer.bse, errors))
        for ours, theirs in zip(column, other, strict=True)
    )
    say("For comparison, on the controller's side: statsmodels on the 6,366 records of the file")
    say(f"gives the same estimates and standard errors; largest relative difference {apart:.0e}.")
    crossed(meter, "no records: the answer is computed from psi and costs nothing")


def run(meter: WireMeter, card: Card) -> None:
    """Run an analysis that psi does not determine on the records, and compare it with the file's."""
    command = f'{card.name} "{RUN_FORMULA}" --kind linear'
    chapter("One run on the records", f"gencard answer {command}", f"gencard run {command}")
    try:
        card.answer(RUN_FORMULA, "linear")
    except GencardError as lacking:
        say(f"psi is not enough. {lacking.message}")
    answer = card.run(RUN_FORMULA, "linear")
    show_answer(answer)
    estimates, errors = regression(RECORDS, RUN_FORMULA)
    apart = max(
        abs(ours - theirs) / error
        for ours, theirs, error in zip(answer.params, estimates, errors, strict=True)
    )
    say("Output rules checked every number and rounded it to two digits of its standard error:")
    say(f"estimates of statsmodels on the file are at most {apart:.3f} standard errors away.")
    facts = dict(answer.about)
    for name in ("Released by", "Signed", "Paid"):
        say(f"  {name}: {facts[name]}")
    crossed(meter, "a formula, and a signed answer")


def show_answer(answer: Answer) -> None:
    """Print the coefficients; all of the answer where ``VERBOSE`` is set."""
    if VERBOSE or answer.estimates.coefficients is None:
        console.print(answer)
        return
    console.print(Padding(coefficient_grid(answer.estimates.coefficients).rich(), (0, 0, 0, 2)))


def audit(meter: WireMeter, name: str) -> None:
    """The auditor's part: an honest generator, and one that leaks."""
    with Analyst.connect(f"localhost:{meter.port}", folder=AUD) as auditor:
        meter.since_last()
        card = auditor.card(name)
        for box, title in (("ipf", "an honest generator"), ("smuggler", "a leaking generator")):
            command = f"gencard audit {name} --black-box {box} --where card --seed {SEED}"
            chapter(f"The auditor audits {title}", f"{command} -c {AUD}")
            show_audit(card.audit(box, where="card", seed=SEED), f"audit-{box}")
            crossed(meter, "a signed verdict, and the full report for the auditor")
        command = f"gencard audit {name} --black-box smuggler --seed {SEED} --runs 6 -c {AUD}"
        chapter("The auditor audits without trusting the controller", command)
        say("The black box runs on datasets made up by the auditor; no real record is read.")
        show_audit(card.audit("smuggler", seed=SEED, runs=6), "audit-smuggler-made-up")
        crossed(meter, "made-up datasets, and the rows generated from them")


def show_audit(outcome: Audit, name: str) -> None:
    """Print verdict and leaked marginal; save the report."""
    leaks = outcome.verdict is Verdict.LEAKAGE
    show(outcome, "Verdict", *(["Found"] if leaks else []))
    if leaks and outcome.findings is not None:
        say(f"Leaked marginal: [bold red]{' × '.join(outcome.findings.strongest.clique)}[/]")
    outcome.report.save_html(FOLDER / f"{name}.html")
    outcome.report.save_json(FOLDER / f"{name}.json")
    say(f"The report: {FOLDER / name}.html")


def keep_log() -> None:
    """Verify and save the controller's log."""
    chapter("The log", f"gencard-controller log verify --config {CONTROLLER}/controller.toml")
    steward("log", "verify", "--config", str(CONTROLLER / "controller.toml"))
    log = steward("log", "--json", "--config", str(CONTROLLER / "controller.toml"), quiet=True)
    (FOLDER / "log.json").write_text(log)


def close(seconds: float) -> None:
    """Name the files and the next commands."""
    chapter(f"Done in {seconds:.0f} s", f"ls {FOLDER}")
    console.print("  ".join(f"{path.name}{'/' * path.is_dir()}" for path in sorted(FOLDER.iterdir())))
    say("\nTry next:")
    for what, command in (
        ("verify every signature and digest, offline", f"gencard verify {FOLDER} -c {ANA}"),
        ("recompute the rows and compare every byte, offline", f"gencard replay {FOLDER} -c {ANA}"),
        ("start the controller again", f"gencard-controller serve -c {CONTROLLER}/controller.toml"),
        ("then, in a second shell, list cards as the analyst", f"gencard cards -c {ANA}"),
    ):
        say(f"  [bold]{PROGRAMS}/{command}[/]  [dim]# {what}[/]")
    if not VERBOSE:
        say("  [bold]make demo VERBOSE=1[/]  [dim]# cards and audits in full[/]")


def show(outcome: Card | Audit, *names: str) -> None:
    """Print these facts of a card or an audit; all of it where ``VERBOSE`` is set."""
    if VERBOSE:
        console.print(outcome)
        return
    facts = Facts([line for line in outcome.lines() if line[0] in names])
    console.print(Padding(facts.rich(), (0, 0, 0, 2)))


def chapter(title: str, *commands: str) -> None:
    """Print the title of a part and the equivalent commands."""
    console.print()
    console.rule(f"[bold]{title}", align="left")
    for command in commands:
        say(f"[dim]$ {escape(command)}[/]")


def say(text: str, end: str = "\n") -> None:
    console.print(text, soft_wrap=True, end=end)


def crossed(meter: WireMeter, what: str) -> None:
    """Print what this step sent, with the number of bytes."""
    count = meter.since_last()
    say(f"[cyan]⇄[/] {what} [dim]({count.up:,} bytes up, {count.down:,} down)[/]")


def steward(*arguments: str, quiet: bool = False) -> str:
    """Run a steward's command; returns its output."""
    done = subprocess.run(
        [*shell("gencard-controller"), *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    if not quiet:
        console.print(done.stdout.rstrip())
    return done.stdout


def shell(name: str) -> list[str]:
    return [str(Path(sys.executable).with_name(name))]


if __name__ == "__main__":
    sys.exit(main())
