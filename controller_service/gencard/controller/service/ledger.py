"""LedgerService and LogService: what was spent, and what the log can prove."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import grpc

from gencard.controller.service.guard import identity
from gencard.controller.service.operations import page_size
from gencard.controller.state.accounts import Account, Scope
from gencard.controller.state.database import Database
from gencard.controller.state.event_log import EventLog, all_changes
from gencard.controller.state.ledger import Ledger
from gencard.core.card.budget import Spend, SpendState
from gencard.v1 import ledger_pb2 as pb
from gencard.v1 import ledger_pb2_grpc
from gencard.wire.codecs.card_codec import timestamp
from gencard.wire.codecs.privacy_codec import price_message
from gencard.wire.signatures.identity import Role

STATE = {state: pb.Spend.State.Value(f"STATE_{state.name}") for state in SpendState}


@dataclass(frozen=True, slots=True)
class LedgerServicer(ledger_pb2_grpc.LedgerServiceServicer):
    """Everybody sees their own lines; a steward sees all."""

    database: Database
    ledger: Ledger

    def ListSpends(
        self, request: pb.ListSpendsRequest, context: grpc.ServicerContext
    ) -> pb.ListSpendsResponse:
        who = identity()
        owner = None if who.role is Role.STEWARD else who.uri
        with self.database.reading() as tx:
            page = self.ledger.lines(
                tx, analyst=owner, before=request.page_token, limit=page_size(request.page_size)
            )
        return pb.ListSpendsResponse(spends=map(_line, page.rows), next_page_token=page.next_token)

    def GetBudget(
        self, request: pb.GetBudgetRequest, context: grpc.ServicerContext
    ) -> pb.GetBudgetResponse:
        account = Account(Scope.ANALYST, request.dataset, identity().uri)
        cap = self.ledger.cap(account)
        with self.database.reading() as tx:
            spent = self.ledger.spent(tx, account)
        return pb.GetBudgetResponse(cap=price_message(cap), spent=price_message(spent))


@dataclass(frozen=True, slots=True)
class LogServicer(ledger_pb2_grpc.LogServiceServicer):
    """Checkpoints, proofs and changes of keys; hashes alone leave the log."""

    database: Database
    log: EventLog
    clock: Callable[[], datetime]

    def GetCheckpoint(
        self, request: pb.GetCheckpointRequest, context: grpc.ServicerContext
    ) -> pb.GetCheckpointResponse:
        with self.database.transaction() as tx:
            return pb.GetCheckpointResponse(checkpoint=self.log.checkpoint(tx, self.clock()))

    def GetInclusionProof(
        self, request: pb.GetInclusionProofRequest, context: grpc.ServicerContext
    ) -> pb.GetInclusionProofResponse:
        with self.database.reading() as tx:
            leaf, path = self.log.inclusion(tx, request.index, request.size)
        return pb.GetInclusionProofResponse(leaf=leaf, path=path)

    def GetConsistencyProof(
        self, request: pb.GetConsistencyProofRequest, context: grpc.ServicerContext
    ) -> pb.GetConsistencyProofResponse:
        with self.database.reading() as tx:
            path = self.log.consistency(tx, request.old_size, request.new_size)
        return pb.GetConsistencyProofResponse(path=path)

    def GetKeyHistory(
        self, request: pb.GetKeyHistoryRequest, context: grpc.ServicerContext
    ) -> pb.GetKeyHistoryResponse:
        with self.database.reading() as tx:
            return pb.GetKeyHistoryResponse(changes=all_changes(tx))


def _line(spend: Spend) -> pb.Spend:
    return pb.Spend(
        name=f"ledger/{spend.line}",
        dataset=spend.dataset,
        analyst=spend.analyst,
        resource=spend.resource,
        kind=spend.kind,
        price=price_message(spend.price),
        state=STATE[spend.state],
        create_time=timestamp(spend.created),
    )
