"""A black box that runs at the controller, on datasets that we make up here."""

from collections.abc import Iterator
from uuid import uuid4

import grpc

from gencard.client.connection.bounds import rows_asked
from gencard.client.connection.connection import Connection
from gencard.core.dataset import Dataset
from gencard.core.errors import VerificationError
from gencard.v1 import audit_pb2 as pb
from gencard.v1 import common_pb2 as common
from gencard.wire.codecs.error_table import error_of_call
from gencard.wire.codecs.table_codec import dataset_of_chunks, table_chunks

_RUN_SECONDS = 300.0


class RemoteBox:
    """Sends a dataset, gets back what the box makes of it. No record is near.

    Args:
        card: datasets/{dataset}/cards/{card}; gives Phi and the domain.
        black_box: Its name in the catalogue; empty for the card's own generator.
    """

    def __init__(self, connection: Connection, card: str, black_box: str = "") -> None:
        self._connection = connection
        self._card = card
        self._black_box = black_box

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        """Have it run once.

        Raises:
            InvalidNumberError: So many rows cannot be asked for.
            DomainMismatchError, VerificationError: The answer is not what was asked for.
        """
        start = pb.RunBlackBoxStart(
            card=self._card,
            black_box=self._black_box,
            rows=rows_asked(rows),
            seed=seed,
            request_id=str(uuid4()),
        )
        answers = self._answers(start, dataset)
        output = dataset_of_chunks(answers, domain=dataset.domain, most_rows=rows)
        if len(output) != rows:
            raise VerificationError(problem="the black box returned a different number of rows")
        return output

    def _answers(self, start: pb.RunBlackBoxStart, dataset: Dataset) -> Iterator[common.TableChunk]:
        method = self._connection.audit.RunBlackBox
        try:
            for part in method(_requests(start, dataset), timeout=_RUN_SECONDS):
                yield part.chunk
        except grpc.RpcError as failed:
            raise error_of_call(failed) from None


def _requests(start: pb.RunBlackBoxStart, dataset: Dataset) -> Iterator[pb.RunBlackBoxRequest]:
    yield pb.RunBlackBoxRequest(start=start)
    for chunk in table_chunks(dataset):
        yield pb.RunBlackBoxRequest(chunk=chunk)
