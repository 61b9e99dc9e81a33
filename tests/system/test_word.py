"""Stewards get word that something waits, by webhook and mail, and the word carries no data."""

import base64
import json
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.policy import default

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from typer.testing import CliRunner

from gencard.controller import notify
from gencard.controller.notify import (
    LONG,
    SENTENCES,
    DeliveryOutcome,
    Message,
    Notifier,
    channels_of,
    notices,
    post_of,
)
from gencard.controller.shell.main import app
from gencard.controller.state import stewards
from gencard.controller.wiring.opening import open_controller_state
from gencard.core.errors import InvalidInputError, StorageError
from gencard.wire.steward import Kind as Action
from tests.system.canaries import DIGITS, WORD, assert_none
from tests.system.house import Clock, build
from tests.system.raw_calls import eventually
from tests.system.receivers import PASSWORD, SECRET, https_receiver, secret_file, smtp_receiver
from tests.system.stewards import Steward

pytestmark = pytest.mark.timeout(120)

PURPOSE = f"{WORD} of {DIGITS} people of region north"
MAIL = """
[notify.mail]
host = "localhost"
port = {port}
user = "gencard"
password_file = "{password}"
authority = "{authority}"
sender = "gencard@example.org"
to = ["sam@example.org", "eva@example.org"]
"""
WEBHOOK = """
[notify]
quiet_seconds = {quiet}

[notify.webhook]
url = "https://localhost:{port}/word"
secret_file = "{secret}"
authority = "{authority}"
"""


@pytest.fixture
def house(tmp_path):
    """A controller whose steward decides on each proposal; not started."""
    built = build(tmp_path)
    built.edit({"automatic": "false"})
    yield built
    built.stop()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(notify, "SECONDS", 1.0)
    monkeypatch.setitem(Notifier.__init__.__kwdefaults__, "seconds", 0.5)


def tell(house, receiver, quiet=0):
    """Name a receiver of webhooks in the settings."""
    secret = f"whsec_{base64.b64encode(SECRET).decode()}"
    file = secret_file(house.folder / "notify" / "secret", secret)
    text = WEBHOOK.format(port=receiver.port, secret=file, authority=receiver.authority, quiet=quiet)
    house.settings_file.write_text(house.settings_file.read_text() + text)


def tell_by_mail(house, receiver):
    password = secret_file(house.folder / "notify" / "password", PASSWORD)
    text = MAIL.format(port=receiver.port, password=password, authority=receiver.authority)
    house.settings_file.write_text(house.settings_file.read_text() + text)


def propose(house):
    """A proposal that a steward has to decide on; its purpose is a canary."""
    with house.analyst() as analyst:
        return analyst.propose("survey", [("sex", "health")], generator="ipf", rows=50, purpose=PURPOSE)


def post(house, clock):
    """Make the part of the service that its threads work at, step by step."""
    return post_of(open_controller_state(house.settings(), clock))


@pytest.fixture
def stepped(house, tmp_path):
    """A house with one proposal, a receiver, a clock, and the steps of its word."""
    house.start()
    propose(house)
    house.stop()
    with https_receiver(tmp_path / "receiver") as receiver:
        tell(house, receiver)
        clock = Clock()
        yield post(house, clock), receiver, clock


def names(receiver):
    return [headers["webhook-id"] for headers, _ in receiver.came]


def test_a_proposal_is_told_by_mail_and_webhook_and_the_word_carries_no_data(house, tmp_path):
    with https_receiver(tmp_path / "https") as chat, smtp_receiver(tmp_path / "smtp") as server:
        tell(house, chat)
        tell_by_mail(house, server)
        house.start()
        card = propose(house)
        assert eventually(lambda: chat.came and server.came)
        house.stop()
    (headers, body), (sender, to, content) = chat.came[0], server.came[0]
    document = Verifier(SECRET).verify(body, headers)
    assert document["data"]["waiting"] == ["proposal"]
    mail = message_from_bytes(content, policy=default)
    assert (sender, to) == ("gencard@example.org", ["sam@example.org", "eva@example.org"])
    assert "A proposal is waiting for a steward's decision." in mail.get_content()
    assert re.fullmatch(r"<word_[0-9a-f]{24}@.+>", mail["Message-ID"])
    sinks = {"webhook": repr(headers).encode() + body, "mail": content}
    assert_none(sinks)
    for secret in (card.name, "survey", "ana", "sex", "health", "ipf", PURPOSE[:20]):
        for name, data in sinks.items():
            assert not re.search(rb"\b%s\b" % re.escape(secret.encode()), data), (secret, name)


