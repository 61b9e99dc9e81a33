"""Makes the report of a release that leaks: public census records, and rows that copy half of them.

``python -m docs.leaking_adult FOLDER PAGE`` reads ``adult_clearbox_train.csv``, ``_holdout.csv`` and
``_synthetic.csv`` in FOLDER and writes the page that docs/analysts.md shows. No controller is needed:
the records of this example are public.
"""

import csv
import sys
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import numpy as np

from gencard.client.card_report import CardReport, LeftOut
from gencard.core.card.budget import Price
from gencard.core.card.terms import CardTerms, Proposal, Tier
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.statistics.marginals import count_all
from gencard.core.statistics.psi import Measurement, Psi
from gencard.measures.evaluation.evaluation import Declared, Material
from gencard.measures.evaluation.registry import REPORTED, evaluate
from gencard.wire.documents import Receipt

NUMBERS = ("age", "capital_gain", "capital_loss", "hours_per_week")
PHI = tuple(combinations(("age", "education", "marital_status", "occupation", "sex", "income"), 2))
DECLARED = Declared(keys=("age", "race", "sex", "marital_status"), target="income", attacks=2_000)
DIGEST = "00" * 32

Rows = dict[str, list[str]]


def rows_in(path: Path) -> Rows:
    """The columns of a CSV file; a missing value is empty."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    return {name: ["" if line[name] == "nan" else line[name] for line in lines] for name in lines[0]}


def coding_of(tables: Iterable[Rows]) -> Coding:
    """All values of all tables; numbers are ordered whole numbers, empty values missing."""
    together = list(tables)
    attributes = []
    for name in together[0]:
        values = set().union(*(table[name] for table in together))
        missing, numeric = "" in values, name in NUMBERS
        values -= {""}
        ordered = sorted(values, key=int) if numeric else sorted(values)
        attributes.append(Attribute(name, Labels(tuple(ordered), numeric, numeric, missing)))
    return Coding(tuple(attributes))


def coded(rows: Rows, coding: Coding) -> Dataset:
    columns = []
    for attribute in coding.attributes:
        places = {label: place for place, label in enumerate(attribute.coding.level_names)}
        places[""] = len(places) - 1
        columns.append(np.array([places[value] for value in rows[attribute.name]]))
    return Dataset.of_columns(coding.domain, columns)


def material_in(folder: Path) -> Material:
    """The release, the records that it leaks, and others."""
    train, holdout, synthetic = (
        rows_in(folder / f"adult_clearbox_{name}.csv") for name in ("train", "holdout", "synthetic")
    )
    coding = coding_of((train, holdout, synthetic))
    original, others, rows = (coded(table, coding) for table in (train, holdout, synthetic))
    return Material(rows, coding, PHI, DECLARED, 0, original, others, psi_of(original, PHI))


def psi_of(dataset: Dataset, cliques: tuple[Clique, ...]) -> Psi:
    counts = count_all(dataset, cliques)
    pairs = zip(cliques, counts, strict=True)
    domain = dataset.domain.covered_by(cliques)
    return Psi(domain, tuple(Measurement(clique, table) for clique, table in pairs))


def report_of(material: Material) -> CardReport:
    """The report as a steward would see it; card and receipt are made up."""
    projected = Material(
        material.synthetic.project(material.measured.domain.attributes),
        material.coding,
        material.cliques,
        material.declared,
        material.seed,
        psi=material.psi,
    )
    findings = {
        name: evaluate(measure, material if measure.reads_records else projected)
        for name, measure in REPORTED.items()
    }
    left = LeftOut("Audit", "nothing but rows is known of this generator")
    return CardReport(
        card=_card(), digest=DIGEST, state="example", receipt=_receipt(len(material.synthetic)),
        reader="steward", findings=findings, audits=(), left_out=(left,),
    )  # fmt: skip


def _card() -> CardTerms:
    terms = Proposal("datasets/adult", "An example of a release that leaks", PHI, "unknown", 32_561)
    return CardTerms(
        name="datasets/adult/cards/example",
        controller="spiffe://example/service/controller/controller",
        analyst="spiffe://example/pilot/analyst/ana",
        dataset_title="Adult: rows that copy",
        version=DIGEST,
        coding_digest=DIGEST,
        declared_by="the example",
        terms=terms,
        price=Price(),
        tier=Tier.AUDITED,
        generator_digest=DIGEST,
        agreed_by_policy="none",
        offer_time="2026-11-21T00:00:00Z",
        expire_time="2027-11-21T00:00:00Z",
        nonce="00" * 16,
    )


def _receipt(rows: int) -> Receipt:
    return Receipt(
        name="datasets/adult/cards/example/releases/leak",
        card_digest=DIGEST,
        psi_digest=DIGEST,
        rows_digest=DIGEST,
        rows=rows,
        seed=0,
        versions=(),
        log_index=0,
        time="2026-11-21T00:00:00Z",
    )


def main(folder: str, page: str) -> None:
    """Write the page and its JSON."""
    report = report_of(material_in(Path(folder)))
    report.save_html(page)
    report.save_json(Path(page).with_suffix(".json"))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: python -m docs.leaking_adult FOLDER PAGE")
    main(*sys.argv[1:])
