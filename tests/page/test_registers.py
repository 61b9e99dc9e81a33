"""The views of budgets, releases, audits, answers, people and the log, in a browser."""

import re
from html import unescape
from pathlib import Path

import pytest
from playwright.sync_api import expect
from sqlalchemy import update

from gencard.client import Steward as Visitor
from gencard.client import install_answer, new_request
from gencard.controller.state.tables import releases
from gencard.core.card.budget import Price
from gencard.core.errors import AnswerWaitingError
from gencard.wire.canonical import sha256
from gencard.wire.keys import Identity, grouped
from tests.page.browsing import needs_chromium
from tests.page.by_http import http_steward, page_running
from tests.page.served import signed_in, uri_of, with_page
from tests.system.sandboxes import needs_sandbox
from tests.system.stewards import Steward

pytestmark = [needs_sandbox, needs_chromium, pytest.mark.timeout(300)]

PROGRAM = """
from gencard.run import output, records
frame = records()
output.table("sex by <b>health</b>", frame.groupby(["sex", "health"], observed=True).size().unstack())
output.scalar("mean age", frame["age"].mean())
output.scalar("few", 4, count=True)
"""
PURPOSE = "To see <script>alert(1)</script>"


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory):
    """A controller with releases, audits and an answer that waits; the names of card and answer."""
    folder = tmp_path_factory.mktemp("views")
    house = with_page(folder)
    with house.settings_file.open("a") as settings:
        settings.write('\n[stewards]\ntwo = ["enrol"]\n')
    house.edit({"automatic": "true\nanalyses = { reviewed_runs = 3, program_numbers = 60 }"})
    try:
        house.start()
        yield house, *_history(house, folder)
    finally:
        house.stop()


@pytest.fixture(scope="module")
def sam(lived_in, chromium):
    """Sam's browser, signed in once for all tests; each begins with the page that it opens."""
    house, *_ = lived_in
    with signed_in(house, chromium) as sam:
        yield sam


def _history(house, folder: Path) -> tuple[str, str]:
    program = folder / "analysis.py"
    program.write_text(PROGRAM)
    granted = {"programs": [sha256(PROGRAM.encode())], "reviewed_runs": 3, "program_numbers": 60}
    with house.analyst() as ana:
        marginals = [("sex", "health"), ("sex", "age")]
        card = ana.propose("survey", marginals, purpose=PURPOSE, analyses=granted).accept()
        card.release(rows=300, seed=1)
        card.audit("copier", where="card")
        with pytest.raises(AnswerWaitingError) as waiting:
            card.run(program=program, seed=3, progress=False)
    return card.name, waiting.value.fields["answer"]


def steward(house, name="sam"):
    return Identity.of(uri_of(house, name))


def test_a_budget_shows_what_is_held_and_a_line_is_voided_once(lived_in, sam):
    house, card, _ = lived_in
    state, ana = house.controller.controller_state, uri_of(house, "ana")
    with state.database.transaction() as tx:
        held = {"kind": "psi", "price": Price(7), "now": state.cards.clock()}
        facts = {"dataset": "datasets/survey", "project": "pilot", "analyst": ana, "resource": card}
        line = state.ledger.reserve(tx, **facts, **held)
    page = sam.open("/budget")
    row = page.locator(f"#line-{line}")
    assert row.get_by_role("link").get_attribute("href") == f"/cards/{card}"
    row.get_by_text("End it").click()
    row.get_by_label("Reason").last.fill("nothing was released")
    row.get_by_role("button", name="Void").click()
    page.get_by_role("status").wait_for()
    assert page.locator(f"#line-{line}").get_by_text("voided").is_visible()
    sam.watch.assert_calm()
    with state.database.reading() as tx:
        assert state.ledger.line(tx, line).state == "voided"


def test_a_budget_over_time_of_each_holder(sam):
    page = sam.open("/budget")
    for holder in ("pilot", "ana"):
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=holder)).first
        drawn = row.get_by_role("img", name=re.compile("exact statistics: .* spent since"))
        assert not drawn.is_visible()
        row.get_by_text("Over time").click()
        assert drawn.is_visible()
    sam.watch.assert_calm()


def test_releases_of_one_dataset(lived_in, sam):
    _, card, _ = lived_in
    page = sam.open("/releases/of/datasets/survey")
    assert page.get_by_role("heading", name="Releases and audits of survey").is_visible()
    assert page.locator(f'a[href="/cards/{card}"]').count() == 2, "a release and an audit"
    page = sam.open("/releases/of/datasets/elsewhere")
    assert page.get_by_text("No releases yet of this dataset").is_visible()
    page.get_by_role("link", name="All").click()
    page.get_by_role("heading", name="Releases and audits", exact=True).wait_for()
    assert page.locator(f'a[href="/cards/{card}"]').count() == 2
    sam.watch.assert_calm()


def test_a_receipt_that_was_changed_is_called_wrong(lived_in, sam):
    house, *_ = lived_in
    database = house.controller.controller_state.database
    archive = house.controller.controller_state.desk().archive(steward(house))
    (view,) = archive.releases().rows
    assert not view.problem
    with database.transaction() as tx:
        tx.execute(update(releases).values(rows=view.row.rows + 1))
    try:
        sam.open(f"/releases/{view.row.name}")
        assert "receipt and state differ in the number of rows" in sam.page.inner_text("main")
        assert PURPOSE in sam.page.inner_text("main")
        sam.watch.assert_calm()
    finally:
        with database.transaction() as tx:
            tx.execute(update(releases).values(rows=view.row.rows))


