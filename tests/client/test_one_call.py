"""From a formula to rows in one call: asked, declined, changed, waiting, too dear, interrupted."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.client import planning
from gencard.client.common import formats as limits
from gencard.client.shell.main import app
from gencard.core import errors
from gencard.core.card.budget import Price
from gencard.core.card.card import CardState
from gencard.core.card.privacy import EXACT, InsideGenerator, gaussian
from gencard.v1 import common_pb2
from gencard.v1 import ledger_pb2 as ledger
from gencard.wire.codec import message_of

FITS = "health ~ sex"
DIFFERS = "health ~ sex + age"
TOO_RICH = "health ~ sex * children + age"


@pytest.fixture
def one_line(ana):
    return lambda formula=FITS, **options: ana.synthesize("survey", formula, **{"rows": 50} | options)


@pytest.fixture
def answers(monkeypatch):
    """Record the questions that are shown; each question takes the next answer of ``given``."""
    answers = SimpleNamespace(given=[], asked=[])

    def answer(shown, question):
        answers.asked.append((shown, question))
        given = answers.given.pop(0)
        if isinstance(given, BaseException):
            raise given
        return given

    monkeypatch.setattr(planning, "_answer", answer)
    return answers


def states(world):
    return [card.state for card in world.cards.values()]


class TestAgreed:
    def test_with_consent_in_advance(self, one_line, world, capsys):
        release = one_line(accept=True, seed=3)
        assert len(release.to_frame()) == 50
        assert release.receipt.seed == 3
        (card,) = world.cards.values()
        assert card.proposed.purpose == "A logistic analysis: health ~ sex"
        assert card.proposed.rows == 50
        shown = capsys.readouterr()
        assert "Price: 6 exact statistics" in shown.err
        assert card.name in shown.err
        assert shown.out == ""

    def test_without_progress_nothing_is_said(self, one_line, capsys):
        one_line(accept=True, progress=False)
        assert capsys.readouterr() == ("", "")

    def test_asked_and_answered(self, one_line, world, answers):
        answers.given = [True]
        assert len(one_line().dataset) == 50
        ((plan, question),) = answers.asked
        assert question == "Sign this offer for 6 exact statistics? [y/N] "
        assert plan.changes == ()
        assert states(world) == [CardState.AGREED]

    def test_declined_leaves_nothing(self, one_line, world, answers):
        answers.given = [False]
        with pytest.raises(errors.NotAcceptedError, match=r"declined.*Nothing was spent"):
            one_line()
        assert world.cards == {}

    def test_where_nobody_can_be_asked(self, one_line, world):
        with pytest.raises(errors.NotAcceptedError, match=r"confirmation needs a terminal.*accept=True"):
            one_line()
        assert world.cards == {}

    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            ({"formula": "health ~"}, errors.InvalidFormulaError),
            ({"formula": "health ~ income"}, errors.UnknownAttributeError),
            ({"rows": 0}, errors.InvalidNumberError),
            ({"seed": -1}, errors.InvalidNumberError),
            ({"kind": "probit"}, errors.InvalidInputError),
            ({"purpose": " "}, errors.InvalidInputError),
        ],
    )
    def test_what_is_wrong_stores_nothing(self, one_line, world, wrong, error):
        with pytest.raises(error):
            one_line(accept=True, **wrong)
        assert world.cards == {}

    def test_a_refusal_is_told(self, one_line, world):
        world.faults.fail["ProposeCard"] = [errors.ProposalRefusedError(reasons="NO_GENERATOR")]
        with pytest.raises(errors.ProposalRefusedError, match="NO_GENERATOR"):
            one_line(accept=True)


class TestCounterOffers:
    def test_one_that_lacks_a_marginal_is_shown_and_asked_about(self, one_line, answers):
        answers.given = [True]
        release = one_line(TOO_RICH)
        ((plan, question),) = answers.asked
        assert [change.reason for change in plan.changes] == ["ORDER_TOO_HIGH"] * 2
        assert "does not determine" in question
        assert "sex × children × health" in question
        assert set(release.dataset.domain.attributes) == {"age", "health"}

    def test_consent_in_advance_does_not_cover_it(self, one_line, world):
        with pytest.raises(errors.NotAcceptedError, match=r"sex × children × health.*smaller formula"):
            one_line(TOO_RICH, accept=True)
        assert world.cards == {}

    def test_an_offer_that_changed_since_it_was_shown_is_asked_about_again(
        self, one_line, world, answers, monkeypatch
    ):
        honest, answers.given = world.offered, [True, False]

        def dearer(card):
            offered = honest(card)
            return (
                replace(offered, offer=replace(offered.offer, price=Price(7))) if card.name else offered
            )

        monkeypatch.setattr(world, "offered", dearer)
        with pytest.raises((errors.NotAcceptedError, errors.VerificationError)):
            one_line()
        assert [question for _, question in answers.asked][1:] == [
            "Sign this offer for 7 exact statistics? [y/N] "
        ]
        assert states(world) == [CardState.OFFERED]

    def test_an_offer_of_fewer_rows_gives_those(self, one_line, world, monkeypatch):
        honest = world.offered

        def fewer(card):
            return honest(replace(card, proposed=replace(card.proposed, rows=20)))

        monkeypatch.setattr(world, "offered", lambda card: replace(fewer(card), proposed=card.proposed))
        assert len(one_line(accept=True).dataset) == 20


class TestAgain:
    def test_a_card_in_force_is_used_and_that_is_said(self, one_line, world, capsys):
        first = one_line(accept=True)
        capsys.readouterr()
        again = one_line(rows=30)  # nobody is asked: there is nothing to sign
        assert len(world.cards) == 1
        assert again.receipt.psi_digest == first.receipt.psi_digest
        assert "is in force with these terms" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "other",
        [
            {"rows": 51},
            {"formula": DIFFERS},
            {"kind": "linear"},
            {"purpose": "Another"},
            {"generator": "x"},
        ],
    )
    def test_other_terms_need_another_card(self, one_line, world, other):
        one_line(accept=True)
        with pytest.raises(errors.NotAcceptedError):
            one_line(**other)

    @pytest.mark.parametrize("state", [CardState.REVOKED, CardState.EXPIRED, CardState.TERMINATED])
    def test_a_card_that_has_ended_is_not_used(self, one_line, world, state):
        one_line(accept=True)
        world.cards = {name: replace(card, state=state) for name, card in world.cards.items()}
        one_line(accept=True)
        assert len(world.cards) == 2

    def test_a_colleagues_card_is_not_used(self, one_line, world):
        one_line(accept=True)
        others = {name: replace(card, analyst="spiffe://x") for name, card in world.cards.items()}
        world.cards = others
        one_line(accept=True)
        assert len(world.cards) == 2


class TestWaiting:
    def test_it_says_what_to_do_and_goes_on_with_the_same_card(self, one_line, ana, world):
        world.manual = True
        with pytest.raises(errors.AwaitingStewardError) as caught:
            one_line(accept=True)
        (name,) = world.cards
        assert name in str(caught.value)
        assert "`analyst.card(name).wait()`" in str(caught.value)
        with pytest.raises(errors.AwaitingStewardError):
            one_line(accept=True)
        world.cards[name] = world.offered(world.cards[name])
        assert len(one_line(accept=True).dataset) == 50
        assert list(world.cards) == [name]

    def test_wait_ends_with_the_answer(self, ana, world, monkeypatch):
        monkeypatch.setattr("gencard.client.card_view._SHORTEST", 0.01)
        world.manual = True
        card = ana.propose("survey", [("sex",)], purpose="?")
        with pytest.raises(errors.AwaitingStewardError):
            card.wait(0.05, progress=False)

        def answer(stage, _share):
            assert stage == "requested"
            world.cards[card.name] = world.offered(world.cards[card.name])

        assert card.wait(progress=answer).state is CardState.OFFERED

    def test_the_steward_may_offer_less(self, one_line, world, answers):
        world.manual, answers.given = True, [True, False]
        with pytest.raises(errors.AwaitingStewardError):
            one_line()
        (name,) = world.cards
        less = replace(
            world.cards[name], proposed=replace(world.cards[name].proposed, marginals=(("sex",),))
        )
        world.cards[name] = replace(world.offered(less), proposed=world.cards[name].proposed)
        with pytest.raises(errors.NotAcceptedError):
            one_line()
        assert "does not determine sex × health" in answers.asked[1][1]


class TestInterrupted:
    def test_while_asked_nothing_is_left(self, one_line, world, answers):
        answers.given = [KeyboardInterrupt()]
        with pytest.raises(KeyboardInterrupt) as stopped:
            one_line()
        assert stopped.value.__notes__ == ["Nothing was proposed, signed or spent."]
        assert world.cards == {}

    def test_after_the_signature_the_card_stays(self, one_line, world):
        def stop(_stage, _share):
            raise KeyboardInterrupt

        world.pending = 5
        with pytest.raises(KeyboardInterrupt) as stopped:
            one_line(accept=True, progress=stop)
        (name,) = world.cards
        assert (
            stopped.value.__notes__[-1] == f"Card {name} stays signed; the same call continues with it."
        )
        world.pending = 0
        assert len(one_line().dataset) == 50


def test_a_price_beyond_the_budget_is_refused_before_anybody_is_asked(one_line, world, answers):
    world.faults.change["GetBudget"] = lambda _: ledger.GetBudgetResponse(
        cap=message_of(Price(100), common_pb2.Price), spent=message_of(Price(95), common_pb2.Price)
    )
    with pytest.raises(errors.BudgetExceededError):
        one_line()
    assert (answers.asked, world.cards) == ([], {})


@pytest.mark.parametrize("file", ["rows.xsl", "rows.dta", Path("a/rows.dta")])
def test_a_file_that_cannot_hold_the_rows_is_refused_before_anybody_is_asked(
    one_line, world, answers, monkeypatch, file
):
    monkeypatch.setattr(limits, "_STATA_WORDS", frozenset(["health"]))
    with pytest.raises(errors.InvalidInputError):
        one_line(file=file)
    assert (answers.asked, world.cards) == ([], {})


def test_a_file_that_can_is_not_written_yet(one_line, tmp_path):
    release = one_line(file=tmp_path / "rows.sav", accept=True)
    assert list(tmp_path.iterdir()) == []
    assert (release.save(tmp_path, rows="rows.sav") / "rows.sav").exists()


class TestShell:
    @pytest.fixture
    def run(self, people, connection_toml, monkeypatch):
        monkeypatch.setenv("GENCARD_CONNECTION", str(people / "ana"))
        monkeypatch.setenv("COLUMNS", "200")
        return lambda *words: CliRunner().invoke(app, ["synthesize", "survey", *map(str, words)])

    def test_one_command(self, run, tmp_path):
        shown = run(FITS, "--rows", "40", "--output", tmp_path / "rows.csv", "--yes")
        assert shown.exit_code == 0, shown.stderr
        assert len(pd.read_csv(tmp_path / "rows.csv")) == 40
        assert "Written" in shown.stdout

    def test_for_programs(self, run, tmp_path):
        words = ("--rows", "40", "--output", tmp_path / "kept", "--yes", "--json")
        assert json.loads(run(FITS, *words).stdout)["Rows"] == "40"
        assert (tmp_path / "kept/receipt.json").exists()

    def test_without_a_terminal_it_says_what_to_add(self, run, tmp_path, world):
        shown = run(FITS, "--rows", "40", "--output", tmp_path / "rows.csv")
        assert shown.exit_code == 1
        assert "NOT_ACCEPTED" in shown.stderr
        assert "--yes" in shown.stderr
        assert "accept=True" not in shown.stderr
        assert world.cards == {}

    def test_a_place_that_is_taken_is_refused_first(self, run, tmp_path, world):
        (tmp_path / "kept").mkdir()
        (tmp_path / "kept/receipt.json").write_text("{}")
        assert run(FITS, "--rows", "40", "--output", tmp_path / "kept", "--yes").exit_code == 1
        assert world.cards == {}

    @pytest.mark.parametrize("file", ["rows.dta", "rows.xsl"])
    def test_a_file_that_cannot_be_written_is_refused_first(
        self, run, tmp_path, world, monkeypatch, file
    ):
        monkeypatch.setattr(limits, "_STATA_WORDS", frozenset(["health"]))
        shown = run(FITS, "--rows", "40", "--output", tmp_path / file, "--yes")
        assert shown.exit_code == 1
        assert "Write .csv" in shown.stderr or "files of rows end in" in shown.stderr
        assert world.cards == {}

    @pytest.mark.parametrize(("typed", "code", "cards"), [(b"y\n", 0, 1), (b"\n", 1, 0)])
    def test_a_terminal_is_asked(self, people, connection_toml, world, tmp_path, typed, code, cards):
        """A real terminal: the offer is shown, then yes or nothing is typed."""
        ours, theirs = pty.openpty()
        program = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        program += "from gencard.client.shell.main import main; main()"
        words = ["synthesize", "survey", FITS, "--rows", "40", "--output", str(tmp_path / "rows.csv")]
        process = subprocess.Popen(
            [sys.executable, "-c", program, *words],
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env=os.environ | {"GENCARD_CONNECTION": str(people / "ana"), "COLUMNS": "100"},
        )  # fmt: skip
        os.close(theirs)
        shown = b""
        with eventually_killed(process):
            while b"[y/N]" not in shown and process.poll() is None:
                shown += shown_by(ours)
            os.write(ours, typed)
            while process.poll() is None:
                shown += shown_by(ours)
        shown += shown_by(ours)
        assert process.returncode == code, shown
        assert b"6 exact statistics" in shown
        assert len(world.cards) == cards
        assert not re.search(rb"propose\(|Traceback", shown)


@contextmanager
def eventually_killed(process):
    """Kill the program after two minutes, so that no test waits longer."""
    timer = threading.Timer(120, process.kill)
    timer.start()
    yield
    timer.cancel()


def shown_by(descriptor):
    """Return the next output of a terminal; empty if it is silent or its other end is closed."""
    waiting = select.poll()  # select() knows no descriptor above 1,023
    waiting.register(descriptor, select.POLLIN)
    try:
        return os.read(descriptor, 4096) if waiting.poll(500) else b""
    except OSError:
        return b""


def test_what_was_not_signed_names_the_bound_and_its_value(one_line):
    with pytest.raises(errors.NotAcceptedError) as caught:
        one_line(TOO_RICH, accept=True)
    assert "the policy permits at most 2 attributes in a marginal." in caught.value.message


def test_another_mechanism_names_the_options_of_what_is_offered(ana):
    noisy = gaussian("0.2", neighbouring="replace-one")
    proposed = SimpleNamespace(privacy=EXACT, generator="ipf")
    terms = SimpleNamespace(privacy=noisy, generator="ipf")
    card = SimpleNamespace(negotiation=SimpleNamespace(proposed=proposed), terms=terms)
    with pytest.raises(errors.NotAcceptedError, match=r"`--rho 0.2 --neighbouring replace-one`"):
        planning.check_mechanism(card)
    proposed.privacy, card.terms.privacy = noisy, EXACT
    with pytest.raises(errors.NotAcceptedError, match="without options of noise"):
        planning.check_mechanism(card)


def test_noise_of_a_generator_is_signed_if_its_name_was_proposed(ana):
    proposed = SimpleNamespace(privacy=EXACT, generator="ipf")
    noisy = InsideGenerator(gaussian("0.2", neighbouring="replace-one"))
    terms = SimpleNamespace(privacy=noisy, generator="mst")
    card = SimpleNamespace(negotiation=SimpleNamespace(proposed=proposed), terms=terms)
    with pytest.raises(errors.NotAcceptedError, match="`--generator mst`"):
        planning.check_mechanism(card)
    proposed.generator = "mst"
    planning.check_mechanism(card)
