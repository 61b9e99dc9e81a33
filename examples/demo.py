"""The main job, both sides, on a real survey: negotiate, measure, synthesise, replay, audit.

Run it with ``make demo``. It starts a controller as a process of its own, speaks to it over mutual
TLS on loopback, and leaves everything that was made in ``demo/``.
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

from examples.fair_survey import (
    ATTRIBUTES,
    BLACK_BOXES,
    SCHEMA,
    offering_exact_counts,
    write_records,
)
from examples.wire_meter import WireMeter
from gencard.client import Analyst
from gencard.client.audit import Audit
from gencard.client.card import Card
from gencard.client.release import Release
from gencard.core.audit.report import Verdict
from gencard.core.errors import GencardError

FOLDER = Path("demo")
CONTROLLER = FOLDER / "controller"
RECORDS = FOLDER / "records" / "fair.csv"
ANA, AUD = (CONTROLLER / "people" / name for name in ("ana", "aud"))
PROGRAMS = Path(os.path.relpath(Path(sys.executable).parent))
PURPOSE = "How marriage, religion and affairs go together"
ROWS, SEED = 10_000, 7
console = Console(highlight=False)


def main() -> int:
    """Tell the story; exit code 1 where a part of it does not come out as it should."""
    began = time.monotonic()
    try:
        prepare()
        with serving() as meter:
            audit(meter, negotiate_and_release(meter))
        keep_log()
    except GencardError as error:
        console.print(f"[bold red]{error.reason}[/] {error}\n[dim]→ {error.advice}[/]")
        return 1
    close(time.monotonic() - began)
    return 0


def prepare() -> None:
    """The controller's premises: records, reviewed schema, certificates."""
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
    say("6,366 records, a schema that a steward wrote, an authority, and certificates for")
    say("[bold]ana[/] (analyst), [bold]aud[/] (auditor) and [bold]sam[/] (steward).")
    say("[yellow]This is a demonstration:[/] the controller made their keys, and could sign as them.")
    say("The survey is public, so its settings offer exact counts; drafted settings offer noise alone.")
    say("Elsewhere people make keys on their own machines, by [bold]gencard enrol[/].")


