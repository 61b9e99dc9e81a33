"""The documents that docs/card-format.md shows: made here, put there by ``python -m docs.examples``.

A block of the page that follows ``<!-- example: NAME -->`` shows the example of that name.
"""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gencard.core.card.budget import Price
from gencard.core.card.terms import CardTerms, Proposal, Tier
from gencard.core.coding import Attribute, Coding, Edges, Labels, StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.statistics.marginals import dimension
from gencard.core.statistics.measure import measure_dataset
from gencard.core.types import VersionKind
from gencard.wire.canonical import digest_of, document_of, json_bytes, sha256, time_text
from gencard.wire.documents import Receipt, card_document, card_statement, receipt_statement
from gencard.wire.dsse import CHECKPOINT, ENROLMENT_REQUEST, REVOCATION, VERDICT, key_id, sign, statement
from gencard.wire.keys import CARDS, KeyChange
from gencard.wire.psi import coding_digest, coding_document, psi_document

PAGE = Path(__file__).with_name("card-format.md")
TIME = time_text(datetime(2026, 11, 20, 18, 5, tzinfo=UTC))
WIDTH = 88
BLOCK = re.compile(r"(<!-- example: (\w+) -->\n```json\n).*?(^```$)", re.DOTALL | re.MULTILINE)

CONTROLLER_KEY, ANALYST_KEY, LOG_KEY, NEXT_KEY = (
    Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (1, 2, 3, 4)
)
CODING = Coding(
    (
        Attribute("sex", Labels(("female", "male"))),
        Attribute("health", Labels(("good", "fair", "bad"), ordered=True, missing=True)),
        Attribute("age", Edges((16.0, 45.0, 95.0))),
    ),
    (StructuralZeros(("health", "age"), ((3, 0),)),),
)
RECORDS = Dataset(CODING.domain, np.array([[0, 0, 1], [1, 2, 1], [1, 1, 0], [0, 3, 1], [0, 0, 0]]))
TERMS = Proposal(
    dataset="datasets/survey",
    purpose="Health by sex and by age",
    marginals=(("sex", "health"), ("health", "age")),
    generator="ipf",
    rows=100_000,
)
CARD = CardTerms(
    name="datasets/survey/cards/5f0c2a9be1d34478",
    controller="spiffe://gencard.local/service/controller/controller",
    analyst="spiffe://gencard.local/pilot/analyst/ana",
    dataset_title="A survey",
    version=sha256(b"salt and records"),
    coding_digest=coding_digest(CODING),
    declared_by="the survey's office",
    terms=TERMS,
    price=Price(statistics=dimension(CODING.domain, TERMS.marginals)),
    tier=Tier.BY_CONSTRUCTION,
    generator_digest=sha256(b"code and parameters"),
    agreed_by_policy="marginals of at most 2 attributes and 10000 cells",
    offer_time="2026-11-20T18:00:00Z",
    expire_time="2027-02-18T18:00:00Z",
    nonce="0123456789abcdef0123456789abcdef",
)
CARD_DIGEST = digest_of(card_document(CARD))
PSI = measure_dataset(RECORDS, TERMS.marginals)
RECEIPT = Receipt(
    name=f"{CARD.name}/releases/90b1d7c2e4f5a638",
    card_digest=CARD_DIGEST,
    psi_digest=sha256(psi_document(PSI)),
    rows_digest=RECORDS.digest(),
    rows=len(RECORDS),
    seed=7,
    versions=(("gencard", "0.1.0"), ("numpy", "2.4.6"), ("python", "3.11.7"), ("scipy", "1.17.1")),
    log_index=4,
    time=TIME,
    version_kind=VersionKind.BYTES,
)
CHANGE = KeyChange(CARDS, 1, CONTROLLER_KEY.public_key(), NEXT_KEY.public_key(), TIME)


def examples() -> dict[str, Any]:
    """Every example by name."""
    statements = {
        "card": card_statement(CARD),
        "receipt": receipt_statement(RECEIPT),
        "verdict": statement(VERDICT, f"{CARD.name}/audits/2d7e", _verdict(), CARD_DIGEST),
        "revocation": statement(REVOCATION, CARD.name, _revocation(), CARD_DIGEST),
        "checkpoint": statement(CHECKPOINT, "log", _checkpoint(), _checkpoint()["root"]),
        "change": CHANGE.statement,
        "enrolment": statement(ENROLMENT_REQUEST, "people/ana", _enrolment(), _enrolment_digest()),
    }
    documents = {name: document_of(payload, name) for name, payload in statements.items()}
    envelope = sign(statements["card"], [ANALYST_KEY, CONTROLLER_KEY])
    return documents | {
        "envelope": document_of(envelope, "envelope"),
        "schema": document_of(json_bytes(coding_document(CODING)), "schema"),
        "psi": document_of(psi_document(PSI), "psi"),
    }


def shown(name: str) -> str:
    """An example as the page shows it: long texts cut, one line for what fits in one."""
    return _laid_out(_cut(examples()[name]), 0)


def filled(text: str) -> str:
    """The page with every block as it should be."""
    return BLOCK.sub(lambda found: f"{found[1]}{shown(found[2])}\n{found[3]}", text)


def main() -> None:
    """Fill the page's blocks anew."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _enrolment() -> dict[str, Any]:
    """A request; its certificate request is cut, since each signature of it differs."""
    return {
        "certificateRequest": "-----BEGIN CERTIFICATE REQUEST-----\n...",
        "name": "ana",
        "project": "health",
        "role": "analyst",
        "signingKey": ANALYST_KEY.public_key().public_bytes_raw().hex(),
    }


def _enrolment_digest() -> str:
    return key_id(ANALYST_KEY.public_key())


def _verdict() -> dict[str, Any]:
    return {
        "attempt": "1",
        "author": "gencard",
        "blackBox": "ipf",
        "boxDigest": {"sha256": sha256(b"code of the box")},
        "card": {"sha256": CARD_DIGEST},
        "level": "0.025",
        "report": {"sha256": sha256(b"the report")},
        "runs": "10",
        "time": TIME,
        "verdict": "no-evidence",
        "wording": "No evidence of leakage (level 0.025 at try 1, ...)",
    }


def _revocation() -> dict[str, Any]:
    return {"card": CARD.name, "remark": "The records were found to be wrong.", "time": TIME}


def _checkpoint() -> dict[str, Any]:
    return {"root": sha256(b"root"), "size": "5", "time": TIME}


def _cut(value: Any) -> Any:
    """The value with texts of more than 96 characters cut."""
    if isinstance(value, dict):
        return {name: _cut(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_cut(part) for part in value]
    return f"{value[:64]}..." if isinstance(value, str) and len(value) > 96 else value


def _laid_out(value: Any, column: int) -> str:
    line = json.dumps(value, ensure_ascii=False)
    if column + len(line) <= WIDTH or not isinstance(value, dict | list):
        return line
    inner = " " * (column + 2)
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {_laid_out(part, column + 2)}" for name, part in value.items()]
    else:
        parts = [_laid_out(part, column + 2) for part in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{' ' * column}{closing}"


if __name__ == "__main__":
    main()
