"""Ledger: caps, reservations, and what voiding gives back."""

from tests.mutation.mutant import mutants_of

LEDGER = "gencard.controller.state.ledger"
TESTS = ("tests/controller/state/test_state_ledger.py", "-k", "not postgres and not s19")
mutant = mutants_of("ledger")

MUTANTS = (
    mutant(
        "a price that reaches the cap exactly is refused",
        LEDGER,
        "more[name] <= limits[name]",
        "more[name] < limits[name]",
        TESTS,
    ),
    mutant(
        "a lowered cap in one currency stops prices in another",
        LEDGER,
        "for name in units if units[name]]",
        "for name in units]",
        TESTS,
    ),
    mutant(
        "a line that has ended can end again",
        LEDGER,
        "(lines.c.number == line, lines.c.state == SpendState.RESERVED)",
        "(lines.c.number == line,)",
        TESTS,
    ),
    mutant(
        "voiding charges the price a second time",
        LEDGER,
        "balances.c[name] - units for",
        "balances.c[name] + units for",
        TESTS,
    ),
    mutant(
        "settling marks the line as voided",
        LEDGER,
        "        _end(tx, line, SpendState.SETTLED, now)",
        "        _end(tx, line, SpendState.VOIDED, now)",
        TESTS,
    ),
    mutant(
        "holding the rest below a lowered cap frees budget",
        LEDGER,
        "max(cap[name] - spent[name], 0)",
        "cap[name] - spent[name]",
        TESTS,
    ),
    mutant(
        "reserved epsilons are not counted",
        LEDGER,
        "lines.c.state != SpendState.VOIDED",
        "lines.c.state == SpendState.SETTLED",
        TESTS,
    ),
    mutant(
        "accounts within their cap are reported as over it",
        LEDGER,
        "not spent.fits(self.cap(account))",
        "spent.fits(self.cap(account))",
        TESTS,
    ),
    mutant(
        "a refused reservation leaves charges in the accounts before it",
        LEDGER,
        "with tx.begin_nested():",
        "if True:",
        TESTS,
    ),
    mutant(
        "each analyst has a project account of their own",
        LEDGER,
        "Account(Scope.PROJECT, dataset, project)",
        "Account(Scope.PROJECT, dataset, analyst)",
        TESTS,
    ),
)
