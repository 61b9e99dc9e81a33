"""The ledger against a model of ten lines, in any order of calls (S19, S20, S21)."""

import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from gencard.controller.state.database import Database
from gencard.controller.state.ledger import Caps, Ledger, accounts_of
from gencard.core.card.budget import Price
from gencard.core.errors import BudgetExceededError, InvalidInputError
from tests.controller.state.samples import NOW, reserve

DATASETS = ("datasets/a", "datasets/b")
PROJECTS = ("health", "labour")
ANALYSTS = ("ana", "ben", "cem")
CAPS = Caps(Price(20, Decimal("2.5")), Price(14, Decimal("1.5")), Price(9, Decimal(1)))
PRICES = st.builds(
    Price,
    st.integers(0, 6),
    st.sampled_from([Decimal(0), Decimal("0.3"), Decimal("0.333333333"), Decimal("1e-9")]),
)


class LedgerMachine(RuleBasedStateMachine):
    """Every call is a transaction of its own; the model is a list of what counts as spent."""

    lines = Bundle("lines")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.database = Database(f"sqlite:///{Path(self.folder.name)}/state.sqlite")
        self.database.migrate()
        self.ledger = Ledger(dict.fromkeys(DATASETS, CAPS))
        self.counted: dict[int, tuple[tuple, Price]] = {}

    def teardown(self) -> None:
        self.database.close()
        self.folder.cleanup()

    def total(self, account) -> Price:
        return sum((price for held, price in self.counted.values() if account in held), Price())

    @rule(
        target=lines,
        dataset=st.sampled_from(DATASETS),
        project=st.sampled_from(PROJECTS),
        analyst=st.sampled_from(ANALYSTS),
        price=PRICES,
    )
    def reserve(self, dataset, project, analyst, price):
        accounts = accounts_of(dataset, project, analyst)
        fits = all((self.total(one) + price).fits(CAPS.of(one)) for one in accounts)
        try:
            with self.database.transaction() as tx:
                line = reserve(self.ledger, tx, price, dataset=dataset, project=project, analyst=analyst)
        except BudgetExceededError:
            assert not fits
            return multiple()
        assert fits
        assert line not in self.counted
        self.counted[line] = (accounts, price)
        return line

    @rule(line=consumes(lines))
    def settle(self, line):
        with self.database.transaction() as tx:
            self.ledger.settle(tx, line, NOW)
        self.refused(self.ledger.void, line)
        self.refused(self.ledger.settle, line)

    @rule(line=consumes(lines), share=st.sampled_from([0, 1, 2]))
    def settle_at(self, line, share):
        """At what it came to: nothing, half, or all; more than was held is refused."""
        accounts, held = self.counted[line]
        more = Price(held.statistics + 1, held.epsilon)
        self.refused(lambda tx, number, now: self.ledger.settle_at(tx, number, more, now), line)
        price = Price(held.statistics * share // 2, held.epsilon)
        with self.database.transaction() as tx:
            self.ledger.settle_at(tx, line, price, NOW)
        self.counted[line] = (accounts, price)
        self.refused(self.ledger.void, line)
        self.refused(self.ledger.settle, line)

    @rule(line=consumes(lines))
    def void(self, line):
        with self.database.transaction() as tx:
            self.ledger.void(tx, line, NOW)
        del self.counted[line]
        self.refused(self.ledger.void, line)
        self.refused(self.ledger.settle, line)

    @rule()
    def restart(self):
        self.database.close()
        self.database = Database(f"sqlite:///{Path(self.folder.name)}/state.sqlite")

    def refused(self, end, line):
        try:
            with self.database.transaction() as tx:
                end(tx, line, NOW)
        except InvalidInputError:
            return
        raise AssertionError("a line ended twice")

    @invariant()
    def balances_are_the_sums_of_what_counts_and_within_the_caps(self):
        with self.database.reading() as tx:
            for dataset in DATASETS:
                for project, analyst in zip((*PROJECTS, "health"), ANALYSTS, strict=True):
                    for account in accounts_of(dataset, project, analyst):
                        spent = self.ledger.spent(tx, account)
                        assert spent == self.total(account)
                        assert spent.fits(CAPS.of(account))

    @invariant()
    def no_line_is_ever_lost(self):
        with self.database.reading() as tx:
            found = Counter(spend.state for spend in self.ledger.lines(tx, limit=500).rows)
        assert found["reserved"] + found["settled"] == len(self.counted)


LedgerMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
TestLedgerMachine = LedgerMachine.TestCase
