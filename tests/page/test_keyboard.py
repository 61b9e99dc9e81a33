"""The whole way of a decision without a mouse, and by screen readers' words."""

import re

from playwright.sync_api import expect

from tests.page.browsing import needs_chromium, visitor
from tests.page.served import enrol_passkey, sign_in

pytestmark = needs_chromium


def test_a_decision_by_keys_alone(house, chromium, card):
    with visitor(chromium, house.origin) as guest:
        enrol_passkey(house, guest, "sam")
        page = guest.open("/sign-in")
        # the focus comes a frame after the page
        expect(page.get_by_role("button", name="Sign in")).to_be_focused()
        page.keyboard.press("Enter")
        page.wait_for_url(f"{house.origin}/")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("/cards/"))
        page.keyboard.press("a")
        page.keyboard.type("Fits the policy")
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_contain_text("offered")
        page.keyboard.press("g")
        page.keyboard.press("q")
        page.wait_for_url(f"{house.origin}/")
        guest.watch.assert_calm()
    with house.analyst() as analyst:
        assert analyst.card(card).state == "offered"


def test_keys_typed_into_a_field_are_text(house, chromium, card):
    with visitor(chromium, house.origin) as guest:
        enrol_passkey(house, guest, "sam")
        sign_in(guest)
        page = guest.open(f"/cards/{card}")
        page.keyboard.press("r")
        reason = page.locator("input:focus")
        page.keyboard.type("garjk?/")
        expect(reason).to_have_value("garjk?/")
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_be_hidden()


def test_tab_reaches_every_control_of_a_card_and_shows_where_it_is(house, chromium, card):
    with visitor(chromium, house.origin) as guest:
        enrol_passkey(house, guest, "sam")
        sign_in(guest)
        page = guest.open(f"/cards/{card}")
        controls = page.locator("a:visible, button:visible, input:visible, summary:visible").count()
        reached, unseen = set(), []
        for _ in range(controls + 20):
            page.keyboard.press("Tab")
            place, outline = page.evaluate(
                """() => {
                  const all = [...document.querySelectorAll("a, button, input, summary, [tabindex]")];
                  const { outlineStyle, boxShadow } = getComputedStyle(document.activeElement);
                  return [all.indexOf(document.activeElement), outlineStyle + boxShadow];
                }"""
            )
            if place in reached:
                break
            reached.add(place)
            if outline == "nonenone" and place >= 0:
                unseen.append(place)
        assert len(reached) >= controls - 1
        assert unseen == []
