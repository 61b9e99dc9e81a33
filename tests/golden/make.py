"""Made the golden bundles, once, with the first version: ``python -m tests.golden.make FOLDER``.

The files in the repository are never made again: what they hold is what people have kept.
"""

import base64
import gzip
import json
import shutil
import sqlite3
import string
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from typer.testing import CliRunner

from gencard.client import Analyst, mean, moment, new_request
from gencard.client.audit import known_audits
from gencard.client.card import Card
from gencard.client.shell.main import app as client_shell
from gencard.controller.people.enrolment import enrol
from gencard.controller.people.keys import read_authority
from gencard.controller.shell.main import app as steward_shell
from gencard.core.audit.wording import report_to_json_object
from gencard.core.card.terms import AuditTerms
from gencard.core.errors import GencardError
from gencard.core.generators.registry import BY_CONSTRUCTION
from gencard.measures.evaluation.evaluation import finding_to_json_object
from gencard.wire.canonical import json_bytes
from gencard.wire.dsse import REVOCATION, opened
from gencard.wire.error_table import BY_REASON, status_message
from gencard.wire.keys import Role, request_of_document
from gencard.wire.psi import psi_document
from tests.golden import rows
from tests.golden.commands import STEWARDS, offline_commands, offline_output
from tests.golden.exchanges import Exchanges, recording
from tests.golden.make_house import MOMENTS, NOISY_BOXES, PAIRS, house_in
from tests.golden.message_values import messages
from tests.golden.values import DOCUMENTS
from tests.system.house import House
from tests.system.raw_calls import known_seeds
from tests.system.thread_jobs import run_jobs_in_threads


