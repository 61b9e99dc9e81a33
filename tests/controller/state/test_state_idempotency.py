from concurrent.futures import ThreadPoolExecutor
from itertools import count
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select, update

from gencard.controller.state import tables
from gencard.controller.state.requests import Request
from gencard.core.card.budget import Price
from gencard.core.errors import BudgetExceededError, InvalidInputError, RequestIdReusedError
from gencard.wire.keys import Identity
from tests.controller.state.samples import ALL_OF_IT, ANA, BEN, NOW, ledger_of, reserve

ID = "0a2d9c86-2f4e-4c0b-9d0e-6a3f7f6b1c11"


def ask(tx, make, *, actor=ANA, method="ProposeCard", request_id=ID, digest="d1"):
    return Request(method, request_id, digest).once(tx, Identity.of(actor), NOW, make)


def spender(tx, ledger, numbers):
    """Work with an effect and an answer that would differ the second time."""

    def make() -> bytes:
        reserve(ledger, tx, Price(1))
        return b"answer %d" % next(numbers)

    return make


def test_s22_a_hundred_replays_have_one_effect_and_one_answer(database):
    ledger, numbers, answers = ledger_of(1000), count(), []
    for _ in range(100):
        with database.transaction() as tx:
            answers.append(ask(tx, spender(tx, ledger, numbers)))
    assert set(answers) == {b"answer 0"}
    with database.reading() as tx:
        assert ledger.spent(tx, ALL_OF_IT) == Price(1)


def test_s22_concurrent_duplicates_have_one_effect_and_one_answer(database):
    ledger, numbers = ledger_of(1000), count()

    def call(_: int) -> bytes:
        with database.transaction() as tx:
            return ask(tx, spender(tx, ledger, numbers))

    with ThreadPoolExecutor(16) as threads:
        assert set(threads.map(call, range(64))) == {b"answer 0"}
    with database.reading() as tx:
        assert ledger.spent(tx, ALL_OF_IT) == Price(1)


@pytest.mark.parametrize("answer", [b"", b"short", b"long " * 1_000, b"\x78\x9c like zlib"])
def test_answers_are_stored_packed_and_come_back_whole(database, answer):
    with database.transaction() as tx:
        assert ask(tx, lambda: answer) == answer
        assert ask(tx, lambda: b"another") == answer
        (stored,) = tx.execute(select(tables.answers.c.answer)).scalars()
    assert len(stored) < 100


def test_an_answer_that_was_stored_before_there_was_packing(database):
    with database.transaction() as tx:
        ask(tx, lambda: b"x")
        tx.execute(update(tables.answers).values(answer=b"\n\x05cards" * 100))
        assert ask(tx, lambda: b"another") == b"\n\x05cards" * 100


@pytest.mark.parametrize("other", [{"digest": "d2"}, {"method": "AcceptCard"}])
def test_s22_the_same_id_with_another_request_is_refused(database, other):
    with database.transaction() as tx:
        assert ask(tx, lambda: b"first") == b"first"
        with pytest.raises(RequestIdReusedError):
            ask(tx, lambda: b"second", **other)
        assert ask(tx, lambda: b"third") == b"first"


def test_s22_ids_of_different_people_do_not_meet(database):
    with database.transaction() as tx:
        assert ask(tx, lambda: b"ana's") == b"ana's"
        assert ask(tx, lambda: b"ben's", actor=BEN, digest="d2") == b"ben's"


def test_s22_upper_case_is_the_same_id(database):
    with database.transaction() as tx:
        assert ask(tx, lambda: b"first") == b"first"
        assert ask(tx, lambda: b"second", request_id=ID.upper()) == b"first"


def test_s22_a_request_that_failed_may_be_sent_again(database):
    ledger, numbers = ledger_of(1), count()
    with database.transaction() as tx:
        line = reserve(ledger, tx, Price(1))
        with pytest.raises(BudgetExceededError):
            ask(tx, spender(tx, ledger, numbers))
        ledger.void(tx, line, NOW)
        assert ask(tx, spender(tx, ledger, numbers)) == b"answer 0"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "x" * 36,
        "{" + ID + "}",
        "urn:uuid:" + ID,
        ID.replace("-", ""),
        str(UUID(int=7)),
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        ID + "\n",
        "'; DROP TABLE answers; --",
    ],
)
def test_s22_what_is_no_random_uuid_is_refused(database, text):
    with database.transaction() as tx, pytest.raises(InvalidInputError) as refused:
        ask(tx, lambda: b"", request_id=text)
    assert refused.value.fields["field"] == "request_id"


def test_s22_every_uuid4_is_taken(database):
    with database.transaction() as tx:
        for _ in range(20):
            assert ask(tx, lambda: b"yes", request_id=str(uuid4())) == b"yes"
