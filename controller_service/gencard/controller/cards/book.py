"""Cards as the controller keeps them: read as of now, stepped, offered, saved with the log.

Then: all that was released of some records before, under any card; and the audits of cards.
"""

import json
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache, partial

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from gencard.analysis.output_checks.differencing import Rounded
from gencard.controller.boxes import Boxes, Facts, for_persons
from gencard.controller.cards.grants import Charge, Grants, charge, held_cards
from gencard.controller.jobs.tasks import Before, EndedQuestion
from gencard.controller.policy.judgement import ProposalLimits, check_readable, judge, relation_of
from gencard.controller.policy.statistics import price_of_named
from gencard.controller.records.catalogue import Catalogue, DatasetEntry, dataset_of
from gencard.controller.state import results
from gencard.controller.state.cards import (
    CardUsage,
    Quotas,
    as_of,
    card_usage,
    get_card,
    in_force,
    insert_card,
    names_of_measured,
    offer_of,
    signed_card,
    update_card,
)
from gencard.controller.state.database import Database
from gencard.controller.state.log import EventLog
from gencard.controller.state.results import AuditRow, RunRow, RunState, RunTier
from gencard.core.audit.report import EarlierTry, Verdict
from gencard.core.audit.wording import try_of_object
from gencard.core.card.card import (
    AUDITABLE,
    STEWARD,
    CardRecord,
    CardState,
    CounterOffer,
    Offer,
    Refusal,
    Step,
    Turn,
    changes_between,
)
from gencard.core.card.sums import Sum
from gencard.core.card.terms import AuditTerms, CardTerms, Proposal, Tier
from gencard.core.derived_cells import derived_in, impossible
from gencard.core.domain import Clique
from gencard.core.errors import (
    AuditRequiredError,
    CardStateError,
    DatasetChangedError,
    NotFoundError,
    ProposalRefusedError,
)
from gencard.core.policy import OF_PRESENT
from gencard.core.statistics.linear import statistics_of
from gencard.wire.canonical import digest_of, document_of, sha256, time_text
from gencard.wire.codec import card_bytes, card_of_bytes
from gencard.wire.documents import AuditedBox, Question, answer_of_document, card_document
from gencard.wire.dsse import ANSWER, CARD, DOCUMENT, opened, predicate_of, statement
from gencard.wire.keys import Identity, Role


