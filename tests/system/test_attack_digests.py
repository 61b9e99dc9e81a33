"""Attack: guess exact counts from the digests and numbers of an auditor's report.

Adversary: an enrolled auditor, who may have audits run at the records and read their full reports. A
digest that anybody can compute gives small counts away: all of them are tried in a second.
"""

import hashlib
import hmac
from itertools import product

import numpy as np
import pytest

from gencard.client.connection.connection import result_of
from gencard.controller import audits
from gencard.core.audit.extremal_pair import statistics_digest
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import RecordsProtectedError
from gencard.v1 import audit_pb2
from tests.system.house import build, request_id, survey
from tests.system.prepared_audits import full_report
from tests.system.raw_calls import configure, state_unchanged

RECORDS = 300
PROTECTED = {
    "noise": {"mechanisms": '["gaussian"]', "noise": "NOISE"},
    "rounding": {"transform": "{ rounding = 5 }"},
    "checks": {"transform": "{ threshold = 2 }"},
}
NOISE = '{ mechanism = "gaussian", neighbouring = "replace-one", rho = "0.005" }'
CAP = "{ statistics = 1_000, rho = 0.5 }"


def start(folder, **policy):
    house = build(folder, survey(RECORDS))
    house.edit(dict.fromkeys(("most_per_card", "dataset", "project", "analyst"), CAP))
    said = {key: NOISE if value == "NOISE" else value for key, value in policy.items()}
    if said:
        configure(house, "datasets.policy", **said)
    return house.start()


@pytest.fixture(scope="module")
def exact_house(tmp_path_factory):
    house = start(tmp_path_factory.mktemp("exact"))
    yield house
    house.stop()


@pytest.fixture(scope="module", params=PROTECTED)
def protected_house(request, tmp_path_factory):
    house = start(tmp_path_factory.mktemp("protected"), **PROTECTED[request.param])
    yield house
    house.stop()


def audited(person, card):
    """The name of an audit of the honest box at the records."""
    connection = person._connection
    asked = audit_pb2.RunAuditRequest(card=card, black_box="honest", request_id=request_id())
    begun = connection.call(connection.audit.RunAudit, asked)
    return result_of(connection, begun, audit_pb2.Audit, lambda *_: None).name


def digests_of(counts, cliques):
    """Compute the digests of guessed one-way counts, in every form that the product has had."""
    body = b"gencard.marginals.v1"
    for (name,), cells in zip(cliques, counts, strict=True):
        body += f"\x00{name}\x00{len(cells)}\x00\x00".encode()
        body += np.array(cells, dtype="<i8").tobytes()
    return hashlib.sha256(body).hexdigest(), hmac.digest(b"", body, "sha256").hex()


def all_guesses(cliques):
    """Digests of all counts that two binary attributes of so many records can have."""
    splits = [(one, RECORDS - one) for one in range(RECORDS + 1)]
    pairs = product(splits, repeat=len(cliques))
    return {digest for counts in pairs for digest in digests_of(counts, cliques)}


def test_the_attacker_computes_digests_as_the_product_does():
    dataset = Dataset(Domain(("a", "b"), (2, 2)), np.array([[0, 1], [1, 1], [1, 1]]))
    cliques = [("a",), ("b",)]
    assert statistics_digest(dataset, cliques) in digests_of([(1, 2), (0, 3)], cliques)


def test_no_guess_of_the_counts_has_a_digest_of_the_report(exact_house):
    """The auditor pays one statistic for a verdict; psi of this card was never measured."""
    with exact_house.analyst() as analyst, exact_house.analyst("aud") as auditor:
        card = analyst.propose("survey", [("sex",), ("region",)], purpose="a test").accept()
        report = full_report(auditor, audited(auditor, card.name))
    shown = {pair[side] for pair in report["pairs"] for side in ("original", "low", "high")}
    assert shown.isdisjoint(all_guesses(report["plan"]["cliques"]))


def test_beside_a_protected_psi_there_is_no_audit_at_the_records(protected_house):
    """Every number of a report would be a function of exact counts: digests, z values, g of each run."""
    with protected_house.analyst() as analyst, protected_house.analyst("aud") as auditor:
        card = analyst.propose("survey", [("sex",), ("region",)], purpose="a test").accept()
        for person in (analyst, auditor):
            with state_unchanged(protected_house), pytest.raises(RecordsProtectedError):
                audited(person, card.name)
        assert auditor.spends() == []


def test_a_report_that_an_earlier_version_left_is_not_shown(protected_house, monkeypatch):
    with protected_house.analyst() as analyst, protected_house.analyst("aud") as auditor:
        card = analyst.propose("survey", [("sex",), ("region",)], purpose="a test").accept()
        with monkeypatch.context() as earlier:
            earlier.setattr(audits, "why_protected", lambda *_: None)
            audit = audited(analyst, card.name)
        with pytest.raises(RecordsProtectedError):
            full_report(auditor, audit)
