"""docs/errors.md, from the tree of errors and the table of statuses: ``python -m docs.errors``."""

from collections.abc import Iterator
from pathlib import Path
from string import Formatter

from gencard.core import errors
from gencard.core.errors import CHANGE_REASONS, GencardError
from gencard.core.policy import Rule
from gencard.wire.error_table import STATUS

PAGE = Path(__file__).with_suffix(".md")

_HEAD = """\
# Errors

Made from the code by `make docs`.

An error has a *reason* (stable, for programs), a *text* (one public sentence with fields) and an
*advice* (what to do next). Only reason and fields are sent, as `google.rpc.ErrorInfo` of the domain
`gencard`; the client restores the text and raises the class from `gencard.core.errors`, so that
`except BudgetExceededError` and its parents work. Fields hold what the caller sent or what is public:
never a record, a count or the text of another exception.
"""


def page() -> str:
    """The whole page."""
    return "\n".join((_HEAD, _tree(), *_sections(), *_changes(), *_rules()))


_CHANGES = """\
## Reasons of changes and refusals

These codes stand beside each change of an offer, and in refused proposals and answers.
"""

_ANSWERS = """\
## Rules of answers

An analyst gets the one reason `output-rules` for each refusal that depends on the records: ask about
more people, fewer groups or fewer terms. These codes are for stewards, beside an answer or a refusal.
"""

RULES = {
    Rule.THRESHOLD: "Merge rare levels, or leave the group out with `where`.",
    Rule.ZERO: "Merge the empty level with another one.",
    Rule.DOMINANCE: "Merge groups: few contributions are most of the sum.",
    Rule.REMAINDER: "Merge groups: the largest contribution could be estimated.",
    Rule.NEGATIVE: "Look at the contributions: dominance is not defined below 0.",
    Rule.FREEDOM: "Fit fewer terms, or more records.",
    Rule.SATURATED: "Fit fewer terms: the model is the table of its cells.",
    Rule.LEVERAGE: "Merge rare levels: a fitted value rests on too few records.",
    Rule.SAME: "Merge groups: all records of one have the same value.",
    Rule.EXTREME: "Release a quantile in place of a smallest or largest value.",
    Rule.RANK: "Take a quantile nearer to the middle.",
    Rule.SURVIVAL: "Merge groups, or end the curve earlier.",
    Rule.MISSING: "Look at the records without a value, or use `missing`.",
    Rule.DIFFERENCING: "Ask about the population of an earlier answer, or about a quite different one.",
    Rule.DROWNED: "Give the run more budget, or fewer groups.",
    Rule.INFLUENCE: "Look at the record that moves the number; release it if it reveals nothing.",
    Rule.UNDECIDED: "Compare with earlier answers by hand: the search for small counts is too large.",
    Rule.UNKNOWN: "Look at the number: no rule covers it.",
    Rule.UNANSWERED: "Change the question: it has no result at these records.",
    Rule.NUMBERS: "Ask for fewer groups or terms, or grant more numbers on the card.",
    Rule.FAILED: "Read the service's log: the run failed, or exceeded a limit of its process.",
}
"""Rule that a number breaks -> what a steward does then."""


def main() -> None:
    """Write the page anew."""
    PAGE.write_text(page(), encoding="utf-8")


def _tree() -> str:
    drawn = (errors.__doc__ or "").partition("    GencardError\n")[2]
    lines = ["GencardError", *(line.removeprefix("    ") for line in drawn.splitlines())]
    return "\n".join(("```text", *lines, "```", ""))


def _sections() -> Iterator[str]:
    for branch in GencardError.__subclasses__():
        if branch in STATUS:
            yield f"## {branch.__name__}\n"
            yield "| reason | status | text | fields | advice |\n|---|---|---|---|---|"
            yield from map(_row, _below(branch))
            yield ""


def _changes() -> Iterator[str]:
    yield _CHANGES
    yield "| reason | meaning | advice |\n|---|---|---|"
    for code, (meaning, advice) in sorted(CHANGE_REASONS.items()):
        yield f"| `{code}` | {meaning} | {advice} |"
    yield ""


def _rules() -> Iterator[str]:
    yield _ANSWERS
    yield "| rule | what to do |\n|---|---|"
    yield from (f"| `{rule}` | {advice} |" for rule, advice in RULES.items())
    yield ""


def _below(kind: type[GencardError]) -> Iterator[type[GencardError]]:
    """The class and all below it, as the file has them."""
    if kind in STATUS:
        yield kind
    for child in kind.__subclasses__():
        yield from _below(child)


def _row(kind: type[GencardError]) -> str:
    fields = ", ".join(f"`{name}`" for _, name, _, _ in Formatter().parse(kind.text) if name)
    text = kind.text.replace("{", "*").replace("}", "*")
    return f"| `{kind.reason}` | {STATUS[kind].name} | {text} | {fields} | {kind.advice} |"


if __name__ == "__main__":
    main()