def test_a_dead_receiver_slows_no_call_and_no_stop(house, tmp_path):
    with https_receiver(tmp_path / "https", *["slow"] * 50) as receiver:
        tell(house, receiver)
        house.start()
        propose(house)
        assert eventually(lambda: receiver.came), "a try is under way"
        begin = time.monotonic()
        propose(house)
        seconds = time.monotonic() - begin
        begin = time.monotonic()
        house.stop()
        assert seconds < 1.0
        assert time.monotonic() - begin < 8.0


def test_a_receiver_that_fails_twice_gets_the_same_message(stepped):
    word, receiver, clock = stepped
    receiver.script[:] = [503, "slow"]
    (channel,) = word.channels
    assert word.collect()
    outcomes = []
    for later in (0, 11, 61):
        clock.ahead += timedelta(seconds=later)
        outcomes.append(word.deliver(channel).outcome)
        assert word.deliver(channel) is None, "the next try is not due"
    assert outcomes == [DeliveryOutcome.FAILED, DeliveryOutcome.FAILED, DeliveryOutcome.TAKEN]
    assert len(set(names(receiver))) == 1
    assert len({body for _, body in receiver.came}) == 1
    clock.ahead += timedelta(hours=3)
    assert not word.collect(), "told once"
    assert word.deliver(channel) is None


def test_no_redirect_is_followed_and_410_ends_it(stepped):
    word, receiver, clock = stepped
    receiver.script[:] = [307, 410]
    (channel,) = word.channels
    word.collect()
    attempt = word.deliver(channel)
    assert (attempt.outcome, len(receiver.came)) == (DeliveryOutcome.FAILED, 1)
    assert "redirect" in attempt.problem
    clock.ahead += timedelta(seconds=11)
    assert word.deliver(channel).outcome is DeliveryOutcome.GONE
    clock.ahead += timedelta(days=1)
    assert word.deliver(channel) is None


def test_after_410_the_thread_ends(stepped):
    word, receiver, _ = stepped
    receiver.script[:] = [410]
    reports = []
    notifier = Notifier(word, lambda *report: reports.append(report), seconds=0.01)
    notifier.start()
    assert eventually(lambda: not any(t.name == "notify-webhook" for t in threading.enumerate()))
    notifier.stop()
    assert [(place, kind) for place, _, kind in reports] == [
        ("notify.webhook", "the receiver answers 410: it wants no more messages")
    ]


def test_a_crash_loses_no_word_and_repeats_it_under_its_name(stepped, monkeypatch):
    word, receiver, clock = stepped
    (channel,) = word.channels
    word.collect()
    monkeypatch.setattr(stewards, "end_message", failing)
    with pytest.raises(StorageError):
        word.deliver(channel)  # taken by the receiver, and the service dies before it can say so
    monkeypatch.undo()
    clock.ahead += timedelta(seconds=11)
    assert word.deliver(channel).outcome is DeliveryOutcome.TAKEN
    assert len(names(receiver)) == 2
    assert len(set(names(receiver))) == 1


def failing(*_):
    raise StorageError


def test_word_is_bounded_however_much_comes_to_wait(house, tmp_path):
    """While a receiver is dead, at most two messages wait: one that was tried, and one that grows."""
    with https_receiver(tmp_path / "https", *[500] * 1000) as receiver:
        tell(house, receiver)
        house.start()
        house.controller.notifier.stop()
        clock = Clock()
        word = post(house, clock)
        (channel,) = word.channels
        for _ in range(4):
            propose(house)
            clock.ahead += timedelta(hours=1)
            word.collect()
            word.deliver(channel)
        with word.database.reading() as tx:
            assert tx.exec_driver_sql("SELECT count(*) FROM messages").scalar_one() == 2
        clock.ahead += timedelta(days=3)
        assert word.deliver(channel).outcome is DeliveryOutcome.FAILED
        receiver.script.clear()
        assert word.deliver(channel).outcome is DeliveryOutcome.TAKEN, (
            "the tried one is lost after two days"
        )


def test_quiet_time_gathers_what_comes_to_wait(house, tmp_path):
    with https_receiver(tmp_path / "https") as receiver:
        tell(house, receiver, quiet=300)
        house.start()
        house.controller.notifier.stop()
        clock = Clock()
        word = post(house, clock)
        propose(house)
        assert word.collect()
        propose(house)
        assert not word.collect()
        clock.ahead += timedelta(seconds=301)
        assert word.collect(), "it was put off, not forgotten"


