import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, select

from gencard.controller.state import results
from gencard.controller.state.database import Database
from gencard.controller.state.ledger import Account, Caps, Ledger, Scope, columns_of, price_of
from gencard.controller.state.tables import balances
from gencard.core.card.budget import Price, SpendState
from gencard.core.errors import BudgetExceededError, InvalidInputError, InvalidNumberError, NotFoundError
from tests.controller.state import crasher, postgres, spender
from tests.controller.state.samples import ALL_OF_IT, ANA, BEN, DATASET, NOW, ledger_of, reserve

UNLIMITED = Price(10**6, Decimal(1000), Decimal(1000))


def python(module: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.controller.state.{module}", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


class TestReservations:
    def test_a_reserved_line_counts_as_spent(self, database):
        ledger = ledger_of(10)
        with database.transaction() as tx:
            line = reserve(ledger, tx, Price(7))
            assert ledger.spent(tx, ALL_OF_IT) == Price(7)
            assert ledger.line(tx, line).state is SpendState.RESERVED
            with pytest.raises(BudgetExceededError):
                reserve(ledger, tx, Price(4))
            ledger.settle(tx, line, NOW)
            assert ledger.spent(tx, ALL_OF_IT) == Price(7)
            with pytest.raises(BudgetExceededError):
                reserve(ledger, tx, Price(4))
            reserve(ledger, tx, Price(3))

    def test_what_is_left_is_held_whatever_the_holders_own_cap(self, database):
        ledger = Ledger({DATASET: Caps(Price(10, Decimal(1)), Price(5), Price(5))})
        held = {"project": "service", "holder": "spiffe://x/service/controller/c", "kind": "restore"}
        with database.transaction() as tx:
            reserve(ledger, tx, Price(3))
            line = ledger.hold_rest(tx, DATASET, now=NOW, **held)
            assert (line.price, line.state) == (Price(7, Decimal(1)), SpendState.RESERVED)
            assert ledger.spent(tx, ALL_OF_IT) == ledger.cap(ALL_OF_IT)
            with pytest.raises(BudgetExceededError):
                reserve(ledger, tx, Price(1))
            assert ledger.hold_rest(tx, DATASET, now=NOW, **held) is None
            ledger.void(tx, line.line, NOW)
            assert ledger.spent(tx, ALL_OF_IT) == Price(3)
            reserve(ledger, tx, Price(2))
            assert [found.line for found in ledger.all(tx)] == [1, 2, 3]

    def test_holding_the_rest_gives_nothing_back_in_a_currency_whose_cap_was_lowered(self, database):
        before, after = (Caps(*[Price(10, Decimal(epsilon))] * 3) for epsilon in ("1", "0.5"))
        lowered = Ledger({DATASET: after})
        with database.transaction() as tx:
            reserve(Ledger({DATASET: before}), tx, Price(3, Decimal("0.8")))
            line = lowered.hold_rest(
                tx, DATASET, project="service", holder="controller", kind="restore", now=NOW
            )
            assert line.price == Price(7)
            assert lowered.spent(tx, ALL_OF_IT) == Price(10, Decimal("0.8"))

    def test_only_voiding_gives_back(self, database):
        ledger = ledger_of(10)
        with database.transaction() as tx:
            line = reserve(ledger, tx, Price(10))
            ledger.void(tx, line, NOW)
            assert ledger.spent(tx, ALL_OF_IT) == Price()
            assert ledger.line(tx, line).state is SpendState.VOIDED
            reserve(ledger, tx, Price(10))

    def test_epsilons_are_those_of_lines_that_were_not_given_back(self, database):
        ledger, amounts = Ledger({DATASET: Caps(*[UNLIMITED] * 3)}), ("0.5", "0.25", "0.125")
        with database.transaction() as tx:
            lines = [reserve(ledger, tx, Price(0, Decimal(amount))) for amount in amounts]
            reserve(ledger, tx, Price(3, rho=Decimal(1)))
            ledger.void(tx, lines[0], NOW)
            ledger.settle(tx, lines[1], NOW)
            assert ledger.epsilons(tx, DATASET) == [Decimal("0.25"), Decimal("0.125")]
            assert ledger.epsilons(tx, "datasets/other") == []

    @pytest.mark.parametrize("first", ["settle", "void"])
    @pytest.mark.parametrize("second", ["settle", "void"])
    def test_a_line_ends_once(self, database, first, second):
        ledger = ledger_of(10)
        with database.transaction() as tx:
            line = reserve(ledger, tx, Price(10))
            getattr(ledger, first)(tx, line, NOW)
            before = ledger.spent(tx, ALL_OF_IT)
            with pytest.raises(InvalidInputError):
                getattr(ledger, second)(tx, line, NOW)
            assert ledger.spent(tx, ALL_OF_IT) == before

    @pytest.mark.parametrize("line", [0, -1, 99, 2**63, 10**30])
    def test_an_unknown_line_is_not_found(self, database, line):
        with database.transaction() as tx, pytest.raises(NotFoundError):
            ledger_of(1).void(tx, line, NOW)

    def test_a_dataset_without_caps_takes_no_reservation(self, database):
        with database.transaction() as tx, pytest.raises(NotFoundError):
            reserve(ledger_of(1), tx, Price(1), dataset="datasets/other")

    @pytest.mark.parametrize("price", [Price(10**30), Price(2**63), Price(1, Decimal(10**9))])
    def test_a_price_past_any_integer_column_is_just_too_much(self, database, price):
        with database.transaction() as tx, pytest.raises(BudgetExceededError):
            reserve(ledger_of(10**18), tx, price)

    def test_the_line_held_for_a_release_is_found_until_it_ends(self, database):
        ledger, wanted = ledger_of(10), {"resource": f"{DATASET}/cards/c1", "kind": "psi"}
        with database.transaction() as tx:
            assert ledger.held(tx, **wanted) is None
            line = reserve(ledger, tx, Price(1))
            assert ledger.held(tx, **wanted) == ledger.line(tx, line)
            assert ledger.held(tx, **{**wanted, "kind": "audit"}) is None
            ledger.settle(tx, line, NOW)
            assert ledger.held(tx, **wanted) is None

    def test_lines_are_listed_newest_first_for_their_analyst_alone(self, database):
        ledger = ledger_of(100)
        with database.transaction() as tx:
            numbers = [reserve(ledger, tx, Price(1), analyst=who) for who in (ANA, BEN, ANA, ANA)]
        with database.reading() as tx:
            first = ledger.lines(tx, analyst=ANA, limit=2)
            rest = ledger.lines(tx, analyst=ANA, limit=2, before=first.next_token)
            assert [spend.line for spend in (*first.rows, *rest.rows)] == [
                numbers[3],
                numbers[2],
                numbers[0],
            ]
            assert rest.next_token == ""
            assert len(ledger.lines(tx, dataset=DATASET).rows) == 4
            assert ledger.lines(tx, dataset="datasets/other").rows == ()


class TestCaps:
    """S21: at the level of dataset, project and analyst; all or nothing."""

    def test_s21_two_analysts_together_stay_under_the_dataset_cap(self, database):
        ledger = Ledger({DATASET: Caps(Price(10), UNLIMITED, UNLIMITED)})
        with database.transaction() as tx:
            reserve(ledger, tx, Price(6), project="p", analyst=ANA)
            with pytest.raises(BudgetExceededError) as refused:
                reserve(ledger, tx, Price(6), project="q", analyst=BEN)
        assert refused.value.fields == {"scope": "dataset"}

    def test_s21_two_analysts_of_a_project_stay_under_its_cap(self, database):
        ledger = Ledger({DATASET: Caps(UNLIMITED, Price(10), UNLIMITED)})
        with database.transaction() as tx:
            reserve(ledger, tx, Price(6), project="p", analyst=ANA)
            with pytest.raises(BudgetExceededError) as refused:
                reserve(ledger, tx, Price(6), project="p", analyst=BEN)
            reserve(ledger, tx, Price(6), project="q", analyst=BEN)
        assert refused.value.fields == {"scope": "project"}

    def test_s21_an_analyst_stays_under_the_cap_in_all_projects(self, database):
        ledger = Ledger({DATASET: Caps(UNLIMITED, UNLIMITED, Price(10))})
        with database.transaction() as tx:
            reserve(ledger, tx, Price(6), project="p", analyst=ANA)
            with pytest.raises(BudgetExceededError) as refused:
                reserve(ledger, tx, Price(6), project="q", analyst=ANA)
        assert refused.value.fields == {"scope": "analyst"}

    @pytest.mark.parametrize(
        "finest", [Price(1), Price(0, Decimal("1e-9")), Price(0, Price().rho, Decimal("1e-9"))]
    )
    def test_every_currency_has_its_cap(self, database, finest):
        """The other two being unlimited does not help."""
        cap = Price(
            0 if finest.statistics else 9,
            Decimal(0 if finest.epsilon else 9),
            Decimal(0 if finest.rho else 9),
        )
        with database.transaction() as tx, pytest.raises(BudgetExceededError):
            reserve(Ledger({DATASET: Caps(cap, cap, cap)}), tx, finest)

    def test_a_refusal_caught_inside_a_transaction_has_changed_nothing(self, database):
        ledger = Ledger({DATASET: Caps(UNLIMITED, UNLIMITED, Price(1))})
        with database.transaction() as tx:
            with pytest.raises(BudgetExceededError):
                reserve(ledger, tx, Price(2))
            with pytest.raises(BudgetExceededError):
                reserve(Ledger({DATASET: Caps(UNLIMITED, UNLIMITED, Price())}), tx, Price(1))
        with database.reading() as tx:
            assert tx.execute(select(balances)).all() == []
            assert ledger.lines(tx).rows == ()

    def test_a_lowered_cap_takes_nothing_back_and_grants_nothing_more(self, database):
        with database.transaction() as tx:
            reserve(ledger_of(10), tx, Price(8))
            with pytest.raises(BudgetExceededError):
                reserve(ledger_of(5), tx, Price(1))
            assert ledger_of(5).spent(tx, ALL_OF_IT) == Price(8)

    def test_a_cap_lowered_in_one_currency_leaves_the_others_open(self, database):
        before, after = (Caps(*[Price(10, Decimal(epsilon))] * 3) for epsilon in ("1", "0.5"))
        lowered = Ledger({DATASET: after})
        with database.transaction() as tx:
            reserve(Ledger({DATASET: before}), tx, Price(0, Decimal("0.8")))
            with pytest.raises(BudgetExceededError):
                reserve(lowered, tx, Price(0, Decimal("0.1")))
            reserve(lowered, tx, Price(10))

    def test_accounts_over_a_lowered_cap_are_named_and_no_others(self, database):
        with database.transaction() as tx:
            reserve(ledger_of(10), tx, Price(8))
            assert list(ledger_of(8).over_cap(tx)) == []
            assert list(Ledger({}).over_cap(tx)) == []
            lowered = Ledger({DATASET: Caps(Price(10), Price(7), Price(9))})
            project = Account(Scope.PROJECT, DATASET, "health")
            assert list(lowered.over_cap(tx)) == [(project, Price(8), Price(7))]

    def test_caps_that_could_overflow_a_column_are_refused(self):
        with pytest.raises(InvalidNumberError):
            Caps(Price(10**18 + 1), UNLIMITED, UNLIMITED)


AMOUNTS = st.integers(0, 10**18).map(lambda units: Decimal(units).scaleb(-9))


class TestUnits:
    """S20: whole units only, nothing lost, nothing that is not a number."""

    @given(st.integers(0, 10**18), AMOUNTS, AMOUNTS)
    def test_s20_prices_survive_the_columns_exactly(self, statistics, epsilon, rho):
        price = Price(statistics, epsilon, rho)
        assert price_of(columns_of(price)) == price

    @pytest.mark.parametrize(
        "amount",
        [
            *map(Decimal, ("NaN", "sNaN", "Infinity", "-Infinity", "-1", "1e-10", "1e-400", "1e30")),
            0.5,
            float("nan"),
            1,
        ],
    )
    @pytest.mark.parametrize("currency", ["epsilon", "rho"])
    def test_s20_costs_that_are_no_amounts_are_impossible(self, currency, amount):
        with pytest.raises(InvalidNumberError):
            Price(**{currency: amount})

    @pytest.mark.parametrize("statistics", [-1, 0.5, float("nan"), float("inf"), Decimal(1), "1"])
    def test_s20_statistics_are_whole(self, statistics):
        with pytest.raises(InvalidNumberError):
            Price(statistics)


class TestConcurrency:
    def test_s19_64_spenders_in_4_processes_never_exceed_the_cap(self, database, url):
        processes = [python("spender", url) for _ in range(4)]
        assert [process.stdout.readline() for process in processes] == ["ready\n"] * 4
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        granted = sum(int(process.communicate(timeout=240)[0]) for process in processes)
        assert 4 * spender.THREADS * spender.TRIES > spender.CAP
        assert granted == spender.CAP
        with database.reading() as tx:
            ledger = ledger_of(spender.CAP, "1000")
            expected = Price(spender.CAP, spender.CAP * Decimal("0.1"))
            for account in (
                ALL_OF_IT,
                Account(Scope.PROJECT, DATASET, "health"),
                Account(Scope.ANALYST, DATASET, ANA),
            ):
                assert ledger.spent(tx, account) == expected
            assert len(ledger.lines(tx, limit=500).rows) == granted

    def test_s19_the_conditional_update_holds_without_the_writers_lock(self, postgres_socket):
        """PostgreSQL's lock of writers is a second line of defence: here it is not taken."""
        url = postgres.new_database(postgres_socket)
        Database(url).migrate()
        engine, ledger = create_engine(url, pool_size=16), ledger_of(10)

        def spend(_: int) -> bool:
            try:
                with engine.begin() as tx:
                    reserve(ledger, tx, Price(1))
            except BudgetExceededError:
                return False
            return True

        with ThreadPoolExecutor(16) as threads:
            assert sum(threads.map(spend, range(64))) == 10
        engine.dispose()


class TestCrashes:
    def test_s19_a_kill_at_any_step_loses_no_line_and_frees_none(self, database, url, tmp_path):
        process = python("crasher", url, str(tmp_path))
        children = int(process.communicate(timeout=240)[0])
        assert process.returncode == 0
        assert children > 12
        seen = set()
        for child in range(1, children + 1):
            dataset = crasher.dataset_of(child)
            ledger = ledger_of(100, dataset=dataset)
            with database.reading() as tx:
                lines = ledger.lines(tx, dataset=dataset).rows
                spent = ledger.spent(tx, Account(Scope.DATASET, dataset))
                psi = results.find_psi(tx, f"{dataset}/cards/c1")
            states = [line.state for line in lines]
            records_read = (tmp_path / f"records-read-{child}").exists()
            assert spent == (crasher.PRICE if lines else Price())
            assert not records_read or states, "records were read for which no line is left"
            assert (psi is not None) == (states == [SpendState.SETTLED])
            seen.add((tuple(states), records_read))
            with database.transaction() as tx:
                for line in lines:
                    if line.state is SpendState.RESERVED:
                        ledger.void(tx, line.line, NOW)
                assert ledger.spent(tx, Account(Scope.DATASET, dataset)) == (
                    crasher.PRICE if psi else Price()
                )
        reserved, settled = (SpendState.RESERVED,), (SpendState.SETTLED,)
        assert seen == {((), False), (reserved, False), (reserved, True), (settled, True)}
