"""A card binds the schema it was signed with; under another one nothing is done for it."""

import grpc
import pytest

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.v1 import audit_pb2, synthesis_pb2
from gencard.wire.tables import table_chunks
from tests.system.house import SCHEMA, build, request_id
from tests.system.raw_calls import agreed, call, eventually, is_idle, state_unchanged

GENERATE = "/gencard.v1.SynthesisService/GenerateRelease"
RUN_AUDIT = "/gencard.v1.AuditService/RunAudit"
RUN_BOX = "/gencard.v1.AuditService/RunBlackBox"
FINER = SCHEMA.replace("[16, 30, 45, 65, 95]", "[16, 20, 30, 45, 65, 95]")


@pytest.fixture(scope="module")
def changed_house(tmp_path_factory):
    """Two cards were agreed, and one was measured, before the schema got finer."""
    house = build(tmp_path_factory.mktemp("schema")).start()
    with house.analyst() as analyst:
        cards = [agreed(analyst, ("sex", "age"), ("sex", "work")).name for _ in range(2)]
        analyst.card(cards[1]).generate(5, progress=False)
        assert eventually(lambda: is_idle(house))
    house.stop()
    (house.folder / "schema.toml").write_text(FINER)
    yield house.start(), cards
    house.stop()


@pytest.mark.parametrize("number", [0, 1], ids=["not measured", "measured"])
def test_a_card_is_not_carried_out_under_another_schema(changed_house, number):
    house, cards = changed_house
    card = cards[number]
    start = audit_pb2.RunBlackBoxRequest(start=audit_pb2.RunBlackBoxStart(card=card, rows=10))
    dataset = Dataset(Domain(("sex", "work", "age"), (2, 3, 5)), [[0, 0, 0]])
    upload = [audit_pb2.RunBlackBoxRequest(chunk=chunk) for chunk in table_chunks(dataset)]
    asked = {
        GENERATE: [synthesis_pb2.GenerateReleaseRequest(card=card, rows=5, request_id=request_id())],
        RUN_AUDIT: [audit_pb2.RunAuditRequest(card=card, request_id=request_id())],
        RUN_BOX: [start, *upload],
    }
    with state_unchanged(house):
        for path, requests in asked.items():
            ending = call(house.channel(), path, *requests)
            assert (ending.code, ending.reason) == (
                grpc.StatusCode.FAILED_PRECONDITION,
                "DATASET_CHANGED",
            ), path
