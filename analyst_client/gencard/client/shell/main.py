"""The console entry: every command in its place."""

from typing import Any, ClassVar

import typer

from gencard.core.errors import GencardError
from gencard.shell import Home, LazyGroup, new_shell, print_error

_COMMANDS = {
    "connecting": ("enrol", "datasets", "generators", "budget", "log"),
    "negotiation": ("plan", "propose", "price", "cards", "accept", "counter", "terminate"),
    "results": ("generate", "synthesize", "psi", "answer", "run", "answers", "audit", "canaries"),
    "checking": ("fidelity", "utility", "report", "replay", "verify"),
    "stewarding": ("steward",),
}
"""Commands by their module, of this package."""

_MODULES = {
    name: f"gencard.client.shell.{module}" for module, names in _COMMANDS.items() for name in names
}
_SUMMARIES = {
    "enrol": "Enrol at a controller: create keys and a request, then install the steward's answer.",
    "datasets": "List datasets, or show one with its public schema and policy.",
    "generators": "List generators and black boxes.",
    "plan": "Show the marginals that an analysis, or all columns, need, and their price.",
    "propose": "Propose a card.",
    "price": "Show the offer and price that a proposal would get.",
    "cards": "List cards, newest first, or show one.",
    "accept": "Sign the offer, after checking that the bytes to be signed state exactly its terms.",
    "counter": "Answer an offer with other terms.",
    "terminate": "End a negotiation, or give up an agreed card.",
    "generate": "Generate rows and download them.",
    "synthesize": "Generate rows for an analysis, or of all columns: plan, show the offer, confirm, "
    "sign, generate.",
    "psi": "Download psi, the measured statistics of the card, as JSON.",
    "answer": "Answer an analysis from psi: free, any number of times, and offline for a saved release.",
    "run": "Run an analysis on the records, once, through output rules.",
    "answers": "List the runs on the records under a card, newest first.",
    "fidelity": "Compare rows with psi, the released statistics, allowing for sampling error.",
    "utility": "Compare rows with records that you have: numbers, tables, propensity, predictions.",
    "report": "Report a release: fidelity, risk, utility and audits, as far as your role may see them.",
    "replay": "Recompute a release from psi, card and seed, and compare every byte with the saved rows.",
    "verify": "Verify signatures and digests of card, schema, psi, receipts, rows, answers, log.",
    "audit": "Audit a black box, or the card's generator.",
    "canaries": "Compute a lower bound of epsilon: insert canaries, run a black box, search for them.",
    "budget": "Show spending, newest first, and the remaining budget on a dataset.",
    "log": "Verify the log's newest checkpoint, and that it extends the last one seen.",
    "steward": "For stewards: list, review and decide what is waiting.",
}

_INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of the signal."""


class Commands(LazyGroup):
    """Commands whose typed errors end in one line, advice, and exit code 1."""

    homes: ClassVar = {
        name: Home(_MODULES[name], "app" if name == "steward" else name, summary)
        for name, summary in _SUMMARIES.items()
    }

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except GencardError as error:
            print_error(error, error.advice)
            raise typer.Exit(1) from None
        except KeyboardInterrupt as stopped:
            for note in getattr(stopped, "__notes__", ("Interrupted.",)):
                typer.echo(note, err=True)
            raise typer.Exit(_INTERRUPTED) from None


app = new_shell("gencard", "Negotiate cards, generate synthetic data, verify and audit it.", Commands)


def main() -> None:
    """Run ``gencard``; exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted."""
    app()