@dataclass(frozen=True, slots=True)
class CardBook:
    """All cards. Every change of a card adds a step, a log entry and a new etag.

    Args:
        controller: The controller's own URI.
        on_end: Ends the work that waits under a card, by its name, in the transaction that ends the
            card.
    """

    database: Database
    log: EventLog
    catalogue: Catalogue
    limits: ProposalLimits
    quotas: Quotas
    facts: Facts
    controller: str
    signing_key: Callable[[Connection], Ed25519PrivateKey]
    clock: Callable[[], datetime]
    on_end: Callable[[Connection, str], None] = lambda _tx, _card: None

    def card(self, tx: Connection, name: str) -> CardRecord:
        return self.as_of_now(card_of_bytes(get_card(tx, name).body))

    def owned(self, tx: Connection, who: Identity, name: str) -> CardRecord:
        """Return the caller's own card; another analyst's card reads as one that does not exist."""
        card = self.card(tx, name)
        if card.analyst != who.uri:
            raise NotFoundError(what="card")
        return card

    def seen(self, tx: Connection, who: Identity, name: str) -> CardRecord:
        """Return a card that ``who`` may see: analysts see their own, auditors and stewards all."""
        return self.owned(tx, who, name) if who.role is Role.ANALYST else self.card(tx, name)

    def readable(self, tx: Connection, who: Identity, name: str, *, what: str = "card") -> CardRecord:
        """Return a card whose releases and measures ``who`` may fetch: one of their own, not revoked.

        ``what`` is the noun of the error: a thing of another analyst's card must read as one that does
        not exist.
        """
        try:
            card = self.seen(tx, who, name)
        except NotFoundError:
            raise NotFoundError(what=what) from None
        if card.state is CardState.REVOKED and who.role is Role.ANALYST:
            raise CardStateError(state=card.state)
        return card

    def usable(self, tx: Connection, who: Identity, name: str) -> CardRecord:
        return in_force(self.owned(tx, who, name))

    def entry_of(self, card: CardRecord) -> DatasetEntry:
        """Return the dataset of a card, read by the schema that both signed.

        Raises:
            DatasetChangedError: Its schema is another now, and the card's counts would be others.
        """
        dataset_entry = self.catalogue.named(dataset_of(card.name))
        if signed_card(card).coding_digest != dataset_entry.coding_digest:
            raise DatasetChangedError
        return dataset_entry

    def as_of_now(self, card: CardRecord) -> CardRecord:
        return as_of(card, self.clock())

    @property
    def grants(self) -> Grants:
        return Grants(self.clock)

    def judged(self, tx: Connection, dataset_entry: DatasetEntry, proposal: Proposal) -> CounterOffer:
        self.facts(proposal.generator)
        policy, domain, coding = dataset_entry.policy, dataset_entry.domain, dataset_entry.schema.coding
        ordered = proposal.in_order_of(domain)
        facts = for_persons(self.facts, policy.most_records)
        closed = self.grants.closed(tx, dataset_entry, relation_of(policy, facts))
        zeros = partial(impossible, coding)
        outcome = judge(
            ordered, policy, domain, self.limits, closed, zeros=zeros, facts=facts, coding=coding
        )
        if isinstance(outcome, Refusal):
            raise ProposalRefusedError(reasons=", ".join(outcome.reasons))
        if outcome.terms.where:  # each statistic must be restricted to that part of the records
            from gencard.analysis.formulas.model_matrix import read_condition  # noqa: PLC0415 - loads pandas

            terms = outcome.terms
            attributes, _ = read_condition(terms.where, coding)
            groups = [*terms.cliques, *(one.by for one in terms.sums), *(() for _ in terms.histograms)]
            if not all(set(attributes) <= set(clique) for clique in groups):
                raise ProposalRefusedError(reasons="STATISTIC_WITHOUT_THE_ATTRIBUTES_OF_WHERE")
        check_readable(outcome.terms, dataset_entry.schema.records, self.limits)
        statistics_of(outcome.terms.moments, coding)  # refuses labels that are no numbers
        return outcome

    def charge(
        self, tx: Connection, analyst: str, dataset_entry: DatasetEntry, terms: Proposal
    ) -> Charge:
        """Return the price of terms for an analyst, without statistics that the analyst holds."""
        held = held_cards(tx, analyst, dataset_entry)
        return charge(terms, dataset_entry.domain, held, dataset_entry.schema.coding)

    def offered(
        self,
        tx: Connection,
        card: CardRecord,
        dataset_entry: DatasetEntry,
        outcome: CounterOffer,
        actor: str = "",
    ) -> CardRecord:
        """Return the card with an offer on it, frozen as the statement that both will sign.

        ``actor`` is the URI of who offers; the controller by default.
        """
        now = self.clock()
        changes = changes_between(card.proposed, outcome.terms, outcome.changes, STEWARD)
        charged = self.charge(tx, card.analyst, dataset_entry, outcome.terms)
        outcome = replace(outcome, price=charged.price)
        expires = (now + timedelta(days=dataset_entry.policy.valid_days)).replace(microsecond=0)
        document = card_document(self._document(card, dataset_entry, outcome, now, expires))
        digest = digest_of(document)
        offer = Offer(
            terms=outcome.terms,
            changes=changes,
            price=outcome.price,
            statement=statement(CARD, card.name, document, digest),
            digest=digest,
            expire_time=expires,
            measures_price=price_of_named(dataset_entry, outcome.terms),
            analyses_price=outcome.terms.analyses.price,
            held_by=charged.held_by,
        )
        offered = replace(card, state=CardState.OFFERED, turn=Turn.ANALYST, offer=offer)
        return self.stepped(offered, actor or self.controller, "counter-offer" if changes else "offer")

    def _document(
        self,
        card: CardRecord,
        dataset_entry: DatasetEntry,
        outcome: CounterOffer,
        now: datetime,
        expires: datetime,
    ) -> CardTerms:
        facts = for_persons(self.facts, dataset_entry.policy.most_records)
        generator = facts(outcome.terms.generator)
        coding, policy = dataset_entry.schema.coding, dataset_entry.policy
        summary = policy.summary
        if generator.tier is Tier.PRIVATE:  # psi is not released at all
            summary = (
                "no psi; one fit with noise of the controller's own, at most "
                f"{policy.most_per_card} for a card"
            )
        return CardTerms(
            name=card.name,
            controller=self.controller,
            analyst=card.analyst,
            dataset_title=dataset_entry.schema.title,
            version=dataset_entry.version,
            coding_digest=dataset_entry.coding_digest,
            declared_by=dataset_entry.schema.declared_by,
            terms=outcome.terms,
            price=outcome.price,
            tier=generator.tier,
            generator_digest=generator.digest,
            agreed_by_policy=summary,
            offer_time=time_text(now),
            expire_time=time_text(expires),
            nonce=secrets.token_hex(16),
            parameters=generator.parameters,
            claim=generator.claim,
            reviewed_by=generator.reviewed_by if generator.tier is Tier.AUDITED else "",
            most_records=policy.most_records,
            derivations=derived_in(coding, coding.domain.covered_by(outcome.terms.cliques).attributes),
        )

    def stepped(self, card: CardRecord, actor: str, action: str, remark: str = "") -> CardRecord:
        """Return the card with one more step in its history, and a new etag."""
        step = Step(actor, action, remark, self.clock().replace(microsecond=0))
        return replace(card, history=(*card.history, step), etag=secrets.token_hex(16))

    def usage(self, tx: Connection, analyst: str, dataset_entry: DatasetEntry) -> CardUsage:
        """Return the share of the state's limits that an analyst's cards use."""
        since = self.clock() - timedelta(days=dataset_entry.policy.valid_days)
        return card_usage(tx, analyst, since)

    def open(self, tx: Connection, *steps: CardRecord) -> CardRecord:
        """Store a new card as its last step left it, once the log holds all of its steps."""
        card = self._write_down(tx, steps)
        insert_card(
            tx,
            card.name,
            dataset=dataset_of(card.name),
            analyst=card.analyst,
            state=card.state,
            body=card_bytes(card),
            etag=card.etag,
            now=self.clock(),
        )
        return card

    def move(self, tx: Connection, old: CardRecord, *steps: CardRecord) -> CardRecord:
        """Store a changed card as the last step left it, once the log holds all steps."""
        new = self._write_down(tx, steps)
        body, now = card_bytes(new), self.clock()
        update_card(tx, new.name, old_etag=old.etag, etag=new.etag, state=new.state, body=body, now=now)
        return new

    def end(
        self,
        tx: Connection,
        card: CardRecord,
        state: CardState,
        actor: str,
        action: str,
        *,
        remark: str = "",
    ) -> CardRecord:
        ended_card = replace(card, state=state, turn=Turn.NOBODY)
        moved_card = self.move(tx, card, self.stepped(ended_card, actor, action, remark))
        self.on_end(tx, card.name)
        return moved_card

    def attest(
        self, tx: Connection, card: CardRecord, state: CardState, action: str, *facts: bytes
    ) -> CardRecord:
        """Add signed facts of the controller to a card and move it on."""
        attested_card = replace(card, state=state, attestations=(*card.attestations, *facts))
        return self.move(tx, card, self.stepped(attested_card, self.controller, action))

    def note(
        self, tx: Connection, action: str, resource: str, details: Mapping[str, str], by: str = ""
    ) -> int:
        """Log an action, of the controller unless ``by`` names its actor; return the entry's index."""
        actor, now = by or self.controller, self.clock()
        entry = self.log.append(
            tx, action=action, actor=actor, resource=resource, details=details, now=now
        )
        return entry.index

    def _write_down(self, tx: Connection, steps: Sequence[CardRecord]) -> CardRecord:
        for card in steps:
            step, details = card.history[-1], {"state": str(card.state)}
            if card.offer is not None:
                details["card_digest"] = card.offer.digest
            self.note(tx, step.action, card.name, details, step.actor)
        return steps[-1]


