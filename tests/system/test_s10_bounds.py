"""S10: what is too much is refused at once, before anything is allocated."""

from itertools import combinations

import grpc
import numpy as np
import pandas as pd
import pytest
from google.longrunning import operations_pb2

from gencard.core.card.terms import AuditTerms
from gencard.v1 import audit_pb2, negotiation_pb2, synthesis_pb2
from gencard.v1 import common_pb2 as common
from tests.system.house import build, request_id
from tests.system.raw_calls import agreed, call, quickest, resident_kib, state_unchanged

PROPOSE = "/gencard.v1.NegotiationService/ProposeCard"
NAMES = [f"x{number}" for number in range(12)]
SCHEMA = 'title = "Wide"\ndescription = "d"\ndeclared_by = "tests"\nreviewed = true\n' + "".join(
    f'\n[[attributes]]\nname = "{name}"\nlabels = {[str(code) for code in range(10)]}\n'
    for name in NAMES
)


@pytest.fixture(scope="module")
def wide_house(tmp_path_factory):
    """Twelve attributes of ten levels: a full table of 1e12 cells."""
    codes = np.random.default_rng(1).integers(0, 10, (200, 12))
    house = build(tmp_path_factory.mktemp("wide"), pd.DataFrame(codes, columns=NAMES), SCHEMA)
    house.edit({"largest_order": "12", "largest_marginal_cells": str(10**13)})
    yield house.start()
    house.stop()


def proposal(*marginals, rows=10, runs=10, generator="ipf"):
    return negotiation_pb2.ProposeCardRequest(
        terms=common.Terms(
            dataset="datasets/survey",
            purpose="to see",
            marginals=[common.Clique(attributes=clique) for clique in marginals],
            privacy=common.Privacy(mechanism=common.Privacy.MECHANISM_EXACT),
            generator=generator,
            rows=rows,
            audit=common.AuditTerms(runs=runs, order=3, alpha="0.05"),
        ),
        request_id=request_id(),
    )


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (proposal(NAMES), "TOO_LARGE"),
        (proposal(*([name] for name in NAMES)), "MODEL_TOO_LARGE"),
        (proposal(*combinations(NAMES, 2), generator="graphical"), "MODEL_TOO_LARGE"),
        (proposal(NAMES[:2], rows=10**9), "TOO_LARGE"),
        (proposal(NAMES[:2], runs=1_000), "TOO_LARGE"),
    ],
    ids=["a marginal of 1e12 cells", "a model of 1e12 cells", "a tree of 1e12 cells", "rows", "runs"],
)
def test_s10_a_proposal_of_1e12_cells_is_refused_in_50_ms_and_5_mib(wide_house, asked, reason):
    channel = wide_house.channel()
    call(channel, PROPOSE, asked)
    before = resident_kib()

    def refused():
        ending = call(channel, PROPOSE, asked)
        assert (ending.code, ending.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, reason)

    with state_unchanged(wide_house):
        for _ in range(8):
            refused()
        assert quickest(refused, within=0.05, tries=100) < 0.05
    assert resident_kib() - before < 5 << 10


@pytest.fixture(scope="module")
def card(wide_house):
    with wide_house.analyst() as analyst:
        return agreed(analyst, ("x0", "x1"), rows=100).name


@pytest.mark.parametrize(
    ("rows", "reason"), [(0, "INVALID_NUMBER"), (101, "TOO_LARGE"), (2**63, "TOO_LARGE")]
)
def test_s10_a_release_is_bounded_by_its_card(wide_house, card, rows, reason):
    asked = synthesis_pb2.GenerateReleaseRequest(card=card, rows=rows, request_id=request_id())
    with state_unchanged(wide_house):
        ending = call(wide_house.channel(), "/gencard.v1.SynthesisService/GenerateRelease", asked)
    assert ending.reason == reason


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"attributes": ["x0", "x1"], "sizes": [10, 10], "rows": 2**40}, "TOO_LARGE"),
        ({"attributes": ["x0"], "sizes": [10], "rows": 1}, "DOMAIN_MISMATCH"),
        ({"attributes": ["x0", "x1"], "sizes": [10, 2**31], "rows": 1}, "DOMAIN_MISMATCH"),
        (
            {"attributes": [str(k) for k in range(40_000)], "sizes": [2] * 40_000, "rows": 200_000},
            "DOMAIN_MISMATCH",
        ),
    ],
    ids=["rows", "another domain", "a size", "attributes"],
)
def test_s10_an_upload_is_looked_at_before_room_is_made_for_it(wide_house, card, header, reason):
    start = audit_pb2.RunBlackBoxRequest(start=audit_pb2.RunBlackBoxStart(card=card, rows=10))
    table = audit_pb2.RunBlackBoxRequest(chunk=common.TableChunk(header=common.TableHeader(**header)))
    before = resident_kib()
    path = "/gencard.v1.AuditService/RunBlackBox"
    with state_unchanged(wide_house):
        assert call(wide_house.channel(), path, start, table).reason == reason
    assert resident_kib() - before < 32 << 10


@pytest.mark.parametrize(("rows", "reason"), [(0, "INVALID_NUMBER"), (2**64 - 1, "TOO_LARGE")])
def test_s10_a_visit_is_bounded_before_its_upload(wide_house, card, rows, reason):
    start = audit_pb2.RunBlackBoxRequest(start=audit_pb2.RunBlackBoxStart(card=card, rows=rows))
    with state_unchanged(wide_house):
        path = "/gencard.v1.AuditService/RunBlackBox"
        assert call(wide_house.channel(), path, start).reason == reason


@pytest.mark.parametrize(
    "path", ["NegotiationService/ListCards", "LedgerService/ListSpends", "CatalogService/ListDatasets"]
)
def test_s10_a_page_is_bounded(wide_house, path):
    size_500, size_501 = b"\x10\xf4\x03", b"\x10\xf5\x03"
    if "ListCards" not in path:
        size_500, size_501 = b"\x08\xf4\x03", b"\x08\xf5\x03"
    channel = wide_house.channel()
    assert call(channel, f"/gencard.v1.{path}", size_500).code is grpc.StatusCode.OK
    assert call(channel, f"/gencard.v1.{path}", size_501).reason == "INVALID_NUMBER"


@pytest.mark.parametrize(
    ("marginals", "order", "reason"),
    [([(name,) for name in NAMES[:7]], 7, "TOO_LARGE"), ([("x0", "x1")], 3, "NO_EXTREMAL_PAIR")],
    ids=["a basis of 1e7 cells", "nothing to look at"],
)
def test_s10_an_audit_is_bounded_before_it_counts_as_an_attempt(wide_house, marginals, order, reason):
    with wide_house.analyst() as analyst:
        terms = AuditTerms(order=order)
        own = analyst.propose("survey", marginals, purpose="a test", rows=100, audit=terms).accept()
    asked = audit_pb2.RunAuditRequest(card=own.name, request_id=request_id())
    with state_unchanged(wide_house):
        ending = call(wide_house.channel(), "/gencard.v1.AuditService/RunAudit", asked)
    assert ending.reason == reason


def test_s10_a_page_of_operations_is_bounded_on_both_sides(wide_house):
    path = "/google.longrunning.Operations/ListOperations"
    for size in (-1, -(2**31), 501):
        asked = operations_pb2.ListOperationsRequest(page_size=size)
        assert call(wide_house.channel(), path, asked).reason == "INVALID_NUMBER"
