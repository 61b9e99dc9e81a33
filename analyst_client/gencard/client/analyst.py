"""Where everything begins: a connection to a controller, as an analyst or an auditor."""

from functools import partial
from pathlib import Path
from typing import Self, Unpack
from uuid import uuid4

from gencard.client import catalogue
from gencard.client.card import Card
from gencard.client.catalogue import Budget, CatalogueEntry, GeneratorEntry
from gencard.client.checking.history import Checkpoint, LogWatch
from gencard.client.checking.signing import checked_answer
from gencard.client.connection.connection import Connection, pages
from gencard.client.connection.credentials import Credentials, address_in
from gencard.client.plan import Plan
from gencard.client.terms import Measured, proposed
from gencard.client.workload import Marginals
from gencard.core.card.budget import Price, Spend
from gencard.core.card.terms import USUAL_AUDIT, AuditTerms
from gencard.core.errors import InvalidInputError
from gencard.core.statistics.formula import Formula, analysis_of, sufficient_cliques
from gencard.v1 import negotiation_pb2 as pb
from gencard.wire.codecs.card_codec import card_of, terms_message
from gencard.wire.signatures.identity import Identity


class Analyst:
    """Somebody with a certificate, connected to a controller. Use it in a ``with`` block, or close it.

    The controller's names may be given short: ``census`` for ``datasets/census``.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.log = LogWatch(connection)

    @classmethod
    def connect(
        cls,
        address: str | None = None,
        *,
        folder: str | Path | None = None,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
        authority: str | Path | None = None,
        signing_key: str | Path | None = None,
        controller_key: str | Path | None = None,
        log_key: str | Path | None = None,
    ) -> Self:
        """Connect with the files of a connection folder, as ``gencard enrol`` makes it.

        Args:
            address: ``host:port``; from ``connection.toml`` in the folder where not given.
            folder: Where all files lie, under their usual names.
            certificate: Ours, where it lies elsewhere; the other files are looked for beside it.
            key: Its private key.
            authority: Certificate of the authority that both sides trust.
            signing_key: Our Ed25519 key, which signs cards.
            controller_key: The controller's public key, which signs cards and receipts; one that it had
                before will do, those after it are followed.
            log_key: The public key of the controller's log; as above.

        Raises:
            InvalidInputError: Neither folder nor certificate, or a file that cannot be used.
        """
        if certificate is None:
            if folder is None:
                raise InvalidInputError(
                    field="folder", problem="is required unless certificate is given"
                )
            certificate = Path(folder) / "certificate.pem"
        credentials = Credentials.beside(
            Path(certificate),
            key=_path(key),
            authority=_path(authority),
            signing_key=_path(signing_key),
            controller_key=_path(controller_key),
            log_key=_path(log_key),
        )
        return cls(Connection(address or address_in(credentials.folder), credentials))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Analyst {self.identity.uri} at {self._connection.address}>"

    @property
    def identity(self) -> Identity:
        """Who our certificate says we are."""
        return self._connection.credentials.identity()

    def datasets(self) -> list[CatalogueEntry]:
        """All datasets, without attributes and policy."""
        return catalogue.list_datasets(self._connection)

    def dataset(self, name: str) -> CatalogueEntry:
        """One dataset with its public schema and policy; raises NotFoundError."""
        return catalogue.get_dataset(self._connection, _dataset(name))

    def generators(self) -> list[GeneratorEntry]:
        """Generators and black boxes."""
        return catalogue.list_generators(self._connection)

    def propose(
        self,
        dataset: str,
        marginals: Marginals,
        *,
        purpose: str,
        generator: str = "ipf",
        rows: int | None = None,
        audit: AuditTerms = USUAL_AUDIT,
        dry_run: bool = False,
        **measured: Unpack[Measured],
    ) -> Card:
        """Propose a card; the answer is an offer, or the card waits for a steward.

        Args:
            dataset: Its name.
            marginals: Cliques of attribute names, or ``all_marginals(order=2)``; among the cliques
                moments too, such as ``mean("age")``.
            purpose: What the data are wanted for, in a sentence.
            generator: Its name in the catalogue.
            rows: At most so many in one release; as many as the policy allows where not given.
            audit: How audits under the card are run.
            dry_run: Only price and judge; nothing is stored, no record is touched.
            measured: How: ``epsilon`` or ``rho``, ``neighbouring``, ``weights``; see ``Measured``.

        Raises:
            InvalidInputError, TooLargeError: What is wrong with the proposal.
            ProposalRefusedError: The policy has nothing near to offer.
        """
        proposal = proposed(
            self.dataset(dataset),
            marginals,
            measured,
            purpose=purpose,
            generator=generator,
            rows=rows,
            audit=audit,
        )
        request = pb.ProposeCardRequest(
            terms=terms_message(proposal),
            request_id=str(uuid4()),
            validate_only=dry_run,
        )
        answer = self._connection.call(self._connection.negotiation.ProposeCard, request)
        return Card(self._connection, checked_answer(card_of(answer.card), proposal))

    def price(self, dataset: str, marginals: Marginals, **measured: Unpack[Measured]) -> Price:
        """What the nearest acceptable card would cost; nothing is stored.

        Measures that it names are paid for when they are taken: see ``measures_price``.
        """
        return self.propose(dataset, marginals, purpose="price", dry_run=True, **measured).price

    def measures_price(self, dataset: str, marginals: Marginals, **measured: Unpack[Measured]) -> Price:
        """What the measures that such a card names would cost, once; nothing is stored."""
        card = self.propose(dataset, marginals, purpose="price", dry_run=True, **measured)
        return card.measures_price

    def plan(
        self,
        dataset: str,
        formula: str,
        *,
        kind: str = "logistic",
        generator: str = "ipf",
        rows: int | None = None,
        **measured: Unpack[Measured],
    ) -> Plan:
        """The smallest Phi that determines an analysis, and what it would cost; nothing is stored.

        Args:
            dataset: Its name.
            formula: Such as ``grade ~ group + birth * family``; names with spaces go into backticks.
            kind: "logistic", "multinomial", "linear" or "crosstab".
            generator: Its name in the catalogue.
            rows: At most so many in one release; as many as the policy allows where not given.
            measured: How the marginals are; see ``Measured``.

        Raises:
            InvalidFormulaError, InvalidInputError, UnknownAttributeError, TooLargeError: What is wrong
                with the formula, or with what it needs.
            ProposalRefusedError: The policy has nothing near to offer.
        """
        analysis, parsed, entry = analysis_of(kind), Formula.of(formula), self.dataset(dataset)
        cliques = sufficient_cliques(parsed, analysis, entry.coding.domain)
        ask = partial(self.propose, entry.name, cliques, generator=generator, rows=rows, **measured)
        return Plan(parsed, analysis, cliques, entry.coding, ask(purpose="plan", dry_run=True), ask)

    def card(self, name: str) -> Card:
        """One card; raises NotFoundError."""
        request = pb.GetCardRequest(name=name)
        answer = self._connection.call(self._connection.negotiation.GetCard, request)
        return Card(self._connection, card_of(answer.card))

    def cards(self, dataset: str = "-") -> list[Card]:
        """Our cards (an auditor or steward: everybody's), newest first."""
        request = pb.ListCardsRequest(parent=_dataset(dataset))
        return [
            Card(self._connection, card_of(card))
            for page in pages(self._connection, self._connection.negotiation.ListCards, request)
            for card in page.cards
        ]

    def spends(self) -> list[Spend]:
        """Our lines of the ledger, newest first."""
        return catalogue.list_spends(self._connection)

    def budget(self, dataset: str) -> Budget:
        """What we may spend on a dataset, and what we spent."""
        return catalogue.get_budget(self._connection, _dataset(dataset))

    def checkpoint(self) -> Checkpoint:
        """The newest signed state of the controller's log, proved to continue what we saw before."""
        return self.log.checkpoint()


def _dataset(name: str) -> str:
    return name if name.startswith("datasets/") else f"datasets/{name}"


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)