# All that was released of some records before: answers of runs, and exact statistics of cards.


def released_before(
    tx: Connection, cards: CardBook, *, dataset: str, version: str, but: str = ""
) -> Before:
    """Return all statistics that were or may be released of the same records, to any analyst, each once.

    ``but`` is the name of the judged run or card, which is left out.
    """
    answered, refused = dict[EndedQuestion, None](), dict[EndedQuestion, None]()
    for one in results.find_runs(tx, dataset=dataset):
        if one.version == version and one.tier is RunTier.CHECKED and one.name != but:
            ended = one.state in (RunState.REFUSED, RunState.FAILED)
            (refused if ended else answered).update(dict.fromkeys(_populations(one)))
    exact, rounded = set[Clique](), set[Rounded]()
    histograms, sums = set[str](), set[Sum]()
    entry = cards.catalogue.named(dataset)
    for name in names_of_measured(tx, dataset) - {but}:
        signed = signed_card(cards.card(tx, name))
        terms = signed.terms
        if signed.version != version or terms.privacy.noisy:
            continue
        same = signed.coding_digest == entry.coding_digest
        cliques = terms.counted(entry.schema.coding) if same else terms.marginals
        if terms.transform.rounding <= 1:
            exact.update(cliques)
            histograms.update(terms.histograms if same else ())
            sums.update(terms.sums if same else ())
        else:
            rounded.update(Rounded(clique, terms.transform) for clique in cliques)
    return Before(
        tuple(answered),
        tuple(refused),
        tuple(sorted(exact)),
        tuple(sorted(rounded, key=str)),
        tuple(sorted(histograms)),
        tuple(sorted(sums, key=str)),
    )