@contextmanager
def serving() -> Iterator[WireMeter]:
    """The controller as a process of its own; a meter stands on the wire to it."""
    command = [*shell("gencard-controller"), "serve", "--config", str(CONTROLLER / "controller.toml")]
    environment = {**os.environ, "GENCARD_SERVER__ADDRESS": "localhost:0", "NO_COLOR": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        meter = WireMeter(port_of(process))
        say(f"It serves on loopback, port {meter.target}, with mutual TLS.")
        try:
            yield meter
        finally:
            meter.close()
            process.terminate()
            process.wait(timeout=30)


def port_of(process: "subprocess.Popen[str]") -> int:
    """The port that the service says it listens on."""
    for line in process.stdout or ():
        if found := re.search(r"Serving on localhost:(\d+)", line):
            return int(found[1])
    raise SystemExit("The controller did not start; see what it printed above.")


def negotiate_and_release(meter: WireMeter) -> str:
    """The analyst's part; the name of the card that was agreed."""
    with Analyst.connect(f"localhost:{meter.port}", folder=ANA) as analyst:
        read_catalogue(meter, analyst)
        card = propose(meter, analyst)
        agree(meter, card)
        replay(card, make_release(meter, card))
        return card.name


def read_catalogue(meter: WireMeter, analyst: Analyst) -> None:
    chapter(
        "The analyst reads the catalogue",
        f"export GENCARD_CONNECTION={ANA}",
        "gencard datasets fair",
    )
    dataset = analyst.dataset("fair")
    say(f"{dataset.title}: {len(dataset.coding.attributes)} attributes, and what the policy allows.")
    crossed(meter, "a schema and a policy; both public by declaration")


def propose(meter: WireMeter, analyst: Analyst) -> Card:
    """Every three-way marginal is asked for; the policy has less to offer."""
    chapter(
        "The analyst asks for too much",
        f'gencard propose fair --marginals-of-order 3 --rows {ROWS} --purpose "{PURPOSE}"',
    )
    card = analyst.propose("fair", list(combinations(ATTRIBUTES, 3)), purpose=PURPOSE, rows=ROWS)
    say(f"All {len(card.negotiation.proposed.marginals)} three-way marginals. The controller offers:")
    console.print(card)
    crossed(meter, "a proposal and a counter-offer with its price; no record was touched")
    return card


def agree(meter: WireMeter, card: Card) -> None:
    chapter("Both sign", f"gencard accept {card.name}")
    card.accept()
    say(f"State: [bold]{card.state}[/]. Digest of the card: {card.offer.digest[:16]}…")
    crossed(meter, "two Ed25519 signatures over the same bytes")


def make_release(meter: WireMeter, card: Card) -> Release:
    chapter(
        "Measure, fit, sample",
        f"gencard generate {card.name} --rows {ROWS} --seed {SEED} --output release",
    )
    release = card.release(rows=ROWS, seed=SEED)
    released = sum(measurement.values.size for measurement in card.psi.measurements)
    say(f"{ROWS:,} synthetic rows. The generator saw psi, {released:,} counts, and nothing else:")
    console.print(release.frame.head(5).to_string(index=False))
    crossed(meter, "psi, rows and a signed receipt")
    return release


def replay(card: Card, release: Release) -> None:
    chapter("The analyst replays", "gencard replay demo/")
    replayed = card.replay(release)
    say("From psi, card and seed the analyst's own machine makes the rows again.")
    say(str(replayed))
    release.save(FOLDER, rows="synthetic.parquet")


def audit(meter: WireMeter, name: str) -> None:
    """The auditor's part: an honest generator, and one that smuggles."""
    with Analyst.connect(f"localhost:{meter.port}", folder=AUD) as auditor:
        meter.since_last()
        card = auditor.card(name)
        for box, title in (("ipf", "an honest generator"), ("smuggler", "a generator that smuggles")):
            command = f"gencard audit {name} --black-box {box} --where card --seed {SEED}"
            chapter(f"The auditor audits {title}", f"export GENCARD_CONNECTION={AUD}", command)
            tell(card.audit(box, where="card", seed=SEED), f"audit-{box}")
            crossed(meter, "a verdict, and for the auditor's eyes the full report")
        command = f"gencard audit {name} --black-box smuggler --seed {SEED} --runs 6"
        chapter("The auditor trusts nobody", command)
        say("Datasets that the auditor makes up go to the black box; no real record plays a part.")
        tell(card.audit("smuggler", seed=SEED, runs=6), "audit-smuggler-made-up")
        crossed(meter, "made-up datasets, and what the box made of them")


def tell(found: Audit, name: str) -> None:
    """The verdict, what leaked, and the page."""
    console.print(found)
    if found.verdict is Verdict.LEAKAGE and found.findings is not None:
        say(f"Leaked marginal: [bold red]{' × '.join(found.findings.strongest.clique)}[/]")
    found.report.save_html(FOLDER / f"{name}.html")
    found.report.save_json(FOLDER / f"{name}.json")


def keep_log() -> None:
    """The controller's log, checked and kept."""
    chapter("The log", f"gencard-controller log verify --config {CONTROLLER}/controller.toml")
    steward("log", "verify", "--config", str(CONTROLLER / "controller.toml"))
    log = steward("log", "--json", "--config", str(CONTROLLER / "controller.toml"), quiet=True)
    (FOLDER / "log.json").write_text(log)


def close(seconds: float) -> None:
    """What was left, and what to try next."""
    chapter(f"Done in {seconds:.0f} s", "ls demo/")
    for path in sorted(FOLDER.iterdir()):
        say(f"  {path}{'/' if path.is_dir() else ''}")
    say("\nTry next:")
    for what, command in (
        ("every signature and digest, offline", f"gencard verify {FOLDER} -c {ANA}"),
        ("the rows made again, to the byte, offline", f"gencard replay {FOLDER} -c {ANA}"),
        ("the controller once more", f"gencard-controller serve -c {CONTROLLER}/controller.toml"),
        ("and in a second shell, as the analyst", f"gencard cards -c {ANA}"),
    ):
        say(f"  [dim]# {what}[/]\n  [bold]{PROGRAMS}/{command}[/]")
    say(f"  [dim]# in a browser: what a caught generator looks like[/]\n  {FOLDER}/audit-smuggler.html")


def chapter(title: str, *commands: str) -> None:
    """A new part of the story, and the commands that do the same by hand."""
    console.print()
    console.rule(f"[bold]{title}", align="left")
    for command in commands:
        say(f"[dim]$ {escape(command)}[/]")


def say(text: str, end: str = "\n") -> None:
    console.print(text, soft_wrap=True, end=end)


def crossed(meter: WireMeter, what: str) -> None:
    """What went over the wire in this step."""
    count = meter.since_last()
    console.print(
        f"[cyan]⇄ crossed the wire:[/] {what} [dim]({count.up:,} bytes up, {count.down:,} down)[/]"
    )


def steward(*arguments: str, quiet: bool = False) -> str:
    """Run the steward's shell; what it printed."""
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
