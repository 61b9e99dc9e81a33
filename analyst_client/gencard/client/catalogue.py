"""Catalogue of the service: datasets with schemas and policies, generators, and the budget left."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import TypeVar

from gencard.client.common.display import Displayable, Entries, Facts, Listed, Part
from gencard.client.connection.connection import Connection, pages
from gencard.core import catalogue as core_catalogue
from gencard.core.card.budget import FREE, Price, Spend, counted
from gencard.core.card.privacy import CURRENCIES, noise_names
from gencard.core.card.terms import Proposal
from gencard.core.errors import ModelTooLargeError, NotFoundError, TooLargeError, advice_on
from gencard.core.json_codecs import written
from gencard.core.policy import NumbersOffer, Policy
from gencard.core.statistics.noise import USUAL_DELTA, in_words, together
from gencard.v1 import catalog_pb2 as pb
from gencard.v1 import ledger_pb2 as ledger
from gencard.wire.codec import prepare, value_of

_Sent = TypeVar("_Sent")

_MOST_LEVELS = 8
_HEADS = ("Attribute", "Type", "Levels", "Description")


@dataclass(frozen=True, slots=True, repr=False)
class ShownPolicy(Policy, Displayable):
    """A policy with its display in notebooks and terminals; it has no fields of its own."""

    def lines(self) -> Iterator[tuple[str, str]]:
        """The policy in names and values."""
        yield "Attributes in one marginal", f"at most {self.order_text}"
        yield "Cells in one marginal", f"at most {self.largest_marginal_cells:,}"
        yield "Marginals in one card", f"at most {self.most_marginals:,}"
        yield "Rows in one release", f"at most {self.most_rows:,}"
        yield "Forbidden combinations", "; ".join(" × ".join(clique) for clique in self.forbidden) or "—"
        yield "Generators", ", ".join(self.generators)
        yield "Mechanisms", ", ".join(self.mechanisms)
        if "exact" in self.mechanisms:
            yield "Exact counts", str(self.transform)
        if self.moments.kinds:
            yield "Moments", f"{', '.join(self.moments.kinds)}; up to order {self.moments.highest}"
        for title, offer in (("Histograms", self.histograms), ("Sums", self.sums)):
            if offer is not NumbersOffer.NEVER:
                how = "with noise" if offer is NumbersOffer.NOISE else "exact or with noise"
                yield title, f"of numbers with a step, {how}"
        if self.measures:
            yield "Evaluations", ", ".join(self.measures)
        if self.without_uniques:
            yield "Replicated uniques", "can be removed from a release"
        yield from self.analyses.most.about
        if self.analyses.checked_runs:
            steward = "a steward, after the output rules" if self.analyses.by_steward else "output rules"
            yield "Answers released by", steward
        if self.noise is not None:
            yield "Default noise", str(self.noise)
        yield "Price of one card", f"at most {self.most_per_card}"
        yield "Offers", "automatic" if self.automatic else "by a steward"
        if self.two_stewards:
            yield "Two stewards decide", ", ".join(self.two_stewards)
        yield "Cards valid for", f"{self.valid_days} days"

    def _panel(self) -> tuple[str, Sequence[Part]]:
        return "Policy", [Facts(self.lines())]

    def __repr__(self) -> str:
        return f"<Policy: {'; '.join(f'{name} {value}' for name, value in self.lines())}>"


_USUAL = ("ipf",)
_NO_POLICY = ShownPolicy(0, 0, 0, 0, generators=(), most_per_card=FREE)


@dataclass(frozen=True, slots=True, repr=False)
class CatalogueEntry(core_catalogue.CatalogueEntry, Displayable):
    """Public description of a dataset; see the core's class for its fields."""

    policy: ShownPolicy = field(default=_NO_POLICY, metadata=written(omit=True))

    @property
    def id(self) -> str:
        """The last part of the name, as ``propose`` takes it."""
        return self.name.removeprefix("datasets/")

    @property
    def records_text(self) -> str:
        """The number of records in words."""
        return "not declared" if self.records is None else f"{self.records:,}, as declared"

    def levels(self) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...], str]]:
        """Attribute; type, number of levels and rule of missing values; names of levels; description."""
        for one in self.attributes:
            names = one.attribute.coding.level_names
            missing = (f"missing: {one.missing}",) if one.missing else ()
            facts = (one.type, f"{len(names)} level{'' if len(names) == 1 else 's'}", *missing)
            more = ("…",) if len(names) > _MOST_LEVELS else ()
            yield one.name, facts, (*names[:_MOST_LEVELS], *more), one.attribute.description

    def lines(self) -> list[tuple[str, str]]:
        """Records, groups of labels and policy; for an entry of a list, how to read it."""
        facts = [("Records", self.records_text), ("Declared by", self.declared_by)]
        if not self.coding.attributes:
            return [*facts, ("Next", f'dataset("{self.id}") shows schema and policy')]
        if self.most_records:
            facts.append(("Records count", counted(self.most_records)))
        if self.not_declared:
            facts.append(("Not declared", self.not_declared))
        for one in self.attributes:
            if one.groups:
                groups = (f"{name}: {', '.join(labels)}" for name, labels in one.groups.items())
                facts.append((f"Groups of {one.name}", "; ".join(groups)))
        return [*facts, *self.policy.lines()]

    def _panel(self) -> tuple[str, Sequence[Part]]:
        levels = [Entries(_HEADS, self.levels())] if self.coding.attributes else []
        return self.title or self.id, [self.description, *levels, Facts(self.lines())]

    def __repr__(self) -> str:
        return f"<Dataset {self.id}: {self.title}>"


