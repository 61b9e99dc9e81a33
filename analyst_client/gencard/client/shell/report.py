"""report: what a release keeps and gives away, as one page."""

from pathlib import Path
from typing import Annotated

import typer

from gencard.client.files.folder import make_folder
from gencard.client.shell.terminal import HERE, AsJson, Folder, connected, console, say, say_json
from gencard.core.errors import InvalidInputError

Measured = Annotated[
    bool,
    typer.Option(
        "--measure/--no-measure",
        help="Have measured at the records what was not yet: one statistic a number, once for a card.",
    ),
]


def report(
    name: Annotated[str, typer.Argument(help="A card, or one of its releases.", metavar="CARD|RELEASE")],
    page: Annotated[Path | None, typer.Option("--html", help="Write it as a page.")] = None,
    file: Annotated[Path | None, typer.Option("--report", help="Write it as JSON.")] = None,
    measure: Measured = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """What was released, its fidelity, risk, utility and audits, as far as your role may know.

    Exit code 0 whatever is found. Beside a page stands its JSON, unless --report names another place.
    """
    card, _, release = name.partition("/releases/")
    if page is not None and file is None:
        file = page.with_suffix(".json")
    if page is not None and page == file:
        raise InvalidInputError(field="report", problem="must differ from the file of the page")
    written = [path for path in (page, file) if path is not None]
    for path in written:
        make_folder(path.parent)
    with connected(connection) as analyst:
        found = analyst.card(card).report(name if release else None, measure=measure)
    say_json(found.document()) if as_json else console.print(found)
    if page is not None:
        found.save_html(page)
    if file is not None:
        found.save_json(file)
    if written and not as_json:
        say(f"Written: {', '.join(map(str, written))}")