def test_what_waits_for_long_is_told_once_a_day_and_certificates_that_end(stepped):
    word, receiver, clock = stepped
    (channel,) = word.channels
    noon = clock().replace(hour=12, minute=0)
    word.collect()
    word.deliver(channel)
    told = []
    for hours in (48, 49, 53, 72, 73):
        clock.ahead = noon + timedelta(hours=hours) - datetime.now(UTC)
        told.append(word.collect())
        word.deliver(channel)
    assert told == [True, False, False, True, False]
    said = [json.loads(body)["data"]["waiting"] for _, body in receiver.came]
    assert said[0] == ["proposal"]
    assert said[1:] == [["long"], ["long"]]
    with word.database.reading() as tx:
        ends = [one.end for one in word.waiting.certificates(tx)]
        assert len(ends) >= 6, "service, authority, health, ana, aud, sam"
        clock.ahead = min(ends) - timedelta(days=13) - datetime.now(UTC)
        firsts = word.waiting.firsts(tx)
        kinds = set(notices(word.waiting.items(tx).rows, firsts, clock()).values())
    assert kinds == {"proposal", LONG, "certificate"}


def test_a_decision_that_waits_for_a_second_steward_is_told(house, tmp_path):
    house.edit({"automatic": "false\nstewards = 2"})
    house.start()
    card = propose(house)
    Steward(house.controller.controller_state).decide(Action.APPROVE, card.name)
    house.stop()
    with https_receiver(tmp_path / "https") as receiver:
        tell(house, receiver)
        word = post(house, Clock())
        assert word.collect()
        word.deliver(*word.channels)
    assert json.loads(receiver.came[0][1])["data"]["waiting"] == ["decision", "proposal"]


def test_settings_that_would_tell_others_are_refused(house):
    before = house.settings_file.read_text()
    secret = secret_file(house.folder / "secret", "whsec_" + "A" * 44)
    loose = secret_file(house.folder / "loose", "whsec_" + "A" * 44)
    loose.chmod(0o644)
    short = secret_file(house.folder / "short", "whsec_QUFB")
    mail = 'port = 25\nsender = "a@b.org"\nto = ["c@d.org"]'
    for table, problem in [
        (f'[notify.webhook]\nurl = "http://example.org"\nsecret_file = "{secret}"', "https"),
        (f'[notify.webhook]\nurl = "https://a:b@example.org"\nsecret_file = "{secret}"', "password"),
        (f'[notify.webhook]\nurl = "file:///etc/passwd"\nsecret_file = "{secret}"', "address"),
        (f'[notify.webhook]\nurl = "https://example.org"\nsecret_file = "{loose}"', "0600"),
        (f'[notify.webhook]\nurl = "https://example.org"\nsecret_file = "{short}"', "24 random"),
        (f'[notify.mail]\nhost = "example.org"\nsecurity = "none"\n{mail}', "this machine"),
        (f'[notify.mail]\nhost = "example.org"\nuser = "a"\n{mail}', "password_file"),
        ('[notify.mail]\nhost = "h"\nsender = "a@b.org"\nto = ["c@d.org\\nBcc: e@f.org"]', "characters"),
    ]:
        house.settings_file.write_text(f"{before}\n{table}\n")
        with pytest.raises(InvalidInputError, match=problem):
            channels_of(house.settings().notify)


def test_the_log_names_neither_receiver_nor_addressee(house, tmp_path):
    with https_receiver(tmp_path / "https") as chat, smtp_receiver(tmp_path / "smtp") as server:
        house.start()
        house.stop()
        tell(house, chat)
        tell_by_mail(house, server)
        house.start()
        house.stop()
        opened = open_controller_state(house.settings())
        with opened.database.reading() as tx:
            log = b"".join(entry.body for entry in opened.log.entries(tx))
    assert b"notify" in log
    assert not re.search(rb"https://|/word|example\.org", log)


def test_messages_are_fixed_sentences():
    for kind in SENTENCES:
        message = Message("word_1", (kind,), "house.test", "https://localhost:1/", datetime.now(UTC))
        text = message.text.splitlines()
        assert len(text) == 2
        assert text[1] == "Where: https://localhost:1/"
        assert json.loads(message.body())["data"]["waiting"] == [kind]
        assert message.mail("a@b.org", ["c@d.org"])["Auto-Submitted"] == "auto-generated"


def test_notify_test_sends_one_message_and_says_what_failed(house, tmp_path):
    run = CliRunner().invoke
    config = ["--config", str(house.settings_file)]
    assert run(app, ["notify", "test", *config]).exit_code == 1
    with (
        https_receiver(tmp_path / "https", 204, 500) as chat,
        smtp_receiver(tmp_path / "smtp") as server,
    ):
        tell(house, chat)
        tell_by_mail(house, server)
        answer = run(app, ["notify", "test", *config])
        assert (answer.exit_code, answer.output.split()) == (
            0,
            ["webhook:", "accepted", "mail:", "accepted"],
        )
        assert json.loads(chat.came[0][1])["type"] == "steward.test"
        (house.folder / "notify" / "password").write_text("another")
        answer = run(app, ["notify", "test", "--json", *config])
    assert answer.exit_code == 1
    outcomes = json.loads(answer.output)
    assert outcomes["webhook"]["problem"] == "the receiver answers 500"
    assert not outcomes["mail"]["taken"]