def _populations(row: RunRow) -> Iterator[EndedQuestion]:
    """Yield the question of a run with the rules by which its condition chose records.

    The rules of a failed run are not known: it is counted under both.
    """
    question = question_of(row)
    rules = rules_of(row) if question.where else ""
    if rules not in OF_PRESENT:
        yield EndedQuestion(question)
    if rules in OF_PRESENT or (question.where and row.state is RunState.FAILED):
        yield EndedQuestion(question, rules or max(OF_PRESENT))


def rules_of(row: RunRow) -> str:
    """Return the version of the output rules under which a run ended or waits; empty if it did not."""
    if row.outcome is not None:
        return str(json.loads(row.outcome)["rules"])
    if row.envelope is None:
        return ""
    return answer_of_document(predicate_of(opened(row.envelope)[0], ANSWER)).rules


def question_of(row: RunRow) -> Question:
    return _question_of(row.request)


@lru_cache(maxsize=1000)  # each run reads the questions of all earlier ones
def _question_of(request: bytes) -> Question:
    return DOCUMENT.read(Question, document_of(request, "question"), field="question")


# Audits of cards whose generator is a black box: nothing is released before an audit passed.
#
# AGREED -> AUDITING -> AUDITED -> RELEASED        no evidence
#                    -> AUDIT_FAILED               evidence of leakage: nothing follows
#                    -> AGREED                     the audit ended without a verdict
#
# The family of a black box is its name and author on one dataset, and the same bytes under another
# name. An update of a library makes another digest and no other family, so evidence is kept; only a
# steward's decision, which the log shows, clears it (``stewards.effects``).
#
# An earlier audit is comparable if a leak that it found is a leak under the judged card, too: the
# earlier card released the same statistics or more. A box may rightly use statistics under a large Phi
# that would be a leak under a small one: evidence from a narrow card never counts against a wider card.


def covers(wide: Proposal, narrow: Proposal) -> bool:
    """Whether every statistic of one Phi follows from the other's."""
    marginals = [set(clique) for clique in wide.marginals]
    cliques = list(narrow.marginals)
    cliques += [moment.attributes for moment in narrow.moments if moment not in wide.moments]
    return all(any(set(clique) <= whole for whole in marginals) for clique in cliques)


