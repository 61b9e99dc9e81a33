"""Measure the source tree: ``python -m docs.house [--trace] [--against COMMIT] [--names]``.

``--tree`` prints the packages, ``--write-tree`` puts the tiers on their page (as ``make docs`` does).
``--cost COMMIT`` counts the files and lines that the change since then touches.
"""

import argparse
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path

from rich.console import Console

from docs.house import comments, tree
from docs.house.comparison import FIRST, checkout, comparison
from docs.house.cost import cost, touched_since
from docs.house.doors import doors
from docs.house.measures import Measures, measure
from docs.house.sources import ROOT
from docs.house.trace import Trace, trace


def main() -> None:
    """Print the table, or the tree."""
    arguments = _arguments()
    console = Console(highlight=False)
    if arguments.write_tree:
        tree.write()
    elif arguments.tree:
        print(tree.tree(), end="")  # noqa: T201
    elif arguments.cost:
        console.print(cost(touched_since(arguments.cost)))
    else:
        _compare(console, arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m docs.house", description="Measure the source tree.")
    parser.add_argument("--trace", action="store_true", help="also run four calls and trace them")
    parser.add_argument("--against", metavar="COMMIT", help=f"measure this commit, not quote {FIRST}")
    parser.add_argument("--names", action="store_true", help="name what the figures count")
    parser.add_argument("--tree", action="store_true", help="print the packages as a tree")
    parser.add_argument("--write-tree", action="store_true", help="put the tiers on the page")
    parser.add_argument("--cost", metavar="COMMIT", help="count what the change since it touches")
    return parser.parse_args()


def _compare(console: Console, arguments: argparse.Namespace) -> None:
    with ExitStack() as stack:
        commit: str | None = arguments.against
        other = stack.enter_context(checkout(commit)) if commit else None
        now, first = measure(ROOT), measure(other) if other else None
        traces = _traces(other) if arguments.trace else None
        console.print(comparison(now, first, traces, commit or FIRST))
    console.print(comments.table())
    if arguments.names:
        _name(console, now, traces[0] if traces else None)


def _traces(other: Path | None) -> tuple[Trace, Trace | None]:
    return trace(ROOT), trace(other) if other else None


def _name(console: Console, now: Measures, traced: Trace | None) -> None:
    calls = {} if traced is None else {one.name: getattr(traced, one.name) for one in fields(Trace)}
    lists: dict[str, Iterable[object]] = {
        "Modules with one importer, under 60 lines": now.small_one_importer,
        "Modules that no user can reach": now.unreachable,
        "Folders of more than 16 files": _counted(now.flat_folders),
        "Names that an earlier plan replaced": _counted(now.words),
        "Pairs of classes, and why each is two": now.pairs,
        "Class names defined more than once": _counted(now.repeated_names),
        "Docstrings that open badly": now.bad_openings,
        "Lines of conversions by hand": [f"{one.lines} {one.name}" for one in now.conversions],
        "Names that other rooms import": [
            f"{len(names)} {room}: {', '.join(sorted(names))}"
            for room, names in doors().items()
            if names
        ],
        "Comment lines at the tricks": [
            f"{len(one.lines)} {one.topic}: {one.name}" for one in comments.places()
        ],
        **{f"Files run by one {name}": call.modules for name, call in calls.items()},
        **{f"Calls of codecs in one {name}": _counted(call.codec_calls) for name, call in calls.items()},
    }
    for title, names in lists.items():
        if names:
            console.print(f"\n[bold]{title}[/]", *map(str, names), sep="\n  ")


def _counted(counts: Mapping[str, int]) -> list[str]:
    return [f"{count} {name}" for name, count in counts.items()]


if __name__ == "__main__":
    main()
