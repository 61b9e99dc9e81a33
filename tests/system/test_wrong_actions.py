"""Wrong actions of operators, stewards, auditors and authors: docs/wrong-actions.md is true."""

import pytest

from docs import wrong_actions
from tests.system.sandboxes import needs_sandbox

pytestmark = [needs_sandbox, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def answers():
    return wrong_actions.answers()


def test_the_page_has_not_drifted(answers):
    assert wrong_actions.PAGE.read_text(encoding="utf-8") == wrong_actions.page(answers), (
        "run `python -m docs.wrong_actions`"
    )


def test_each_text_names_the_cause_and_what_to_do(answers):
    assert len(answers) >= 60
    lacking = {
        action.what
        for action, _, text in answers
        if action.cause not in text or action.advice not in text
    }
    assert not lacking
