"""What there is to choose from: datasets with schemas and policies, generators, and the budget left."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from gencard.client.connection.connection import Connection, pages
from gencard.client.display import Displayable, Facts, Grid, Listed, Part
from gencard.core import catalogue as core_catalogue
from gencard.core.card.analyses import NO_ANALYSES, Analyses
from gencard.core.card.budget import Price, Spend, counted
from gencard.core.card.mechanism import Privacy, Transform
from gencard.core.card.noise import CURRENCIES, NOISES, Mechanism
from gencard.core.catalogue import DeclaredAttribute
from gencard.core.coding import Coding, StructuralZeros
from gencard.core.domain import Clique
from gencard.core.errors import NotFoundError, advice_on
from gencard.core.moment import MomentKind
from gencard.core.noise import USUAL_DELTA, in_words, together
from gencard.v1 import catalog_pb2 as pb
from gencard.v1 import ledger_pb2 as ledger
from gencard.wire.codec import privacy_of, value_of

_HEADS = ("Attribute", "Type", "Levels", "", "Missing", "Description")


@dataclass(frozen=True, slots=True, repr=False)
class Policy(Displayable):
    """Limits of proposals on a dataset; independent of the records."""

    largest_order: int
    largest_marginal_cells: int
    most_marginals: int
    most_rows: int
    forbidden: tuple[Clique, ...]
    generators: tuple[str, ...]
    mechanisms: tuple[Mechanism, ...]
    noise: Privacy | None
    transform: Transform
    most_per_card: Price
    automatic: bool
    valid: timedelta
    moments: tuple[MomentKind, ...] = ()
    highest_moment: int = 2
    measures: tuple[str, ...] = ()
    without_uniques: bool = False
    analyses: Analyses = NO_ANALYSES
    steward_releases: bool = False
    two_stewards: tuple[str, ...] = ()

    def lines(self) -> Iterator[tuple[str, str]]:
        """The policy in names and values."""
        yield "Attributes in one marginal", f"at most {self.largest_order}"
        yield "Cells in one marginal", f"at most {self.largest_marginal_cells:,}"
        yield "Marginals in one card", f"at most {self.most_marginals:,}"
        yield "Rows in one release", f"at most {self.most_rows:,}"
        yield "Forbidden combinations", "; ".join(" × ".join(clique) for clique in self.forbidden) or "—"
        yield "Generators", ", ".join(self.generators)
        yield "Mechanisms", ", ".join(self.mechanisms)
        if "exact" in self.mechanisms:
            yield "Exact counts", str(self.transform)
        if self.moments:
            yield "Moments", f"{', '.join(self.moments)}; up to order {self.highest_moment}"
        if self.measures:
            yield "Evaluations", ", ".join(self.measures)
        if self.without_uniques:
            yield "Replicated uniques", "can be removed from a release"
        yield from self.analyses.about
        if self.analyses.checked_runs:
            steward = "a steward, after the output rules" if self.steward_releases else "output rules"
            yield "Answers released by", steward
        if self.noise is not None:
            yield "Default noise", str(self.noise)
        yield "Price of one card", f"at most {self.most_per_card}"
        yield "Offers", "automatic" if self.automatic else "by a steward"
        if self.two_stewards:
            yield "Two stewards decide", ", ".join(self.two_stewards)
        yield "Cards valid for", f"{self.valid.days} days"

    def _panel(self) -> tuple[str, Sequence[Part]]:
        return "Policy", [Facts(self.lines())]

    def __repr__(self) -> str:
        return f"<Policy: {'; '.join(f'{name} {value}' for name, value in self.lines())}>"


@dataclass(frozen=True, slots=True, repr=False)
class CatalogueEntry(Displayable):
    """Public description of a dataset. Entries of a list lack attributes and policy.

    Args:
        records: How many there are, as the steward declares it; None where it is not declared.
        most_records: Of one person that count; 0 where each record stands for itself.
        attributes: How values become levels, as declared.
    """

    name: str
    title: str
    description: str
    declared_by: str
    version: str
    coding: Coding
    policy: Policy
    records: int | None = None
    most_records: int = 0
    attributes: tuple[DeclaredAttribute, ...] = ()

    @property
    def id(self) -> str:
        """The last part of the name, as ``propose`` takes it."""
        return self.name.removeprefix("datasets/")

    @property
    def records_text(self) -> str:
        """The number of records in words."""
        return "not declared" if self.records is None else f"{self.records:,}, as declared"

    def levels(self) -> Iterator[tuple[str, ...]]:
        """Attribute, type, number of levels, their names, rule of missing values, description."""
        for one in self.attributes:
            names = one.attribute.coding.level_names
            names_text = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
            number = str(len(names))
            yield one.name, one.type, number, names_text, one.missing, one.attribute.description

    def lines(self) -> list[tuple[str, str]]:
        """Records, groups of labels and policy; for an entry of a list, how to read it."""
        facts = [("Records", self.records_text), ("Declared by", self.declared_by)]
        if not self.coding.attributes:
            return [*facts, ("Next", f'dataset("{self.id}") shows schema and policy')]
        if self.most_records:
            facts.append(("Records count", counted(self.most_records)))
        groups = [(f"Groups of {one.name}", one.groups_text) for one in self.attributes if one.groups]
        return [*facts, *groups, *self.policy.lines()]

    def _panel(self) -> tuple[str, Sequence[Part]]:
        levels = [Grid(_HEADS, self.levels())] if self.coding.attributes else []
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


def list_datasets(connection: Connection) -> Listed[CatalogueEntry]:
    answers = pages(connection, connection.catalog.ListDatasets, pb.ListDatasetsRequest())
    entries = (_entry(dataset) for page in answers for dataset in page.datasets)
    heads = ("Dataset", "Title", "Declared by")
    return Listed(entries, "Datasets", heads, lambda one: (one.id, one.title, one.declared_by))


def get_dataset(connection: Connection, name: str) -> CatalogueEntry:
    """One dataset; where there is none of this name, the error suggests one of those on offer."""
    request = pb.GetDatasetRequest(name=name)
    with _suggesting("dataset", name.removeprefix("datasets/"), lambda: list_datasets(connection)):
        return _entry(connection.call(connection.catalog.GetDataset, request).dataset)


def suggesting_generators(connection: Connection, name: str) -> AbstractContextManager[None]:
    """Where a call finds no generator of this name, the error suggests one of the catalogue."""
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
    heads = ("Generator", "Tier", "Needs or claim", "Description")
    return Listed(entries, "Generators and black boxes", heads, _generator_line)


def _generator_line(entry: GeneratorEntry) -> tuple[str, str, str, str]:
    return entry.name, str(entry.tier), entry.needs or str(entry.claim or "—"), entry.description


def _entry(message: pb.Dataset) -> CatalogueEntry:
    attributes = tuple(value_of(DeclaredAttribute, one) for one in message.attributes)
    return CatalogueEntry(
        name=message.name,
        title=message.title,
        description=message.description,
        declared_by=message.declared_by,
        version=message.version,
        coding=Coding(
            tuple(one.attribute for one in attributes),
            tuple(value_of(StructuralZeros, one) for one in message.structural_zeros),
        ),
        policy=_policy(message.policy),
        records=message.records if message.HasField("records") else None,
        most_records=message.most_records,
        attributes=attributes,
    )


def _policy(message: pb.Policy) -> Policy:
    return Policy(
        largest_order=message.largest_order,
        largest_marginal_cells=message.largest_marginal_cells,
        most_marginals=message.most_marginals,
        most_rows=message.most_rows,
        forbidden=tuple(tuple(clique.attributes) for clique in message.forbidden),
        generators=tuple(message.generators),
        mechanisms=tuple(list(Mechanism)[number - 1] for number in message.mechanisms),
        moments=tuple(list(MomentKind)[number - 1] for number in message.moments),
        highest_moment=message.highest_moment,
        measures=tuple(message.measures),
        without_uniques=message.without_uniques,
        analyses=value_of(Analyses, message.analyses),
        steward_releases=message.steward_releases,
        two_stewards=tuple(message.two_stewards),
        noise=privacy_of(message.noise) if message.HasField("noise") else None,
        transform=value_of(Transform, message.transform),
        most_per_card=value_of(Price, message.most_per_card),
        automatic=message.automatic,
        valid=timedelta(seconds=message.valid_seconds),
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
        lines = [
            (name, f"{spent:,f} of {cap:,f}")
            for name, spent, cap in (
                ("Exact statistics", Decimal(self.spent.statistics), Decimal(self.cap.statistics)),
                *(
                    (_label(currency), getattr(self.spent, currency), getattr(self.cap, currency))
                    for currency in CURRENCIES
                ),
            )
            if spent or cap
        ]
        if self.spent.epsilon or self.spent.rho:
            lines.append(("Total of all noisy cards", in_words(self.together(), USUAL_DELTA)))
        return lines

    def __repr__(self) -> str:
        return f"<Budget on {self.dataset}: spent {self.spent}, cap {self.cap}>"

    def _panel(self) -> tuple[str, Sequence[Part]]:
        return f"Budget on {self.dataset}", [Facts(self.lines())]


def _label(currency: str) -> str:
    names = [noise.__name__ for noise in NOISES if noise.currency == currency]
    return f"{currency} ({', '.join(names)})"


def get_budget(connection: Connection, dataset: str) -> Budget:
    request = ledger.GetBudgetRequest(dataset=dataset)
    with _suggesting("dataset", dataset.removeprefix("datasets/"), lambda: list_datasets(connection)):
        answer = connection.call(connection.ledger.GetBudget, request)
    return Budget(dataset, value_of(Price, answer.cap), value_of(Price, answer.spent))


def list_spends(connection: Connection) -> Listed[Spend]:
    """Lines of the ledger, newest first."""
    answers = pages(connection, connection.ledger.ListSpends, ledger.ListSpendsRequest())
    spends = (value_of(Spend, line) for page in answers for line in page.spends)
    return Listed(spends, "Spending", ("Line", "For", "Price", "State", "Resource"), _spend_line)


def _spend_line(spend: Spend) -> tuple[str, str, str, str, str]:
    return str(spend.line), spend.kind, str(spend.price), str(spend.state), spend.resource