@dataclass(frozen=True, slots=True)
class CardAudits:
    """Moves cards by the audits of their own generators, and says which audit speaks for a card."""

    cards: CardBook
    boxes: Boxes

    def earlier(self, tx: Connection, row: AuditRow, terms: Proposal) -> tuple[EarlierTry, ...]:
        """Return the comparable tries of an audit's family, in the order of their ends."""
        tries: list[EarlierTry] = []
        for other in results.audits_of_family(tx, row):
            if not other.report:
                continue
            theirs = offer_of(self.cards.card(tx, other.card)).terms
            # audits of the usual order count, even if a card asks for a higher order
            order = min(terms.audit.order, AuditTerms().order)
            if covers(theirs, terms) and theirs.audit.order >= order:
                same = other.box_digest == row.box_digest
                tries.append(try_of_object(json.loads(other.report), same_bytes=same))
        return tuple(tries)

    def is_known_leak(self, tx: Connection, row: AuditRow, terms: Proposal) -> bool:
        """Whether an audit's family was found to use more than a Phi that holds all of this one."""
        family = results.audits_of_family(tx, row)
        leaks = {other.card for other in family if other.verdict is Verdict.LEAKAGE}
        return any(covers(offer_of(self.cards.card(tx, card)).terms, terms) for card in leaks)

    def begin(self, tx: Connection, card: CardRecord, box: str) -> None:
        if box == offer_of(card).terms.generator:
            self.boxes.check_unchanged(signed_card(card))
            if is_audited(card) and card.state is CardState.AGREED:
                self.cards.attest(tx, card, CardState.AUDITING, "audit")

    def give_up(self, tx: Connection, name: str, running: Collection[str]) -> None:
        """Return a card to AGREED after an audit without a verdict, unless its box is still audited."""
        card = self.cards.card(tx, name)
        if card.state is CardState.AUDITING and offer_of(card).terms.generator not in running:
            self.cards.attest(tx, card, CardState.AGREED, "audit ended")

    def conclude(self, tx: Connection, row: AuditRow, verdict: Verdict, fact: bytes) -> None:
        """Attach the verdict on a card's own generator to the card; a card that ended stays as it is."""
        card = self.cards.card(tx, row.card)
        if card.state not in AUDITABLE or row.black_box != offer_of(card).terms.generator:
            return
        state = card.state
        if is_audited(card):
            if verdict is Verdict.LEAKAGE:
                state = CardState.AUDIT_FAILED
            elif state in (CardState.AGREED, CardState.AUDITING):
                state = CardState.AUDITED
        self.cards.attest(tx, card, state, "verdict", fact)

    def passed(self, tx: Connection, card: CardRecord) -> AuditedBox:
        """Return the passed audit of a card's black box, of the same records and digest.

        Raises:
            CardStateError, CardExpiredError: The card is not in force.
            GeneratorChangedError: The present black box is not the audited one.
            BoxNotReviewedError: The settings name no reviewer of the black box.
            AuditRequiredError: No audit passed, or the box or another version of it leaked in an audit.
        """
        signed = signed_card(in_force(card))
        self.boxes.check_unchanged(signed)
        self.boxes.check_reviewed(signed)
        row = results.passed_audit(tx, card.name, signed.generator_digest)
        if row is None or self.is_known_leak(tx, row, signed.terms):
            raise AuditRequiredError
        payload, _ = opened(row.attestation or b"")
        return AuditedBox(signed.generator_digest, sha256(payload))


def rows_of_run(rows: int) -> int:
    """Return the number of rows to request from a black box, in its audit and in its run alike.

    With another number in the audit, a box could tell an audit from a run.
    """
    return max(2, rows)


def is_audited(card: CardRecord) -> bool:
    """Whether the card's generator is a black box of an author, of which audits are asked."""
    return signed_card(card).tier is Tier.AUDITED


def is_private(card: CardRecord) -> bool:
    """Whether the card's generator adds the noise itself: it has no psi and no audit on the records."""
    return signed_card(card).tier is Tier.PRIVATE
