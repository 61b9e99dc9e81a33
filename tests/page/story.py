"""The steward's desk as one story: a proposal, word, two stewards, a counter-offer, an answer, the log.

Real parts all the way: a controller over TLS, a mail server, two browsers with passkeys, an analyst's
client, a program in the sandbox. ``python -m docs.steward_story`` takes pictures on the way.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from playwright.sync_api import Page, expect

from gencard.client import Card
from gencard.core.errors import AnswerWaitingError
from gencard.wire.canonical import sha256
from tests.page.browsing import Visitor, chromium_running, take_picture, visitor
from tests.page.by_http import PageHouse, page_house
from tests.page.served import enrol_passkey, sign_in
from tests.page.waiting import let_wait
from tests.system.house import survey
from tests.system.receivers import PASSWORD, Receiver, secret_file, smtp_receiver

SIZE = (1_080, 760)
"""Size of the pictures, in pixels."""

PURPOSE = "Does health at work differ between regions once age is the same?"
ASKED = [("sex", "health", "work"), ("health", "region"), ("health", "age"), ("work", "age")]
PROGRAM = """\
from gencard.run import output, records

frame = records()
output.table("health by region", frame.groupby(["region", "health"], observed=True).size().unstack())
output.scalar("mean age", frame["age"].mean())
south = frame[frame.region == "south"]
output.scalar("very bad in the south", (south.health == "very bad").mean())
"""
ANALYSES = {"programs": [sha256(PROGRAM.encode())], "reviewed_runs": 2, "program_numbers": 40}
POLICY = "stewards = 2\nanalyses = { reviewed_runs = 2, program_numbers = 40, columns = ['age'] }\n"
NOTIFY = """
[notify]
quiet_seconds = 0

