"""Options of decisions, which a steward gives in the same words from afar and on the machine."""

from typing import Annotated

import typer

from gencard.core.program_outputs import DIGITS

Drop = Annotated[
    list[str] | None, typer.Option(help="Marginal to leave out, such as sex,age. Repeatable.")
]
Without = Annotated[
    list[str] | None,
    typer.Option(help="Attribute to leave out, with all statistics about it. Repeatable."),
]
MostRows = Annotated[int | None, typer.Option(help="Most rows in one release.")]
Withhold = Annotated[
    list[str] | None,
    typer.Option(help="Numbers to hold back: OUTPUT, OUTPUT/ROW or OUTPUT/ROW/COLUMN. Repeatable."),
]
Digits = Annotated[
    int | None, typer.Option(min=1, max=DIGITS, help="Round all numbers to this number of digits.")
]
Red = Annotated[
    bool, typer.Option("--red", help="Release red numbers too; by default they are held back.")
]
Complete = Annotated[
    bool,
    typer.Option(
        "--complete", help="Confirm that nothing was decided after the backup, and release the budgets."
    ),
]
