"""All that was released of some records before: answers of runs, and exact statistics of cards."""

import json
from collections.abc import Iterator
from functools import lru_cache

from sqlalchemy import Connection

from gencard.analysis.output_checks.populations import Rounded
from gencard.controller.cards.book import CardBook
from gencard.controller.jobs.tasks import Before, EndedQuestion
from gencard.controller.state import results
from gencard.controller.state.cards import names_of_measured, signed_card
from gencard.controller.state.results import RunRow, RunState, RunTier
from gencard.core.card.sums import Sum
from gencard.core.domain import Clique
from gencard.core.output_rules import OF_PRESENT
from gencard.wire.canonical import document_of
from gencard.wire.documents import Question, answer_of_document
from gencard.wire.dsse import ANSWER, DOCUMENT, opened, predicate_of


def released_before(
    tx: Connection, cards: CardBook, *, dataset: str, version: str, but: str = ""
) -> Before:
    """Return all statistics that were or may be released of the same records, to any analyst, each once.

    Args:
        but: Name of the judged run or card, which is left out.
    """
    answered, refused = dict[EndedQuestion, None](), dict[EndedQuestion, None]()
    for one in results.runs_of_dataset(tx, dataset):
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
    """Return the question of a run."""
    return _question_of(row.request)


@lru_cache(maxsize=1000)  # each run reads the questions of all earlier ones
def _question_of(request: bytes) -> Question:
    return DOCUMENT.read(Question, document_of(request, "question"), field="question")
