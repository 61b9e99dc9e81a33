"""The content of every document in ``tests/fixtures/golden/documents``, as Python objects.

Names and fields here follow the code; the files do not: they hold the bytes of the first version, and
what is built here must give them for ever.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gencard.controller.state.log import signed_checkpoint
from gencard.core.card.budget import NO_CLAIM, Claim, Neighbouring, Price
from gencard.core.card.privacy import USUAL_CHECKS, InsideGenerator, Transform, gaussian, laplace
from gencard.core.card.sums import Moment, MomentKind
from gencard.core.card.terms import Analyses, AuditTerms, CardTerms, Proposal, Tier
from gencard.core.coding import Attribute, Coding, Edges, Labels, StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.statistics.linear import statistics_of
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import LinearMeasurement, Measurement, Psi
from gencard.core.types import VersionKind
from gencard.wire import dsse
from gencard.wire.black_box import BoxRequest, BoxTask, bytes_of_request
from gencard.wire.canonical import json_bytes
from gencard.wire.documents import (
    AnswerVerdict,
    AuditedBox,
    Question,
    Receipt,
    SignedAnswer,
    answer_statement,
    card_statement,
    receipt_statement,
)
from gencard.wire.keys import CARDS, LOG, KeyChange, changes_file
from gencard.wire.log import LogEntry, log_entry_document
from gencard.wire.psi import coding_document, psi_document

CONTROLLER, ANALYST, NEXT = (
    Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32) for seed in (1, 2, 3)
)
NOW = datetime(2026, 11, 20, 18, 5, tzinfo=UTC)

CODING = Coding(
    (
        Attribute("sex", Labels(("female", "male")), "of the person"),
        Attribute("children", Labels(("0", "1", "2"), integer=True, ordered=True, missing=True)),
        Attribute("age", Edges((0, 16.5, 65, 100))),
        Attribute("região", Labels(("norte", 'sul "1"', "<b>\u2028€</b>"), missing=True)),
        Attribute("weight", Edges((-1.5, 0.1, 1e21), missing=True), "in kg"),
    ),
    (StructuralZeros(("sex", "children"), ((0, 2), (1, 1))),),
)

# Cards ---------------------------------------------------------------------------------------------

EXACT_TERMS = Proposal(
    dataset="datasets/survey",
    purpose='Health by sex, "tabs\t" and ünïcode',
    marginals=(("sex", "children"), ("age",), ("região", "weight")),
    generator="ipf",
    rows=1_000,
)
EXACT = CardTerms(
    name="datasets/survey/cards/0a",
    controller="spiffe://gencard.local/service/controller/controller",
    analyst="spiffe://gencard.local/pilot/analyst/ana",
    dataset_title="A survey",
    version="aa" * 32,
    coding_digest="bb" * 32,
    declared_by="the survey's office",
    terms=EXACT_TERMS,
    price=Price(statistics=21),
    tier=Tier.BY_CONSTRUCTION,
    generator_digest="cc" * 32,
    agreed_by_policy="marginals of at most 2 attributes",
    offer_time="2026-11-20T18:00:00Z",
    expire_time="2027-02-18T18:00:00Z",
    nonce="dd" * 16,
)
MOMENTS = (
    Moment(MomentKind.MEAN, ("age",)),
    Moment(MomentKind.VARIANCE, ("children",)),
    Moment(MomentKind.MOMENT, ("age",), 3),
    Moment(MomentKind.COVARIANCE, ("children", "age")),
    Moment(MomentKind.GROUP_SUMS, ("sex", "age")),
    Moment(MomentKind.GROUP_MEANS, ("sex", "children")),
)


def _card(price: Price = EXACT.price, box: Mapping[str, Any] | None = None, **terms: Any) -> CardTerms:
    """The exact card with other terms; ``box``: fields of a card whose generator is a black box."""
    return replace(EXACT, price=price, terms=replace(EXACT_TERMS, **terms), **(box or {}))


_RHO = gaussian("0.125", neighbouring="add-remove", delta="0.000001")
CARDS_BY_NAME: Mapping[str, CardTerms] = {
    "exact": EXACT,
    "laplace": _card(Price(epsilon=Decimal("0.5")), privacy=laplace("0.50", neighbouring="replace-one")),
    "laplace-weighted": _card(
        Price(epsilon=Decimal("1.000000001")),
        privacy=laplace("1.000000001", neighbouring="add-remove"),
        weights=(3, 1, 1_000_000),
    ),
    "gaussian": _card(Price(rho=Decimal("0.125")), privacy=gaussian("0.125", neighbouring="add-remove")),
    "gaussian-delta": _card(
        Price(rho=Decimal("0.125")), privacy=_RHO, weights=(1, 2, 3), generator="graphical"
    ),
    "gaussian-moments": _card(
        Price(rho=Decimal("0.125")),
        privacy=_RHO,
        moments=MOMENTS[:2],
        weights=(1, 2, 3, 4, 5),
        generator="reduced-space",
    ),
    "checked": _card(transform=USUAL_CHECKS),
    "rounded": _card(transform=Transform(rounding=5, zeros=True)),
    "moments": _card(Price(statistics=40), moments=MOMENTS, generator="maximum-entropy"),
    "moments-alone": _card(
        Price(statistics=2), marginals=(), moments=MOMENTS[:1], generator="maximum-entropy"
    ),
    "measures": _card(measures=("dcr", "marginals")),
    "without-uniques": _card(without_uniques=True, measures=("tables",)),
    "analyses": _card(
        analyses=Analyses(
            kinds=("crosstab", "linear"),
            checked_runs=5,
            numbers=200,
            reviewed_runs=1,
            programs=("ab" * 32,),
            libraries=("numpy",),
        )
    ),
    "analyses-noisy": _card(
        Price(rho=Decimal("0.125")),
        privacy=_RHO,
        analyses=Analyses(
            kinds=("linear",), checked_runs=2, privacy=gaussian("0.01", neighbouring="add-remove")
        ),
    ),
    "audit-terms": _card(audit=AuditTerms(3, 8, "0.001")),
    "private-epsilon": _card(
        Price(epsilon=Decimal(1)),
        {
            "tier": Tier.PRIVATE,
            "parameters": (("degree", "2"), ("epsilon", "1")),
            "claim": Claim(
                "Every sample of one fit.", Decimal(1), neighbouring=Neighbouring.REPLACE_ONE
            ),
        },
        privacy=InsideGenerator(laplace(1, neighbouring="replace-one")),
        generator="bayes",
    ),
    "private-rho": _card(
        Price(rho=Decimal("0.125")),
        {
            "tier": Tier.PRIVATE,
            "claim": Claim(
                "Every sample of one fit.", Decimal("2.5"), Decimal("0.000001"), Neighbouring.ADD_REMOVE
            ),
        },
        privacy=InsideGenerator(_RHO),
        generator="mst",
    ),
    "audited": _card(
        box={
            "tier": Tier.AUDITED,
            "parameters": (("minimum_leaf", "5"),),
            "claim": NO_CLAIM,
            "reviewed_by": "sam, who trusts its author",
        },
        generator="honest",
    ),
}

# Receipts ------------------------------------------------------------------------------------------

RECEIPT = Receipt(
    name="datasets/survey/cards/0a/releases/01",
    card_digest="11" * 32,
    psi_digest="22" * 32,
    rows_digest="33" * 32,
    rows=1_000,
    seed=2**64 - 1,
    versions=(("gencard", "0.1.0"), ("numpy", "2.4.6")),
    log_index=5,
    time="2026-11-20T18:05:00Z",
)
RECEIPTS: Mapping[str, Receipt] = {
    "by-construction": RECEIPT,
    "audited": replace(RECEIPT, seed=None, audited=AuditedBox("44" * 32, "55" * 32)),
    "without-uniques": replace(RECEIPT, seed=None, without_uniques=True),
    "private": replace(RECEIPT, seed=None, psi_digest="", private_box="66" * 32),
    "of-a-table": replace(RECEIPT, version_kind=VersionKind.SNAPSHOT),
}

# Answers -------------------------------------------------------------------------------------------

_RELEASED = SignedAnswer(
    name="datasets/survey/cards/0a/answers/01",
    card_digest="11" * 32,
    version="aa" * 32,
    question=Question(
        "linear",
        "weight ~ sex",
        where="age < 65",
        missing="drop",
        options='{"values":{"age":[8,40,82.5]}}',
    ),
    rules="1",
    verdict=AnswerVerdict.RELEASED,
    released_by="spiffe://gencard.local/service/controller/controller",
    numbers=3,
    log_index=6,
    time="2026-11-20T18:05:00Z",
    answer={
        "formula": "weight ~ sex",
        "kind": "linear",
        "n": 870,
        "scalars": [{"value": 1e-07}, {"value": -0.5}],
    },
)
ANSWERS: Mapping[str, SignedAnswer] = {
    "released": _RELEASED,
    "refused": replace(
        _RELEASED, verdict=AnswerVerdict.REFUSED, numbers=0, answer=None, reasons=("threshold", "zeros")
    ),
}

# psi -----------------------------------------------------------------------------------------------

COVERED = CODING.domain.project(("sex", "children", "age"))
RECORDS = Dataset(COVERED, np.random.default_rng(4).integers(0, COVERED.sizes, (200, 3)))
_LINEAR = statistics_of(MOMENTS, CODING)


def _noisy_psi() -> Psi:
    exact = measure_dataset(RECORDS, [("sex", "age"), *_LINEAR])
    noisy = tuple(
        LinearMeasurement(one.statistic, one.values - 7, np.linspace(0.1, 1e6, one.values.size))
        for one in exact.linear
    )
    counts = exact.measurements[0].values - 20
    return Psi(COVERED, (Measurement(("sex", "age"), counts, 2.0**0.5),), noisy)


PSIS: Mapping[str, Callable[[], Psi]] = {
    "exact": lambda: measure_dataset(RECORDS, [("sex", "children"), ("age",)]),
    "moments": lambda: measure_dataset(RECORDS, [("children",), *_LINEAR]),
    "noisy": _noisy_psi,
    "large": lambda: Psi(
        Domain.of({"a": 2}), (Measurement(("a",), np.array([2**63 - 1, -(2**63)]), 1e-300),)
    ),
}

# Keys, log, black boxes ----------------------------------------------------------------------------


def _changes() -> list[bytes]:
    public = [key.public_key() for key in (CONTROLLER, NEXT)]
    return [
        KeyChange(use, 1, public[0], public[1], "2026-11-21T09:00:00Z").signed(CONTROLLER, NEXT)
        for use in (CARDS, LOG)
    ]


def _entry() -> bytes:
    body = json_bytes({"action": "release", "details": {"rows": "9"}, "index": "2"})
    return log_entry_document(LogEntry(body, 3, (bytes(range(32)), b"\xff" * 32)))


def _request(task: BoxTask) -> bytes:
    sampled = task is BoxTask.SAMPLE
    return bytes_of_request(
        BoxRequest(
            task,
            Dataset(COVERED, RECORDS.codes[:0] if sampled else RECORDS.codes[:5]),
            rows=7 if task.answers_rows else 0,
            seed=2**64 - 1,
            parameters={"epsilon": "1", "alpha": "x"},
            workload=(("sex", "age"), ("children",)),
            values={"age": (8.25, 40.75, 82.5), "children": (0.0, 1.0, 2.0, float("nan"))},
            saved=b"a saved fit" if sampled else b"",
            coding=CODING if task is BoxTask.ANALYSE else None,
        )
    )


DOCUMENTS: Mapping[str, Callable[[], bytes]] = {
    **{f"card-{name}": lambda card=card: card_statement(card) for name, card in CARDS_BY_NAME.items()},
    **{
        f"receipt-{name}": lambda receipt=receipt: receipt_statement(receipt)
        for name, receipt in RECEIPTS.items()
    },
    **{
        f"answer-{name}": lambda answer=answer: answer_statement(answer)
        for name, answer in ANSWERS.items()
    },
    **{f"psi-{name}": lambda make=make: psi_document(make()) for name, make in PSIS.items()},
    **{f"box-{task}": lambda task=task: _request(task) for task in BoxTask},
    "schema": lambda: json_bytes(coding_document(CODING)),
    "signed-card": lambda: dsse.sign(card_statement(EXACT), [CONTROLLER, ANALYST]),
    "signed-receipt": lambda: dsse.sign(receipt_statement(RECEIPT), [CONTROLLER]),
    "checkpoint": lambda: signed_checkpoint(CONTROLLER, b"\x5a" * 32, 12, NOW),
    "keys": lambda: changes_file(_changes()),
    "log-entry": _entry,
}
"""The bytes of every document, by the name of its golden file."""
