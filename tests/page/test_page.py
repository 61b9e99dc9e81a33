"""The page in a browser: queue, card, decisions by one steward and by two."""

import pytest
from playwright.sync_api import expect

from gencard.controller.state.log import event_of
from gencard.core.card.card import CardState
from tests.page.browsing import grave_findings, sideways
from tests.page.served import decide_on, signed_in

MARGINALS = [["sex", "health", "work"], ["sex", "work"], ["region"]]


@pytest.fixture(scope="module")
def sam(paged, chromium):
    """Sam's browser, signed in once for all tests; each begins with the page that it opens."""
    with signed_in(paged, chromium) as sam:
        yield sam


def propose(house, purpose="Health at work, by sex"):
    """A card that waits: one marginal has an order that the policy does not allow."""
    with house.analyst() as ana:
        return ana.propose("survey", MARGINALS, purpose=purpose, generator="ipf", rows=500).name


def stored(house, name):
    state = house.controller.controller_state
    with state.database.reading() as tx:
        return state.cards.card(tx, name)


def test_a_card_is_approved_with_the_keyboard_alone(paged, sam):
    name = propose(paged)
    page = sam.open("/")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Health at work, by sex")).to_be_visible()
    assert "order too high" in page.inner_text(".statistics")
    assert page.locator(".heat td.new").count() == 7  # four attributes, three pairs
    page.keyboard.press("a")
    page.keyboard.type("as agreed with the ministry")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("The card is offered to the analyst.")
    assert grave_findings(page) == []
    sam.watch.assert_calm()
    assert stored(paged, name).state is CardState.OFFERED
    assert stored(paged, name).history[-1].actor.endswith("/steward/sam")


def test_other_terms_are_offered(paged, sam):
    name = propose(paged, "To be countered")
    page = sam.open(f"/cards/{name}")
    page.keyboard.press("c")
    page.get_by_label("sex, health, work").check()
    page.get_by_label("Rows, at most").fill("100")
    decide_on(page, "Offer these terms")
    assert "STEWARD" not in page.inner_text("main")
    card = stored(paged, name)
    assert (card.state, card.offer.terms.rows) == (CardState.OFFERED, 100)
    assert {frozenset(one) for one in card.offer.terms.marginals} == {
        frozenset({"sex", "work"}),
        frozenset({"region"}),
    }


def test_a_proposal_is_refused_with_a_word_to_the_analyst(paged, sam):
    name = propose(paged, "To be refused")
    page = sam.open(f"/cards/{name}")
    page.keyboard.press("r")
    page.get_by_label("Remark for the analyst").fill("please ask the ethics board first")
    decide_on(page, "Refuse")
    assert "please ask the ethics board first" in page.inner_text(".history")
    assert stored(paged, name).state is CardState.TERMINATED


def test_what_changed_meanwhile_is_not_decided_on(paged, sam):
    name = propose(paged, "Taken back")
    page = sam.open(f"/cards/{name}")
    with paged.analyst() as ana:
        ana.card(name).terminate()
    decide_on(page, "Offer the changed terms", done=False)
    assert "has changed since" in page.inner_text("main")


def test_a_signing_key_is_replaced(paged, sam):
    state = paged.controller.controller_state
    with state.database.reading() as tx:
        before = state.keys["cards"].current(tx).public_key()
    page = sam.open("/people")
    page.locator("summary", has_text="Replace the key of cards").click()
    decide_on(page, "Replace the key of cards", "the yearly one")
    expect(page.get_by_role("status")).to_have_text("The key is replaced.")
    assert grave_findings(page) == []
    sam.watch.assert_calm()
    with state.database.reading() as tx:
        assert state.keys["cards"].current(tx).public_key() != before


def test_two_stewards_decide_each_with_a_passkey(of_two, chromium):
    name = propose(of_two, "Needs two")
    with signed_in(of_two, chromium, "sam") as sam, signed_in(of_two, chromium, "kim") as kim:
        decide_on(sam.open(f"/cards/{name}"), "Offer the changed terms")
        expect(sam.page.get_by_role("status")).to_contain_text(
            "It takes effect when another steward makes the same decision"
        )
        assert "waits for another steward" in sam.page.inner_text(".second")
        assert stored(of_two, name).state is CardState.REQUESTED
        kim.verify_user(False)
        page = kim.open(f"/cards/{name}")
        page.locator(".second").get_by_label("Reason").fill("seen too")
        page.get_by_role("button", name="Decide the same").click()
        expect(page.locator(".second [data-problem]")).to_have_text("The passkey was not confirmed.")
        kim.verify_user(True)
        page.get_by_role("button", name="Decide the same").click()
        expect(page.get_by_role("status")).to_have_text("The card is offered to the analyst.")
        kim.watch.assert_calm()
    assert stored(of_two, name).state is CardState.OFFERED


def test_it_fits_a_narrow_dark_window(of_two, chromium):
    name = propose(of_two, "On a telephone, with a purpose that is rather long for such a window")
    with signed_in(of_two, chromium, dark=True, size=(380, 780)) as sam:
        for path in ("/", f"/cards/{name}", "/nowhere"):
            page = sam.open(path)
            assert sideways(page) == 0
            assert grave_findings(page) == []


def test_the_risk_of_psi_is_looked_at(paged, sam):
    name = propose(paged, "To be looked at")
    page = sam.open(f"/cards/{name}")
    page.get_by_role("button", name="Examine the records").click()
    expect(page.get_by_text("Claims of certainty that the records contradict: 0")).to_be_visible()
    assert page.locator(".shades").count() == 2
    assert grave_findings(page) == []
    sam.watch.assert_calm()
    state = paged.controller.controller_state
    with state.database.reading() as tx:
        entries = [event_of(entry.body) for entry in state.log.entries(tx)]
    looks = {(one.action, one.actor.rpartition("/")[2]) for one in entries if one.resource == name}
    assert ("look-at-risk", "sam") in looks