def test_the_log_is_searched_without_words_in_the_address_and_entries_are_verified(sam):
    page = sam.open("/log")
    page.get_by_role("searchbox").fill("action:audit who:ana")
    expect(page.locator("#entries tbody tr")).to_have_count(1)
    assert page.url.endswith("/log")
    page.get_by_role("searchbox").fill("since:tomorrow")
    page.get_by_text("is not a day written YYYY-MM-DD").wait_for()
    page.get_by_role("searchbox").fill("action:enrol-passkey")
    page.get_by_role("searchbox").fill("")
    page.locator("#entries tbody tr").get_by_role("link").first.click()
    page.get_by_role("button", name="Verify").click()
    page.get_by_text("Every step holds.").wait_for()
    assert page.locator(".steps li").count() in (3, 4)
    sam.watch.assert_calm()


def test_an_answer_is_released_number_by_number(lived_in, sam):
    house, card, answer = lived_in
    page = sam.open(f"/answers/{answer}")
    assert page.get_by_role("heading", name="sex by <b>health</b>").is_visible()
    row = page.locator("tr.red")
    assert row.get_by_role("checkbox").is_checked()
    page.locator("tr.green").first.get_by_role("checkbox").check()
    page.get_by_label("Round to").select_option("2")
    page.get_by_label("Reason").first.fill("as agreed")
    page.get_by_role("button", name="Release all numbers").click()
    page.get_by_role("status").wait_for()
    assert "released" in page.inner_text("main")
    sam.watch.assert_calm()
    with house.analyst() as ana:
        program = house.folder.parent / "analysis.py"
        given = ana.card(card).run(program=program, seed=3, progress=False)
    values = given.estimates.table("sex by <b>health</b>").values
    assert values[0][0] is None
    assert values[1][0] == float(f"{values[1][0]:.2g}")


def enrol(sam, file: Path, fingerprint: str) -> None:
    """Upload a request, and enrol with a fingerprint."""
    page = sam.open("/people")
    page.get_by_label("The request: choose the file").set_input_files(file)
    expect(page.locator("#request")).to_have_value(re.compile("payload"))
    page.get_by_label("Role").select_option("analyst")
    page.get_by_label("Project").fill("pilot")
    page.get_by_role("button", name="Review the request").click()
    page.get_by_role("heading", name="Enrol zoe").wait_for()
    assert page.get_by_text("asked for auditor").is_visible()
    page.get_by_label("Fingerprint that zoe gave you").fill(fingerprint)
    page.get_by_label("Reason").fill("joins the pilot")
    page.get_by_role("button", name="Enrol zoe").click()


def test_two_stewards_enrol_by_the_fingerprint_and_one_disables(lived_in, sam, chromium, tmp_path):
    house, *_ = lived_in
    request = new_request(tmp_path, "zoe", role="auditor", project="pilot")
    enrol(sam, request.file, "0" * 64)
    sam.page.get_by_text("does not match the request").wait_for()
    enrol(sam, request.file, grouped(request.fingerprint))
    sam.page.get_by_text("This waits for another steward.").wait_for()
    with signed_in(house, chromium, "kim") as kim:
        page = kim.open("/people")
        page.get_by_label("Reason").first.fill("I asked zoe too")
        page.get_by_role("button", name="Decide the same").click()
        page.get_by_role("heading", name="zoe is enrolled").wait_for()
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save the answer").click()
        install_answer(tmp_path, Path(saved.value.path()).read_bytes())
        kim.watch.assert_calm()
    page = sam.open("/people")
    row = page.locator("tr", has_text="zoe")
    row.get_by_text("Disable", exact=True).click()
    row.get_by_label("Reason").fill("a test")
    row.get_by_role("button", name="Disable").click()
    page.get_by_role("status").wait_for()
    assert page.locator("tr", has_text="zoe").get_by_text("disabled", exact=True).is_visible()
    sam.watch.assert_calm()


ANALYSES = 'analyses = { kinds = ["crosstab"], checked_runs = 5, release = "steward" }\n'
SET_OFF = "sex == 'female' or sex == 'male'"


def test_what_was_asked_stands_beside_an_answer(tmp_path):
    """Missing values, subpopulation, options and number of records, on the page and in the shell."""
    with page_running(tmp_path, ANALYSES) as house:
        with house.analyst() as ana:
            granted = {"kinds": ["crosstab"], "checked_runs": 5}
            card = ana.propose("survey", [("sex", "health")], purpose="To see", analyses=granted)
            Steward(house.controller.controller_state).approve(card.name)
            card = ana.card(card.name).accept()
            with pytest.raises(AnswerWaitingError) as waiting:
                card.run("sex ~ health", "crosstab", missing="drop", where=SET_OFF, progress=False)
        name = waiting.value.fields["answer"]
        with http_steward(house, "sam") as sam:
            text = unescape(sam.http.get(f"/answers/{name}").text)
        assert "records with a missing value in the formula are left out" in text
        assert SET_OFF in text
        (number,) = re.findall("<dt>Records</dt><dd>([0-9,]+), exact</dd>", text)
        with Visitor.connect(house.address, folder=house.person("sam")) as steward:
            lines = dict(steward.answer(name).lines())
        assert lines["Records"] == f"{number}, exact"
        assert lines["Where"] == SET_OFF
        assert lines["Missing values"] == "records with one in the formula are left out"
