"""What we spent, and what we may still spend."""

from dataclasses import dataclass

from rich.panel import Panel

from gencard.client import html, text
from gencard.client.connection import Connection
from gencard.client.paging import pages
from gencard.core.budget import Price, Spend, SpendState
from gencard.v1 import ledger_pb2 as pb
from gencard.wire.card_codec import datetime_of
from gencard.wire.identity import Identity
from gencard.wire.money import price_of

_STATE = {pb.Spend.State.Value(f"STATE_{state.name}"): state for state in SpendState}


@dataclass(frozen=True, slots=True)
class Budget:
    """The caller's budget on one dataset; ``spent`` includes what is reserved."""

    dataset: str
    cap: Price
    spent: Price

    def lines(self) -> list[tuple[str, str]]:
        return [("Spent", html.price_text(self.spent)), ("At most", html.price_text(self.cap))]

    def _repr_html_(self) -> str:
        return html.panel(f"Budget on {self.dataset}", html.facts(self.lines()))

    def __rich__(self) -> Panel:
        return text.panel(f"Budget on {self.dataset}", text.facts(self.lines()))


def get_budget(connection: Connection, dataset: str) -> Budget:
    found = connection.call(connection.ledger.GetBudget, pb.GetBudgetRequest(dataset=dataset))
    return Budget(dataset, price_of(found.cap), price_of(found.spent))


def list_spends(connection: Connection) -> list[Spend]:
    """Lines of the ledger, newest first."""
    found = pages(connection, connection.ledger.ListSpends, pb.ListSpendsRequest())
    return [_spend(line) for page in found for line in page.spends]


def _spend(message: pb.Spend) -> Spend:
    return Spend(
        line=int(message.name.removeprefix("ledger/")),
        dataset=message.dataset,
        project=Identity.of(message.analyst).project,
        analyst=message.analyst,
        resource=message.resource,
        kind=message.kind,
        price=price_of(message.price),
        state=_STATE[message.state],
        created=datetime_of(message.create_time),
    )
