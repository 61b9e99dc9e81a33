"""Views of stewards: cards, answers and decisions, in notebooks, terminals and as JSON."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from gencard.client.steward import card_review_of
from gencard.client.steward_views import Decision, command_of
from gencard.core import errors
from gencard.core.card.budget import Price
from gencard.shell import visible
from gencard.v1 import common_pb2, negotiation_pb2, steward_pb2
from gencard.wire.codec import card_message, message_of, timestamp, value_of
from gencard.wire.documents import json_of

CARD = "datasets/survey/cards/0123456789abcdef"
SAM, EVE = ("spiffe://test.local/service/steward/sam", "spiffe://test.local/service/steward/eve")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOSTILE = "\x1b]0;owned\x07<script>\u202egpj.exe\x9b31m"
SHOWN = "ab" * 32


def printed(shown, width=160):
    console = Console(width=width, force_terminal=True)
    with console.capture() as captured:
        console.print(shown)
    return captured.get()


def first(**others):
    facts = {"digest": "cd" * 32, "kind": "approve", "resource": CARD, "shown": SHOWN, "by": SAM}
    facts |= {"reason": HOSTILE, "time": timestamp(NOW), "arguments": b""}
    return steward_pb2.FirstDecision(**{**facts, **others}, expires=timestamp(NOW + timedelta(days=14)))


@pytest.fixture
def message(ana, world):
    world.manual = True
    card = ana.propose("survey", [("sex", "health"), ("age", "health")], purpose=f"To see {HOSTILE}")
    change = negotiation_pb2.Change(field="marginals", old=HOSTILE, new="", reason="STEWARD")
    rows = ([True, True, False], [True, True, True], [False, True, True])
    together = steward_pb2.Together(
        attributes=["sex", "health", HOSTILE],
        here=[steward_pb2.MatrixRow(entries=row) for row in rows],
        before=[steward_pb2.MatrixRow(entries=[False, True, False])] * 3,
    )
    return steward_pb2.CardReview(
        card=card_message(card.negotiation),
        changes=[change],
        price=message_of(Price(12), common_pb2.Price),
        two=True,
        shown=SHOWN,
        together=together,
        firsts=[first()],
    )


@pytest.fixture
def review(message):
    return card_review_of(message, message.card.name)


class TestCardReview:
    def test_it_shows_price_changes_digest_history_and_first_decisions(self, review):
        for shown in (printed(review), review._repr_html_()):
            for words in ("price 12 exact statistics", "two must decide", SHOWN, "sam", "left out"):
                assert words in shown

    def test_nothing_that_an_analyst_wrote_reaches_terminal_or_page(self, review):
        text = printed(review)
        assert not {"\x9b", "\x07", "\u202e"} & set(text)
        assert "\x1b]" not in text
        assert "<script>" not in review._repr_html_()
        assert not {"\x1b", "\x9b", "\u202e"} & set(review._repr_html_())
        assert "\n" not in repr(review)

    def test_pairs_that_are_new(self, review):
        assert list(review.together.new_pairs()) == [("sex", "health")]

    def test_as_json(self, review):
        written = json.loads(json.dumps(json_of(review)))
        assert written["card"]["proposed"]["rows"]
        assert written["price"]["statistics"] == "12" or written["price"]["statistics"] == 12
        assert written["firsts"][0]["by"] == SAM

    def test_another_card_than_was_asked_for_is_refused(self, message):
        with pytest.raises(errors.VerificationError):
            card_review_of(message, CARD)


class TestDecision:
    @pytest.fixture
    def waiting(self):
        message = steward_pb2.Decision(
            kind="counter",
            resource=CARD,
            arguments=b'{"drop":[["a","b c"]],"rows":10}',
            shown=SHOWN,
            by=[SAM],
            done=False,
            time=timestamp(NOW),
            expires=timestamp(NOW),
        )
        return value_of(Decision, message)

    def test_a_first_one_says_plainly_that_nothing_happened_and_what_the_other_types(self, waiting):
        assert "waiting for another steward; no effect yet" in printed(waiting)
        assert waiting.commands == (
            f"gencard steward show {CARD}",
            f"gencard steward counter {CARD} --drop 'a,b c' --rows 10 --shown {SHOWN}",
        )

    def test_one_that_is_done_needs_nothing(self):
        done = Decision("approve", CARD, {}, SHOWN, (SAM, EVE), done=True, time=NOW)
        assert done.commands == ()
        assert "sam, service/steward/eve" in printed(done)

    @pytest.mark.parametrize(
        ("kind", "resource", "arguments", "command"),
        [
            ("void", "ledger/12", {}, "void 12"),
            ("disable", "people/ana", {}, "disable ana"),
            (
                "enrol",
                "people/bob",
                {"request": "{...}", "fingerprint": "12", "again": True},
                "enrol bob-request.json --fingerprint 12 --again",
            ),
            ("release-answer", f"{CARD}/answers/1", {"red": True}, f"release {CARD}/answers/1 --red"),
            ("reject", CARD, {"remark": "; rm -rf ~"}, f"reject {CARD} --remark '; rm -rf ~'"),
        ],
    )
    def test_commands_of_the_second_steward(self, kind, resource, arguments, command):
        assert command_of(kind, resource, arguments, "ab") == f"gencard steward {command} --shown ab"


def test_programs_are_printed_without_being_obeyed():
    text = visible(f"print(1)\n{HOSTILE}")
    assert text.startswith("print(1)\n\\x1b]0;owned\\x07<script>\\u202egpj")
    assert "\x9b" not in text
