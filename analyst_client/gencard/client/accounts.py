"""What we spent, and what we may still spend."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from gencard.client.connection.connection import Connection, pages
from gencard.client.display import Displayable, Facts, Part
from gencard.core.card.budget import Price, Spend, SpendState
from gencard.core.noise.accounting import USUAL_DELTA, in_words, together
from gencard.v1 import ledger_pb2 as pb
from gencard.wire.codecs.card_codec import datetime_of
from gencard.wire.codecs.privacy_codec import price_of
from gencard.wire.signatures.identity import Identity

_STATE = {pb.Spend.State.Value(f"STATE_{state.name}"): state for state in SpendState}


@dataclass(frozen=True, slots=True)
class Budget(Displayable):
    """The caller's budget on one dataset; ``spent`` includes what is reserved."""

    dataset: str
    cap: Price
    spent: Price

    def together(self, delta: Decimal = USUAL_DELTA) -> Decimal:
        """An epsilon that holds, at ``delta``, for all noisy cards that were paid for."""
        return together([self.spent.epsilon], self.spent.rho, delta)

    def lines(self) -> list[tuple[str, str]]:
        """Spent and cap in each currency of which there is any."""
        lines = [
            (name, f"{spent:,f} of {cap:,f}")
            for name, spent, cap in (
                ("Exact statistics", Decimal(self.spent.statistics), Decimal(self.cap.statistics)),
                ("epsilon (Laplace)", self.spent.epsilon, self.cap.epsilon),
                ("rho (Gaussian)", self.spent.rho, self.cap.rho),
            )
            if spent or cap
        ]
        if self.spent.epsilon or self.spent.rho:
            lines.append(("All noise together", in_words(self.together(), USUAL_DELTA)))
        return lines

    def _panel(self) -> tuple[str, Sequence[Part]]:
        return f"Budget on {self.dataset}", [Facts(self.lines())]


def get_budget(connection: Connection, dataset: str) -> Budget:
    answer = connection.call(connection.ledger.GetBudget, pb.GetBudgetRequest(dataset=dataset))
    return Budget(dataset, price_of(answer.cap), price_of(answer.spent))


def list_spends(connection: Connection) -> list[Spend]:
    """Lines of the ledger, newest first."""
    answers = pages(connection, connection.ledger.ListSpends, pb.ListSpendsRequest())
    return [_spend(line) for page in answers for line in page.spends]


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
