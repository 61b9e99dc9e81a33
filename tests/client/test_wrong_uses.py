"""Wrong uses of library and shell, at a real controller: the class, the text, and what to do next."""

import pytest

from docs import wrong_uses
from gencard.core import errors
from tests.system.house import running


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    with running(tmp_path_factory.mktemp("wrong")) as house:
        return wrong_uses.answers(house)


def test_the_page_shows_them_as_they_are(answers):
    assert wrong_uses.PAGE.read_text(encoding="utf-8") == wrong_uses.page(answers), (
        "run `python -m docs.wrong_uses`"
    )


def test_there_are_many_and_each_ends_in_a_typed_error(answers):
    assert len(answers) >= 100
    for use, kind, text in answers:
        typed = issubclass(getattr(errors, kind, Exception), errors.GencardError)
        assert typed if not kind.startswith("exit") else kind in ("exit 1", "exit 2"), use
        assert text, use


def test_no_text_says_anything_twice(answers):
    for use, _, text in answers:
        sentences = [part for part in text.replace("→ ", "").split(". ") if len(part) > 20]
        assert len(sentences) == len(set(sentences)), use


def test_a_wrong_argument_is_named_and_nothing_of_a_frame_is_shown(answers):
    texts = {use: text for use, _, text in answers}
    for use, argument in (
        ('card.generate(rows="10")', "rows"),
        ("card.generate(rows=10, seed=1.5)", "seed"),
    ):
        assert texts[use].startswith(argument)
    assert not any("female" in text for text in texts.values())