@dataclass(frozen=True, slots=True, repr=False)
class GeneratorEntry(core_catalogue.GeneratorEntry, Displayable):
    """A generator or a black box."""

    def lines(self) -> list[tuple[str, str]]:
        """The entry in names and values."""
        known = (
            ("Tier", str(self.tier)),
            ("Needs", self.needs),
            ("Claim", str(self.claim or "")),
            ("Largest model", f"{self.bound}: {self.most_cells:,}" if self.bound else ""),
            ("Parameters", ", ".join(f"{name} {value}" for name, value in self.parameters.items())),
            ("Reviewed by", self.reviewed_by),
            ("Code", self.digest),
        )
        return [line for line in known if line[1]]

    def _panel(self) -> tuple[str, Sequence[Part]]:
        return self.name, [self.description, Facts(self.lines())]

    def __repr__(self) -> str:
        return f"<Generator {self.name}: {self.tier}; {self.description}>"


prepare((CatalogueEntry, pb.Dataset), (GeneratorEntry, pb.Generator))


def list_datasets(connection: Connection) -> Listed[CatalogueEntry]:
    answers = pages(connection, connection.catalog.ListDatasets, pb.ListDatasetsRequest())
    entries = (value_of(CatalogueEntry, dataset) for page in answers for dataset in page.datasets)
    heads = ("Dataset", "Title", "Declared by")
    return Listed(entries, "Datasets", heads, lambda one: (one.id, one.title, one.declared_by))


def get_dataset(connection: Connection, name: str) -> CatalogueEntry:
    """One dataset; where there is none of this name, the error suggests one of those on offer."""
    request = pb.GetDatasetRequest(name=name)
    with _suggesting("dataset", name.removeprefix("datasets/"), lambda: list_datasets(connection)):
        message = connection.call(connection.catalog.GetDataset, request).dataset
        return _entry_of(message.SerializeToString())


@lru_cache(maxsize=16)
def _entry_of(body: bytes) -> CatalogueEntry:
    """The dataset of a message: most calls ask for one that was read before."""
    return value_of(CatalogueEntry, pb.Dataset.FromString(body))


AUTO = "auto"
"""Stands for the generator that the sizes of a proposal suit; no card names it."""


def suited_generators(
    connection: Connection, entry: CatalogueEntry, proposal: Proposal
) -> tuple[str, ...]:
    """Return the names of the policy's generators that ``auto`` may stand for, the most suitable first.

    Without any, the controller offers another one, or says why there is none.
    """
    from gencard.core.generators.registry import suited  # noqa: PLC0415 - loads all generators

    limits = [one.most_cells for one in list_generators(connection) if one.most_cells]
    if not proposal.cliques or not limits:
        return _USUAL
    names = suited(
        proposal.marginals,
        entry.coding.domain.covered_by(proposal.cliques),
        zeros=entry.coding.structural_zeros,
        max_cells=max(limits),
        moments=bool(proposal.moments),
    )
    return tuple(name for name in names if name in entry.policy.generators) or _USUAL


