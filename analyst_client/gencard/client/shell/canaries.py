"""canaries: what epsilon the copies of planted records refute."""

from typing import Annotated

import typer

from gencard.client.shell.terminal import HERE, AsJson, CardName, Folder, connected, console, say_json
from gencard.core.card.budget import Neighbouring


def canaries(
    name: CardName,
    neighbouring: Annotated[Neighbouring, typer.Option(help="What the claims mean by neighbouring.")],
    black_box: Annotated[str, typer.Option(help="Else the card's own generator.")] = "",
    number: Annotated[int, typer.Option(help="Canaries; half of them are put in.")] = 400,
    records: Annotated[int, typer.Option(help="Other records, made up.")] = 400,
    rows: Annotated[int | None, typer.Option(help="Asked for; else as many as the dataset has.")] = None,
    delta: Annotated[float, typer.Option(help="Of claims (epsilon, delta).")] = 1e-6,
    radius: Annotated[int, typer.Option(help="In how many attributes a row found may differ.")] = 0,
    beta: Annotated[float, typer.Option(help="Probability that any bound is too high.")] = 0.05,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Plant canaries in made-up records, run a black box, look for them. Exit code 0 whatever comes."""
    from gencard.client.canary_audit import CanaryTerms, canary_audit  # noqa: PLC0415 - scipy.stats

    terms = CanaryTerms(neighbouring, number, records, rows, delta, radius, beta=beta)
    with connected(connection) as analyst:
        found = canary_audit(analyst.card(name).agreement, black_box, terms)
    say_json(found.document()) if as_json else console.print(found)
