import pytest

from tests.page.browsing import needs_chromium
from tests.page.story import tell
from tests.system.sandboxes import needs_sandbox

pytestmark = [needs_chromium, needs_sandbox, pytest.mark.timeout(180)]


def test_two_stewards_negotiate_a_card_and_release_an_answer(tmp_path):
    tell(tmp_path)