_NO_GENERATOR = (
    "No generator of the policy is large enough. Request fewer marginals, or attributes with fewer "
    "levels. Stewards set limits.model_cells."
)


def with_generator(
    connection: Connection, entry: CatalogueEntry, proposal: Proposal, send: Callable[[Proposal], _Sent]
) -> _Sent:
    """Send a proposal; in place of ``auto``, with the generators that suit, until one is taken.

    A proposal that is too large is refused before anything is stored or charged.
    """
    if proposal.generator != AUTO:
        return send(proposal)
    *others, last = suited_generators(connection, entry, proposal)
    for name in others:
        with suppress(TooLargeError):
            return send(replace(proposal, generator=name))
    try:
        return send(replace(proposal, generator=last))
    except ModelTooLargeError as error:
        raise ModelTooLargeError(**{**error.fields, "advice": _NO_GENERATOR}) from None


def suggesting_generators(connection: Connection, name: str) -> AbstractContextManager[None]:
    """Suggest a generator of the catalogue in the error of a call that knows none of this name."""
    return _suggesting("generator", name, lambda: list_generators(connection))


@contextmanager
def _suggesting(
    kind: str, name: str, listed: Callable[[], Iterable[CatalogueEntry | GeneratorEntry]]
) -> Iterator[None]:
    """Add to NotFoundError, where it is about this kind, what the caller may see of it."""
    try:
        yield
    except NotFoundError as error:
        if not error.fields.get("what", "").startswith(kind):
            raise
        names = [entry.name.removeprefix("datasets/") for entry in listed()]
        raise NotFoundError(**{**error.fields, "advice": advice_on(name, names)}) from None


def list_generators(connection: Connection) -> Listed[GeneratorEntry]:
    answers = pages(connection, connection.catalog.ListGenerators, pb.ListGeneratorsRequest())
    entries = (value_of(GeneratorEntry, entry) for page in answers for entry in page.generators)
    return Listed(
        entries,
        "Generators and black boxes",
        ("Generator", "Tier", "Needs or claim", "Description"),
        lambda one: (one.name, str(one.tier), one.needs or str(one.claim or "—"), one.description),
    )


@dataclass(frozen=True, slots=True, repr=False)
class Budget(Displayable):
    """The caller's budget on one dataset; ``spent`` includes what is reserved."""

    dataset: str
    cap: Price
    spent: Price

    def together(self, delta: Decimal = USUAL_DELTA) -> Decimal:
        """Total epsilon at ``delta`` of all noisy cards paid for."""
        return together([self.spent.epsilon], self.spent.rho, delta)

    def lines(self) -> list[tuple[str, str]]:
        """Spending and cap in each currency in use."""
        amounts = [("Exact statistics", Decimal(self.spent.statistics), Decimal(self.cap.statistics))]
        for currency in CURRENCIES:
            spent, cap = getattr(self.spent, currency), getattr(self.cap, currency)
            amounts.append((f"{currency} ({noise_names(currency)})", spent, cap))
        lines = [(name, f"{spent:,f} of {cap:,f}") for name, spent, cap in amounts if spent or cap]
        if self.spent.epsilon or self.spent.rho:
            lines.append(("Total of all noisy cards", in_words(self.together(), USUAL_DELTA)))
        return lines

    def __repr__(self) -> str:
        return f"<Budget on {self.dataset}: spent {self.spent}, cap {self.cap}>"

    def _panel(self) -> tuple[str, Sequence[Part]]:
        return f"Budget on {self.dataset}", [Facts(self.lines())]


def get_budget(connection: Connection, dataset: str) -> Budget:
    request = ledger.GetBudgetRequest(dataset=dataset)
    with _suggesting("dataset", dataset.removeprefix("datasets/"), lambda: list_datasets(connection)):
        answer = connection.call(connection.ledger.GetBudget, request)
    return Budget(dataset, value_of(Price, answer.cap), value_of(Price, answer.spent))


def list_spends(connection: Connection) -> Listed[Spend]:
    """Lines of the ledger, newest first."""
    answers = pages(connection, connection.ledger.ListSpends, ledger.ListSpendsRequest())
    return Listed(
        (value_of(Spend, line) for page in answers for line in page.spends),
        "Spending",
        ("Line", "For", "Price", "State", "Resource"),
        lambda one: (str(one.line), one.kind, str(one.price), str(one.state), one.resource),
    )
