"""The page in a browser: sign-in, queue, card, decisions."""

from tests.page.served import signed_in


def test_a_steward_signs_in_with_a_passkey(paged, chromium):
    with signed_in(paged, chromium) as sam:
        assert "Nothing waits." in sam.page.inner_text("main")
        sam.watch.assert_calm()


def test_a_card_is_approved(paged, chromium):
    with paged.analyst() as ana:
        ana.propose(
            "survey",
            [["sex", "health"], ["health", "work"], ["region"]],
            purpose="Health at work, by sex",
            generator="ipf",
            rows=500,
        )
    with signed_in(paged, chromium) as sam:
        sam.page.keyboard.press("j")
        sam.page.keyboard.press("Enter")
        sam.page.get_by_role("heading", name="Released together").wait_for()
        sam.page.keyboard.press("a")
        sam.page.get_by_label("Reason").first.fill("fine")
        sam.page.get_by_role("button", name="Offer").first.click()
        sam.page.get_by_role("status").wait_for()
        sam.watch.assert_calm()
