"""audits: the evidence against each black box, and a steward's decision to clear it."""

from itertools import groupby
from typing import Annotated

import typer

from gencard.controller.records.holdings import PREFIX
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    StewardName,
    console,
    desk,
    say_json,
    steward_uri,
    table,
)
from gencard.controller.state.audits import AuditRow, AuditStore
from gencard.core.audit.verdict import Verdict

app = typer.Typer(help="Evidence of audits, by black box.", invoke_without_command=True)

_COLUMNS = ("dataset", "black_box", "author", "tries", "leakage", "newest_verdict")


@app.callback()
def show(context: typer.Context, config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """Show how many ended audits count against each black box, and how many found leakage."""
    if context.invoked_subcommand is not None:
        return
    with desk(config) as opened, opened.database.reading() as tx:
        rows = sorted(AuditStore().counting(tx), key=_family)
    families = [_document(list(tries)) for _, tries in groupby(rows, key=_family)]
    if as_json:
        say_json(families)
        return
    shown = table("Audits that count", *(name.replace("_", " ") for name in _COLUMNS))
    for family in families:
        shown.add_row(*(str(family[name]) for name in _COLUMNS))
    console.print(shown)


@app.command()
def clear(
    black_box: Annotated[str, typer.Argument(help="Name of the black box in the settings.")],
    dataset: Annotated[str, typer.Option(help="The dataset on which its audits count no more.")],
    remark: Annotated[str, typer.Option(help="Why; written into the log.")],
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Clear the evidence against a black box: its next audit is its first try again.

    Cards whose audit failed stay failed. Audits of the same bytes under another name keep counting.
    """
    name = PREFIX + dataset.removeprefix(PREFIX)
    with desk(config) as opened:
        clearing = opened.audit_clearing(steward_uri(opened.settings, steward))
        number = clearing.clear(name, black_box, remark)
    console.print(f"{number} audits of {black_box} on {name} count no more; the log says why.")


def _family(row: AuditRow) -> tuple[str, str, str]:
    return row.dataset, row.black_box, row.author or ""


def _document(tries: list[AuditRow]) -> dict[str, str | int]:
    """One family, its tries in the order of their ends."""
    newest = tries[-1]
    values = (
        newest.dataset,
        newest.black_box,
        newest.author or "unknown",
        len(tries),
        sum(row.verdict is Verdict.LEAKAGE for row in tries),
        str(newest.verdict),
    )
    return dict(zip(_COLUMNS, values, strict=True))
