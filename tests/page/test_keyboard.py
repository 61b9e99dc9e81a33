"""The whole way of a decision without a mouse, and by screen readers' words."""

import re

from playwright.sync_api import expect

from gencard.client import new_request
from tests.page.browsing import needs_chromium, visitor
from tests.page.served import decide_on, enrol_passkey, sign_in, signed_in

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


class TestFormsOfADecidedCard:
    def test_keys_of_decisions_do_nothing_on_a_card_that_is_offered(self, house, chromium, card):
        with signed_in(house, chromium) as guest:
            decide_on(guest.open(f"/cards/{card}"), "Offer")
            for key in "acr":
                guest.page.keyboard.press(key)
            guest.watch.assert_calm()

    def test_the_first_of_two_stewards_presses_a_again(self, of_two, chromium):
        with of_two.analyst() as analyst:
            card = analyst.propose("survey", [("sex", "age")], purpose="To see").name
        with signed_in(of_two, chromium) as guest:
            decide_on(guest.open(f"/cards/{card}"), "Offer")
            guest.page.keyboard.press("a")
            guest.watch.assert_calm()

    def test_revoke_begins_at_the_reason_which_is_required(self, house, chromium, card):
        with signed_in(house, chromium) as guest:
            decide_on(guest.open(f"/cards/{card}"), "Offer")
            with house.analyst() as analyst:
                analyst.card(card).accept().generate(rows=5, progress=False)
            page = guest.open(f"/cards/{card}")
            facts = page.inner_text(".facts")
            assert "Card ends" in facts
            assert "Offer ends" not in facts
            page.keyboard.press("r")
            page.keyboard.type("The study is over")
            expect(page.locator("#revoke-reason")).to_have_value("The study is over")
            expect(page.locator("#remark")).to_have_value("")
            page.keyboard.press("Enter")
            expect(page.get_by_role("status")).to_have_text("The card is revoked.")
            assert "ends" not in page.inner_text(".facts")


def test_a_typing_error_in_the_fingerprint_keeps_the_form(house, chromium, tmp_path):
    keys = new_request(tmp_path, "dora")
    with signed_in(house, chromium) as guest:
        page = guest.open("/people")
        page.get_by_label("or paste its text").fill(keys.file.read_text())
        page.get_by_label("Role", exact=True).select_option("analyst")
        page.get_by_label("Project", exact=True).fill("pilot")
        page.get_by_role("button", name="Review the request").click()
        wrong = ("0" if keys.fingerprint[0] != "0" else "1") + keys.fingerprint[1:]
        page.get_by_label("Fingerprint that dora gave you").fill(wrong)
        page.get_by_label("Reason").fill("By telephone")
        page.get_by_role("button", name="Enrol dora").click()
        expect(page.locator("[data-problem]")).to_contain_text("does not match the request")
        expect(page.get_by_label("Reason")).to_have_value("By telephone")
        page.get_by_label("Fingerprint that dora gave you").fill(keys.fingerprint)
        page.get_by_role("button", name="Enrol dora").click()
        expect(page.get_by_role("heading", name="dora is enrolled")).to_be_visible()
        guest.watch.assert_calm()
