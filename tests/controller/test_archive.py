"""Views of permanent entries for stewards: spending, the log, releases and audits."""

from dataclasses import replace
from datetime import date, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gencard.controller.state.database import Database
from gencard.controller.state.ledger import Account, Scope
from gencard.controller.state.log import EventLog
from gencard.controller.stewards.archive import (
    LogQuery,
    amounts,
    courses,
    days_of,
    proven,
    search,
    steps,
)
from gencard.core.card.budget import FREE, Price
from gencard.core.errors import InvalidInputError
from gencard.wire.keys import LOG, KeyHistory
from tests.controller.state.samples import ALL_OF_IT, ANA, BEN, CARD, DATASET, NOW, ledger_of, reserve

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture
def database(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/state.sqlite")
    database.migrate()
    yield database
    database.close()


def spent_daily(days, each=10, cap=100):
    """One currency that was spent evenly, the last day today."""
    today = NOW.date()
    spending = {today - timedelta(days=back): Price(each) for back in range(days)}
    return courses(amounts(Price(each * days), FREE, Price(cap)), spending, NOW)[0]


class TestForecast:
    def test_an_even_rate_reaches_the_cap_when_the_rest_is_spent(self):
        course = spent_daily(5)
        assert course.forecast.daily == 10
        assert course.forecast.ends == NOW + timedelta(days=5)

    def test_a_rate_is_that_of_four_weeks_however_long_the_past(self):
        days = {date(2025, 1, 1): Price(5_000), NOW.date(): Price(28)}
        (course,) = courses(amounts(Price(5_028), FREE, Price(6_000)), days, NOW)
        assert course.forecast.daily == 1

    def test_nothing_is_forecast_from_nothing(self):
        days = {NOW.date() - timedelta(days=28): Price(5)}
        (course,) = courses(amounts(Price(5), FREE, Price(6)), days, NOW)
        assert course.forecast is None

    def test_the_first_days_of_spending_have_no_rate(self):
        """A card of 410 statistics on the first morning is not 410 a day."""
        assert [spent_daily(days, each=410).forecast is None for days in (1, 2, 3)] == [
            True,
            True,
            False,
        ]
        assert [spent_daily(days).young for days in (0, 1, 2, 3)] == [False, True, True, False]

    def test_a_cap_far_away_has_no_date_and_one_overrun_has_today(self):
        assert spent_daily(3, each=1, cap=10**9).forecast.ends is None
        assert spent_daily(20, cap=100).forecast.ends == NOW


def test_days_are_those_of_each_account_without_what_was_voided(database):
    ledger = ledger_of(100)
    with database.transaction() as tx:
        ledger.settle(tx, reserve(ledger, tx, Price(7)), NOW)
        reserve(ledger, tx, Price(4), analyst=BEN)
        ledger.void(tx, reserve(ledger, tx, Price(50)), NOW)
    with database.reading() as tx:
        days = days_of(tx, DATASET)
    assert days[ALL_OF_IT] == {NOW.date(): Price(11)}
    assert days[Account(Scope.ANALYST, DATASET, ANA)] == {NOW.date(): Price(7)}


@pytest.fixture
def log(database):
    log = EventLog(lambda _tx: KEY)
    for number in range(40):
        actor, action = (ANA, "propose") if number % 4 else (BEN, "approve")
        with database.transaction() as tx:
            log.append(
                tx,
                action=action,
                actor=actor,
                resource=CARD,
                details={"remark": f"Remark {number}"},
                now=NOW + timedelta(days=number),
            )
    return log


class TestSearch:
    @pytest.mark.parametrize(
        ("text", "indices"),
        [
            ("approve since:2026-12-20", [36, 32]),
            ("who:ben until:2026-11-24", [4, 0]),
            ("REMARK 17", [17]),
            ("action:approve ana", []),
            ("until:2026-11-20", [0]),
        ],
    )
    def test_words_and_fields_must_all_be_there(self, database, log, text, indices):
        with database.reading() as tx:
            assert [event.index for event in search(tx, LogQuery.of(text)).rows] == indices

    def test_pages_follow_one_another_without_gap(self, database, log):
        indices, token = [], ""
        with database.reading() as tx:
            for _ in range(10):
                page = search(tx, LogQuery.of("approve"), token, limit=3)
                indices += [event.index for event in page.rows]
                token = page.next_token
                if not token:
                    break
        assert indices == list(range(36, -1, -4))

    @pytest.mark.parametrize("text", ["since:yesterday", "until:2026-13-01", "x" * 201])
    def test_what_cannot_be_read_is_refused(self, text):
        with pytest.raises(InvalidInputError):
            LogQuery.of(text)

    def test_a_foreign_token_is_refused(self, database, log):
        with database.reading() as tx, pytest.raises(InvalidInputError):
            search(tx, LogQuery(), "../1")


class TestProof:
    @pytest.mark.parametrize("index", [0, 17, 39])
    def test_every_entry_is_proven_in_steps(self, database, log, index):
        with database.transaction() as tx:
            proof = proven(tx, log, index, NOW)
        checked = steps(proof, KeyHistory(KEY.public_key(), LOG))
        assert [step.holds for step in checked] == [True] * (3 if index == 39 else 4)

    def test_a_changed_byte_and_a_foreign_key_are_seen(self, database, log):
        with database.transaction() as tx:
            proof, other = proven(tx, log, 5, NOW), proven(tx, log, 6, NOW)
        keys = KeyHistory(KEY.public_key(), LOG)
        forged = replace(proof, entry=replace(proof.entry, body=other.entry.body))
        assert [step.holds for step in steps(forged, keys)] == [False, False, True, False]
        stranger = KeyHistory(Ed25519PrivateKey.generate().public_key(), LOG)
        assert [step.holds for step in steps(proof, stranger)] == [True, True, False]