class Maker:
    """Makes and keeps."""

    def __init__(self, house: House, folder: Path, ana: Analyst, aud: Analyst) -> None:
        self.house, self.folder, self.ana, self.aud = house, folder, ana, aud

    def card(self, marginals: Any = PAIRS, dataset: str = "survey", **terms: Any) -> Card:
        settings = {"purpose": f"golden: {terms.get('generator', 'ipf')}", "rows": 1_000} | terms
        return self.ana.propose(dataset, list(marginals), **settings).accept()

    def kept(self, name: str, card: Card, seed: int = 7, rows: str = "rows.csv", **saved: Any) -> Card:
        """Save a release of 120 rows under a name."""
        release = card.release(rows=120, seed=seed, progress=False)
        release.save(self.folder / "bundles" / name, rows, **saved)
        return card

    def psi_cards(self) -> None:
        for place, generator in enumerate(BY_CONSTRUCTION):
            cliques = [("sex", "health")] if generator == "saturated" else [*PAIRS, ("age",)]
            self.kept(generator, self.card(cliques, generator=generator), seed=place)
        every = [("work",), *MOMENTS, mean("age"), moment("age", 3)]
        self.kept("moments", self.card(every, generator="maximum-entropy"))
        noise = {"epsilon": "2", "neighbouring": "replace-one"}
        self.kept("noisy-moments", self.card(every[:3], generator="reduced-space", **noise))
        weights = {("sex", "health"): 3}
        self.kept("laplace", self.card(**noise, weights=weights), 2**64 - 1)
        gaussian = {"rho": "0.2", "delta": "0.000001", "neighbouring": "replace-one"}
        self.kept("gaussian", self.card(**gaussian, generator="graphical"))
        self.kept("parquet", self.card(), rows="rows.parquet")
        self.kept("intervals", self.card([*PAIRS, ("sex", "age")]), values="levels")
        self.kept("checked", self.card([("sex", "health")], dataset="checked"))
        triples = combinations(("sex", "health", "work", "region"), 3)
        self.kept("counter-offer", self.card(triples, measures=["dcr"]))
        self.kept("without-uniques", self.card([("sex", "health")], without_uniques=True), 0)
        self.kept("private-mst", self.card(generator="mst"), 0)
        self.kept("private-bayes", self.card(generator="bayes"), 0)

    def audits(self) -> None:
        """Reports of an honest and of a leaky box, and rows of the honest one."""
        for box in ("trusty", "leaky"):
            card = self.card(generator=box, audit=AuditTerms(runs=6))
            card.audit(where="card", progress=False)
            (audit,) = known_audits(self.aud.card(card.name).agreement)
            assert audit.findings is not None
            report = report_to_json_object(audit.findings)
            self.write(f"reports/audit-{box}.json", json_bytes(report))
            if box == "trusty":
                self.kept("audited", card, 0)

    def findings(self) -> Card:
        """Every measure of a card, as an auditor knows it."""
        card = self.kept("measured", self.card([*PAIRS, ("health", "region"), ("age",)]), 11)
        measured = self.aud.card(card.name).measures([], progress=False)
        objects = {
            name: finding_to_json_object(one)
            for name, one in measured.findings.items()
            if one is not None
        }
        self.write("reports/findings.json", json.dumps(objects, indent=1).encode())
        return card

    def write(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def write_packed(self, name: str, document: Any) -> None:
        text = json.dumps(document, indent=1, ensure_ascii=False)
        self.write(name, gzip.compress(text.encode(), mtime=0))

    def by_content(self) -> None:
        """Documents, psi and digests of rows: what needs no controller."""
        for name, content in DOCUMENTS.items():
            self.write(f"documents/{name}", content())
        for name, psi in {**{n: f() for n, f in rows.PSIS.items()}, **rows.linear_psis()}.items():
            self.write(f"rows/{name}.json", psi_document(psi))
        for name, saved in rows.saved_fits():
            self.write(f"rows/{name}.fit", saved)
        outcomes = {str(case): case.outcome() for case in rows.cases()}
        outcomes |= {f"box {name}": rows.box_outcome(name) for name in rows.BOXES}
        outcomes |= {f"fit {name}": rows.fit_outcome(name) for name in rows.FITS}
        lines = "".join(f"{outcome}  {name}\n" for name, outcome in outcomes.items())
        self.write("rows/digests.txt", lines.encode())
        built = {
            name: base64.b64encode(message.SerializeToString(deterministic=True)).decode()
            for name, message in messages().items()
        }
        self.write("messages.json", json.dumps(built, indent=1).encode())
        self.write("errors.json", json.dumps(errors(), indent=1).encode())


def steward(house: House, *words: str) -> str:
    result = CliRunner().invoke(steward_shell, [*words, "--config", str(house.settings_file)])
    assert result.exit_code == 0, (words, result.output, result.exception)
    return result.stdout


def rotated(maker: Maker) -> None:
    """Keys change between two releases; then a card is revoked."""
    card = maker.card()
    maker.kept("before-rotation", card, 1)
    steward(maker.house, "keys", "rotate", "--steward", "sam")
    maker.kept("after-rotation", card, 2)
    steward(
        maker.house,
        "emergency",
        "revoke",
        card.name,
        "--steward",
        "sam",
        "--remark",
        "The records were wrong.",
        "--yes",
    )
    folder = maker.folder / "bundles" / "revoked"
    shutil.copytree(maker.folder / "bundles" / "after-rotation", folder)
    facts = card.refresh()._negotiation.attestations
    (fact,) = (one for one in facts if REVOCATION.encode() in opened(one)[0])
    (folder / "revocation.json").write_bytes(fact)


def commands(card: Card) -> list[tuple[str, list[str]]]:
    """Commands of the client's shell whose answers depend on the controller, and who gives them."""
    proposal = ["survey", "--marginal", "sex,health", "--marginal", "work,age"]
    return [
        ("ana", ["datasets", "--json"]),
        ("ana", ["datasets", "survey", "--json"]),
        ("ana", ["generators", "--json"]),
        ("ana", ["plan", "survey", "health ~ sex + age", "--json"]),
        ("ana", ["propose", *proposal, "--purpose", "golden", "--rows", "100", "--json"]),
        ("ana", ["cards", "--json"]),
        ("ana", ["cards", card.name, "--json"]),
        ("ana", ["budget", "survey", "--json"]),
        ("ana", ["fidelity", card.name, "--json"]),
        ("ana", ["report", card.name, "--json"]),
        ("aud", ["report", card.name, "--json"]),
        ("aud", ["log", "--json"]),
    ]


def shells(maker: Maker, card: Card, scratch: Path) -> None:
    """Store the output of both shells, and the messages that answered the client's."""
    exchanges, shown = Exchanges(), []
    for name in ("ana", "aud"):
        source, kept = maker.house.person(name), maker.folder / "people" / name
        kept.mkdir(parents=True)
        for file in ("certificate.pem", "authority.pem", "controller_card_key.pub", "log_key.pub"):
            shutil.copy(source / file, kept / file)
        (kept / "signing_key.pub").write_bytes(public_pem(source / "signing_key.pem"))
        (source / "connection.toml").write_text(f'address = "{maker.house.address}"\n')
        (kept / "connection.toml").write_text('address = "localhost:1"\n')
    with recording(exchanges):
        for who, words in commands(card):
            fresh = scratch / f"{who}-{len(shown)}"
            shutil.copytree(maker.house.person(who), fresh)
            result = CliRunner().invoke(
                client_shell, [*words, "--connection", str(fresh)], env={"COLUMNS": "200"}
            )
            assert result.exit_code == 0, (words, result.output, result.exception)
            shown.append({"who": who, "words": words, "stdout": result.stdout})
    maker.write_packed("shell/client.json.gz", shown)
    maker.write_packed("shell/exchanges.json.gz", exchanges.document())


def public_pem(file: Path) -> bytes:
    """The public half of a private key in PEM."""
    key = load_pem_private_key(file.read_bytes(), None).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@contextmanager
def _started(folder: Path) -> Iterator[House]:
    house = house_in(folder)
    with pytest.MonkeyPatch.context() as patch, known_seeds():
        run_jobs_in_threads(patch)
        try:
            yield house.start()
        finally:
            house.stop()


def _kept_in_archive(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The state, the settings and the keys of this made-up controller; nobody's of this machine."""
    if any(part in {"work", "people", "authority"} for part in Path(entry.name).parts):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def errors() -> dict[str, Any]:
    """A status of each reason."""
    statuses = {}
    for reason, kind in BY_REASON.items():
        names = [name for _, name, _, _ in string.Formatter().parse(kind.text) if name]
        status = status_message(kind(**{name: f"{name} of an error" for name in names}))
        statuses[reason] = base64.b64encode(status.SerializeToString(deterministic=True)).decode()
    return statuses


def enrolled(maker: Maker) -> None:
    """A request and its answer, as people send them to each other."""
    request = new_request(maker.house.person("bob"), "bob", role="auditor", project="pilot")
    answer = enrol(
        maker.house.folder,
        request_of_document(request.file.read_bytes()),
        read_authority(maker.house.folder / "authority"),
        role=Role.AUDITOR,
        project="pilot",
        address="localhost:7443",
        now=datetime.now(UTC),
    )
    maker.write("enrolment/request.json", request.file.read_bytes())
    maker.write("enrolment/answer.json", answer.document)


def offline(maker: Maker) -> None:
    """Store the output of the commands that need no controller."""
    bundles = sorted(path.name for path in (maker.folder / "bundles").iterdir())
    shown = {" ".join(words): offline_output(maker.folder, words) for words in offline_commands(bundles)}
    maker.write_packed("shell/offline.json.gz", shown)


def make(folder: Path) -> None:
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        house = stack.enter_context(_started(scratch))
        ana, aud = (stack.enter_context(closing(house.analyst(name))) for name in ("ana", "aud"))
        maker = Maker(house, folder, ana, aud)
        maker.by_content()
        maker.psi_cards()
        maker.audits()
        card = maker.findings()
        rotated(maker)
        enrolled(maker)
        shells(maker, card, scratch)
        offline(maker)
        house.stop()
        output = {" ".join(words): steward(house, "emergency", *words) for words in STEWARDS}
        maker.write_packed("shell/steward.json.gz", output)
        with closing(sqlite3.connect(house.folder / "state" / "state.sqlite")) as state:
            state.execute("VACUUM")
            state.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        house.settings_file.write_text(house.settings_file.read_text().replace(NOISY_BOXES, ""))
        with tarfile.open(folder / "controller.tar.xz", "w:xz") as archive:
            for name in ("controller", "survey.csv", "others.csv", "checked.csv"):
                archive.add(scratch / name, name, filter=_kept_in_archive)


if __name__ == "__main__":
    try:
        make(Path(sys.argv[1]))
    except GencardError as error:
        print(error.reason, error, error.fields)
        raise
