"""docs/errors.md, from the tree of errors and the table of statuses: ``python -m docs.errors``."""

from collections.abc import Iterator
from pathlib import Path
from string import Formatter

from gencard.core import errors
from gencard.core.errors import GencardError
from gencard.wire.codecs.error_table import STATUS

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
    return "\n".join((_HEAD, _tree(), *_sections()))


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