[notify.mail]
host = "localhost"
port = {port}
user = "gencard"
password_file = "{password}"
authority = "{authority}"
sender = "gencard@agency.example"
to = ["stewards@agency.example"]
"""
SECRETS = (PURPOSE, "health", "region", "survey")
"""Words that no mail may hold."""


@dataclass(frozen=True)
class Cast:
    """People and tools of the story.

    Args:
        pictures: Where pictures go; None where nobody wants them.
    """

    house: PageHouse
    mail: Receiver
    sam: Visitor
    kim: Visitor
    pictures: Path | None

    def picture(self, page: Page, name: str, *, height: int = SIZE[1], top: str = "body") -> None:
        """Take a picture from the top of an element on."""
        if self.pictures is not None:
            file = self.pictures / f"steward-{name}.png"
            take_picture(page, file, height=height, top=page.locator(top).first)


@contextmanager
def on_stage(folder: Path, pictures: Path | None) -> Iterator[Cast]:
    """Everything started, nobody signed in yet."""
    with smtp_receiver(folder / "mail") as mail, chromium_running() as browser:
        house = page_house(folder, POLICY)
        few_are_very_ill(folder / "survey.csv")
        with_ages_in_years(house)
        password = secret_file(folder / "mail" / "password", PASSWORD)
        with house.settings_file.open("a") as settings:
            told = {"port": mail.port, "password": password, "authority": mail.authority}
            settings.write(NOTIFY.format(**told))
        let_wait(house, 4)
        house.start()
        try:
            with (
                visitor(browser, house.origin, size=SIZE) as sam,
                visitor(browser, house.origin, size=SIZE) as kim,
            ):
                yield Cast(house, mail, sam, kim, pictures)
        finally:
            house.stop()


def few_are_very_ill(file: Path) -> None:
    """A small survey in which some cells hold few records, so that there is something to look at."""
    frame = survey(400)
    kept = (frame.health != "very bad") | (frame.index % 5 == 0)
    frame[kept].to_csv(file, index=False)


def with_ages_in_years(house: PageHouse) -> None:
    """Declare a step, so that programs get ages as the file has them."""
    schema = house.folder / "schema.toml"
    text, count = re.subn(r"(?m)^edges = .*$", r"\g<0>\nstep = 1", schema.read_text())
    assert count == 1
    schema.write_text(text)


def eventually(true: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def tell(folder: Path, pictures: Path | None = None) -> None:
    """The whole story; an AssertionError where it goes another way."""
    with on_stage(folder, pictures) as cast, cast.house.analyst() as analyst:
        eventually(lambda: cast.mail.came)
        cast.mail.came.clear()
        card = analyst.propose(
            "survey", ASKED, purpose=PURPOSE, generator="ipf", rows=1_000, analyses=ANALYSES
        )
        word_goes_out(cast)
        stewards_sign_in(cast)
        they_look(cast, card.name)
        they_counter(cast, card.name)
        card = analyst.card(card.name).counter(marginals=ASKED[1:])
        they_approve(cast, card.name)
        agreed = analyst.card(card.name).accept()
        an_answer_is_released(cast, agreed, folder)
        the_log_shows_it(cast, card.name)
        for steward in (cast.sam, cast.kim):
            steward.watch.assert_calm()


def word_goes_out(cast: Cast) -> None:
    """A mail that says that something waits, and where; and nothing of what."""
    eventually(lambda: cast.mail.came)
    _, to, content = cast.mail.came[0]
    text = content.decode()
    assert to == ["stewards@agency.example"]
    assert "A proposal is waiting" in text
    assert not [secret for secret in SECRETS if secret in text]


def stewards_sign_in(cast: Cast) -> None:
    """Each makes a passkey by a link of their own."""
    for steward, name in ((cast.sam, "sam"), (cast.kim, "kim")):
        enrol_passkey(cast.house, steward, name)
    cast.picture(cast.sam.page, "sign-in", height=360)
    for steward in (cast.sam, cast.kim):
        sign_in(steward)
    expect(cast.sam.page.get_by_text(PURPOSE)).to_be_visible()
    cast.picture(cast.sam.page, "queue", height=420)


def they_look(cast: Cast, name: str) -> None:
    """Look at the proposal and the offer, at the heat map, and at the preview of psi."""
    page = cast.sam.open(f"/cards/{name}")
    expect(page.get_by_role("heading", name=PURPOSE)).to_be_visible()
    assert page.locator(".statistics .removed").count() == 1, "the policy allows no three at once"
    expect(page.get_by_role("heading", name="Released together")).to_be_visible()
    cast.picture(page, "card")
    page.get_by_role("button", name="Examine the records").click()
    expect(page.get_by_text("Cells of one record")).to_be_visible(timeout=60_000)
    cast.picture(page, "risk", height=640, top="section:has(> #risk)")


def they_counter(cast: Cast, name: str) -> None:
    """Sam leaves a table out; nothing happens until kim decides the same."""
    page = cast.sam.open(f"/cards/{name}")
    page.keyboard.press("c")
    page.get_by_label("work, age").check()
    _decide(page, "Offer these terms", "age and work need not be together")
    expect(page.get_by_role("status")).to_contain_text(
        "It takes effect when another steward makes the same decision"
    )
    _decide_the_same(cast, name, "counter", "second")


def they_approve(cast: Cast, name: str) -> None:
    """The analyst asks again with a reason; now both agree to it."""
    page = cast.sam.open(f"/cards/{name}")
    _decide(page, re.compile("^Offer"), "the analyst explained why")
    expect(page.get_by_role("status")).to_contain_text(
        "It takes effect when another steward makes the same decision"
    )
    _decide_the_same(cast, name, "approve")


def _decide(page: Page, button: str | re.Pattern[str], reason: str) -> None:
    form = page.locator("form").filter(has=page.get_by_role("button", name=button))
    form.get_by_label("Reason").fill(reason)
    form.get_by_role("button", name=button).click()
    expect(page.get_by_role("status")).to_be_visible()


def _decide_the_same(cast: Cast, name: str, kind: str, picture: str = "") -> None:
    page = cast.kim.open(f"/cards/{name}")
    expect(page.get_by_role("heading", name=f"sam decided to {kind}")).to_be_visible()
    if picture:
        cast.picture(page, picture, height=460, top=".second")
    _decide(page, re.compile("^Decide the same"), "seen, and the same for me")
    expect(page.get_by_role("status")).to_contain_text("offered to the analyst")


def an_answer_is_released(cast: Cast, card: Card, folder: Path) -> None:
    """A program's numbers wait; one is withheld, the others go out by two decisions."""
    program = folder / "analysis.py"
    program.write_text(PROGRAM)
    card.release(rows=1_000, seed=1)
    answer = ""
    try:
        card.run(program=program, seed=3, progress=False)
    except AnswerWaitingError as waits:
        answer = waits.fields["answer"]
    page = cast.sam.open("/answers")
    page.locator("main tbody a").first.click()
    expect(page.get_by_role("heading", name="health by region")).to_be_visible()
    mean = pd.read_csv(folder / "survey.csv").age.mean()
    expect(page.get_by_role("cell", name=f"{mean:.5g}", exact=True)).to_be_visible()
    page.get_by_label("Withhold health by region/south/very bad").check()
    cast.picture(page, "answer", top="form#release")
    _decide(page, "Release all numbers that are not withheld", "all counts are large but one")
    page = cast.kim.open(f"/answers/{answer}")
    _decide(page, "Decide the same", "seen, and the same for me")
    table = card.run(program=program, seed=3, progress=False).estimates.table("health by region")
    withheld = table.values[table.row_names.index("south")][table.column_names.index("very bad")]
    assert withheld is None
    assert table.values[0][0] is not None


def the_log_shows_it(cast: Cast, name: str) -> None:
    """Every decision with the names of both, and a proof for each."""
    page = cast.kim.open("/log")
    page.get_by_label("Search").fill(name.rpartition("/")[2])
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("cell", name="propose")).to_have_count(1)
    rows = page.locator("#entries tbody").inner_text()
    for word in ("sam", "kim", "ana", "decide-first", "decide", "accept"):
        assert word in rows, word
    cast.picture(page, "log")
    page.locator("#entries tbody a").first.click()
    page.get_by_role("button", name=re.compile("Verify")).or_(
        page.get_by_role("link", name=re.compile("Verify"))
    ).click()
    expect(page.get_by_text("Every step holds.")).to_be_visible()
    cast.picture(page, "proof")
