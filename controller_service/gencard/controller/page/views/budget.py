"""The view of budgets: every account as a gauge and over time, and the lines that it was spent on."""

from dataclasses import dataclass
from decimal import Decimal

from starlette.requests import Request

from gencard.controller.page.charts import Gauge, SpendingCurve, curve, gauge, in_words, number
from gencard.controller.page.views import Context, FormAction, View
from gencard.controller.records.catalogue import PREFIX
from gencard.controller.state.ledger import Account, Scope
from gencard.controller.stewards.budget import Course, amounts, courses
from gencard.controller.stewards.desk import Desk
from gencard.controller.stewards.registers import LINE
from gencard.core.errors import NotFoundError
from gencard.wire.keys import Identity

_TITLES = {Scope.DATASET: "All together", Scope.PROJECT: "Projects", Scope.ANALYST: "Analysts"}
_LINES = 50


@dataclass(frozen=True, slots=True)
class Shown:
    """One currency of one account, formatted for the page.

    Args:
        holder, project: Names of analyst and project of the account; empty for the whole dataset.
    """

    holder: str
    project: str
    course: Course
    gauge: Gauge
    curve: SpendingCurve | None
    forecast: str

    @property
    def spent(self) -> str:
        return number(self.course.amount.spent)

    @property
    def reserved(self) -> str:
        return number(self.course.amount.reserved) if self.course.amount.reserved else ""

    @property
    def cap(self) -> str:
        """Text of the cap; empty without a cap."""
        return "" if self.course.amount.cap is None else number(self.course.amount.cap)

    @property
    def left(self) -> str:
        """Rest of the budget; empty without a cap."""
        amount = self.course.amount
        return "" if amount.cap is None else number(max(amount.cap - amount.spent, Decimal(0)))


def _budget(request: Request, desk: Desk, who: Identity) -> Context:
    archive = desk.archive(who)
    dataset = request.path_params.get("name") or next(iter(archive.datasets), "")
    if dataset not in archive.datasets:
        raise NotFoundError(what=f"dataset '{dataset.removeprefix(PREFIX)}'")
    accounts, now = desk.accounts(who, dataset), desk.clock()
    days = archive.days(dataset)
    gauges: dict[Scope, list[Shown]] = {scope: [] for scope in Scope}
    for one in accounts:
        spending = days.get(Account(Scope(one.scope), dataset, one.holder), {})
        course = courses(amounts(one.spent, one.reserved, one.cap), spending, now)
        *path, holder = one.holder.split("/")
        project = path[-2] if one.scope == Scope.ANALYST and len(path) > 1 else ""
        for currency in course:
            bar = gauge(currency.amount, holder or "all together")
            line, forecast = curve(currency, now), in_words(currency)
            gauges[Scope(one.scope)].append(Shown(holder, project, currency, bar, line, forecast))
    page = desk.lines(who, dataset, _LINES, request.query_params.get("before", ""))
    return {
        "firsts": [one for one in desk.first_decisions(who) if one.resource.startswith(LINE)],
        "datasets": archive.datasets,
        "dataset": dataset,
        "whole": gauges[Scope.DATASET],
        "holders": [(_TITLES[scope], gauges[scope]) for scope in (Scope.PROJECT, Scope.ANALYST)],
        "lines": page,
        "card_of": card_of,
    }


def card_of(resource: str) -> str:
    """Return the card that a resource belongs to; empty if there is none.

    >>> card_of("datasets/fair/cards/c1/audits/a1")
    'datasets/fair/cards/c1'
    """
    parts = resource.split("/")
    return "/".join(parts[:4]) if len(parts) >= 4 and parts[2] == "cards" else ""


VIEWS = (
    View("/budget", "budget.html", _budget, "Budget", label="Budget", key="b"),
    View("/budget/{name:path}", "budget.html", _budget, "Budget", under="/budget"),
)
CHANGES: tuple[FormAction, ...] = ()
