"""The agreed form of a card: written and read without loss, and refused where anything differs."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given

from gencard.core.card.budget import Neighbouring
from gencard.core.card.privacy import Gaussian
from gencard.core.errors import VerificationError
from gencard.core.policy import AnalysesPolicy
from gencard.wire.canonical import digest_of, document_of, json_bytes
from gencard.wire.documents import (
    Question,
    card_document,
    card_of_document,
    card_statement,
    json_of,
    privacy_document,
    privacy_of_document,
    terms_document,
    terms_of_document,
)
from gencard.wire.dsse import CARD as CARD_TYPE
from gencard.wire.dsse import predicate_of, subject_digest
from gencard.wire.steward import AnswerSummary
from tests.wire.samples import CARD, cards, proposals

GOLDEN = (
    '{"dataset":{'
    '"coding":{"sha256":"' + "bb" * 32 + '"},'
    '"declaredBy":"the survey\'s office",'
    '"title":"A survey",'
    '"version":{"sha256":"' + "aa" * 32 + '"}},'
    '"expires":"2027-02-18T18:00:00Z",'
    '"generator":{"code":{"sha256":"' + "cc" * 32 + '"},"name":"ipf","tier":"by-construction"},'
    '"name":"datasets/survey/cards/0a",'
    '"nonce":"' + "dd" * 16 + '",'
    '"offered":"2026-11-20T18:00:00Z",'
    '"parties":{'
    '"analyst":"spiffe://gencard.local/pilot/analyst/ana",'
    '"controller":"spiffe://gencard.local/service/controller/controller"},'
    '"price":{"epsilon":"0","rho":"0","statistics":"9"},'
    '"terms":{'
    '"audit":{"alpha":"0.05","order":"3","runs":"10"},'
    '"dataset":"datasets/survey",'
    '"generator":"ipf",'
    '"marginals":[["sex","health"],["age"]],'
    '"privacy":{"mechanism":"exact"},'
    '"purpose":"Health by sex",'
    '"rows":"1000"},'
    '"whySafe":"marginals of at most 2 attributes"}'
)


def test_golden_bytes():
    assert json_bytes(card_document(CARD)).decode() == GOLDEN


def test_the_statement_names_the_card_by_its_digest():
    statement = document_of(card_statement(CARD), "statement")
    assert statement == {
        "_type": "https://in-toto.io/Statement/v1",
        "predicate": json.loads(GOLDEN),
        "predicateType": "urn:gencard:card:v1",
        "subject": [
            {"digest": {"sha256": digest_of(json.loads(GOLDEN))}, "name": "datasets/survey/cards/0a"}
        ],
    }
    assert subject_digest(card_statement(CARD)) == digest_of(json.loads(GOLDEN))


@given(cards)
def test_what_is_written_is_read(card):
    payload = card_statement(card)
    again = card_of_document(predicate_of(payload, CARD_TYPE))
    assert again == card
    assert card_statement(again) == payload


@given(proposals)
def test_terms(proposal):
    assert terms_of_document(terms_document(proposal)) == proposal


def paths(value, path=()):
    """Every place inside a document."""
    yield path
    if isinstance(value, dict):
        for name, part in value.items():
            yield from paths(part, (*path, name))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from paths(part, (*path, index))


def replaced(path, value):
    """The golden document with another value at one place."""
    document = json.loads(GOLDEN)
    if not path:
        return value
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return document


@pytest.mark.parametrize(
    "path", list(paths(json.loads(GOLDEN))), ids=lambda path: ".".join(map(str, path))
)
def test_another_type_anywhere_is_refused(path):
    for value in (None, 5, 0.5, True, [], {}, [1], {"sha256": 1}):
        with pytest.raises(VerificationError, match="is not a card"):
            card_of_document(replaced(path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("terms", "rows"), "0"),
        (("terms", "rows"), "1e3"),
        (("terms", "rows"), "01000"),
        (("terms", "purpose"), " "),
        (("terms", "marginals"), [["sex", "sex"]]),
        (("terms", "marginals"), [["sex"], ["sex"]]),
        (("terms", "privacy"), {"mechanism": "laplace"}),
        (("terms", "privacy"), {"mechanism": "exact", "epsilon": "1"}),
        (("terms", "audit", "alpha"), "1.5"),
        (("generator", "tier"), "trusted"),
        (("price", "statistics"), "-1"),
        (("price", "epsilon"), "NaN"),
        (("price", "epsilon"), "0.0"),
        (("price", "rho"), ""),
        (("price", "extra"), "1"),
        (("expires",), "2027-02-18"),
        (("expires",), "2027-2-18T18:00:00Z"),
        (("offered",), "tomorrow"),
        (("extra",), "1"),
    ],
)
def test_what_the_core_refuses_or_does_not_know_is_refused(path, value):
    with pytest.raises(VerificationError, match="is not a card"):
        card_of_document(replaced(path, value))


@pytest.mark.parametrize("name", list(json.loads(GOLDEN)))
def test_a_missing_part_is_refused(name):
    document = json.loads(GOLDEN)
    del document[name]
    with pytest.raises(VerificationError, match="is not a card"):
        card_of_document(document)


def test_noise_is_written_out():
    privacy = Gaussian(Neighbouring.REPLACE_ONE, Decimal("0.50"))
    document = privacy_document(privacy)
    assert document == {"mechanism": "gaussian", "neighbouring": "replace-one", "rho": "0.5"}
    assert privacy_of_document(document) == privacy


def test_shells_print_fields_that_are_not_private():
    printed = json_of(AnalysesPolicy(stored=True, threshold=50))
    assert printed.keys().isdisjoint({"stored", "threshold", "rounding", "influence"})
    assert printed["checkedRuns"] == 0


def test_shells_print_inline_fields_beside_the_others():
    time = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    summary = AnswerSummary("answer", "ana", Question("linear", "y ~ x"), time)
    about = {"name": "answer", "analyst": "ana", "time": "2026-01-02T03:04:05Z"}
    question = {"kind": "linear", "formula": "y ~ x", "where": "", "missing": "level", "options": ""}
    assert json_of(summary) == about | question
    assert json_of(summary, "card", "time") == {"card": "answer", "time": about["time"]}
