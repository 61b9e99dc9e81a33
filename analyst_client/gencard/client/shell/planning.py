"""plan: from an analysis to the statistics that it needs."""

import shlex
from typing import Annotated

import typer

from gencard.client.plan import Plan
from gencard.client.shell.measuring import Delta, Epsilon, Relation, Rho, Weight, measured
from gencard.client.shell.negotiation import DatasetName, Generator, Rows, changes_document
from gencard.client.shell.terminal import HERE, AsJson, Folder, connected, console, say_json, say_next
from gencard.core.statistics.formula import Analysis
from gencard.wire.codecs.money import price_document
from gencard.wire.signatures.canonical import Document


def plan(
    dataset: DatasetName,
    formula: Annotated[str, typer.Argument(help="Such as 'health ~ sex + age * work'.")],
    kind: Annotated[Analysis, typer.Option(help="What is to be done with it.")] = Analysis.LOGISTIC,
    generator: Generator = "ipf",
    rows: Rows = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Delta = None,
    neighbouring: Relation = None,
    weight: Weight = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """The smallest Phi that determines an analysis, and its price; nothing is stored or spent."""
    how = measured(epsilon, rho, delta, neighbouring, weight)
    with connected(connection) as analyst:
        found = analyst.plan(dataset, formula, kind=kind, generator=generator, rows=rows, **how)
    if as_json:
        say_json(_document(found))
        return
    console.print(found)
    if not found.lacking and not found.answer.terms.privacy.noisy:
        say_next(_proposal(found))


def _proposal(plan: Plan) -> str:
    """The command that proposes it."""
    terms = plan.answer.terms
    marginals = " ".join(f"--marginal {shlex.quote(','.join(clique))}" for clique in plan.marginals)
    about = f"--generator {terms.generator} --rows {terms.rows}"
    return f'gencard propose {terms.dataset.partition("/")[2]} {marginals} {about} --purpose "..."'


def _document(plan: Plan) -> Document:
    return {
        "formula": str(plan.formula),
        "kind": plan.kind,
        "marginals": plan.marginals,
        "price": price_document(plan.price),
        "changes": changes_document(plan.changes),
        "lacking": plan.lacking,
        "missing": plan.missing,
        "nextStep": plan.next_step,
    }
