"""DECISIONS.md stays short, is numbered in order, and each reference leads to a decision."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "DECISIONS.md"
TEXT = PAGE.read_text(encoding="utf-8")
NUMBERS = [int(number) for number in re.findall(r"^### (\d+)\. ", TEXT, re.MULTILINE)]
MOST = 73
MOST_WORDS = 7_500  # 5,950 before numbers

ROOTS = (
    "shared",
    "protos",
    "controller_service",
    "analyst_client",
    "docs",
    "tests",
    "benchmarks",
    "examples",
)
KINDS = (".py", ".md", ".toml", ".yml", ".proto", ".html", ".sh")
REFERENCE = re.compile(r"(?:DECISIONS(?:\.md)?[,)]*|\b[Dd]ecisions?)[\s#]+(\d+)")


def references(text):
    """Numbers of the decisions that a text refers to."""
    return [int(number) for number in REFERENCE.findall(text)]


def pages():
    for root in ROOTS:
        yield from (path for path in (ROOT / root).rglob("*") if path.suffix in KINDS)
    yield from (path for path in ROOT.glob("*") if path.suffix in KINDS and path != PAGE)


def test_decisions_are_numbered_in_order_and_few():
    assert list(range(1, len(NUMBERS) + 1)) == NUMBERS
    assert 0 < len(NUMBERS) <= MOST
    assert len(TEXT.split()) <= MOST_WORDS


def test_every_decision_says_what_it_costs_or_rejects():
    _, *bodies = re.split(r"^### .*$", TEXT, flags=re.MULTILINE)
    bare = [
        n for n, body in zip(NUMBERS, bodies, strict=True) if not re.search(r"\*(Rejected|Cost):", body)
    ]
    assert not bare


def test_every_reference_leads_to_a_decision():
    wrong = {
        path.name: missing
        for path in pages()
        if (missing := set(references(path.read_text(encoding="utf-8"))) - set(NUMBERS))
    }
    assert not wrong


@pytest.mark.parametrize(
    "text", ["see DECISIONS.md, 28", "see decision 28", "[why](DECISIONS.md) 28", "DECISIONS.md#28"]
)
def test_a_reference_is_recognised(text):
    assert references(text) == [28]
