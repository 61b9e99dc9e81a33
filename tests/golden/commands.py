"""Commands of both shells whose output is kept, and what is compared of it."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from gencard.client.shell.main import app

KEYS = (
    "--controller-key", "people/ana/controller_card_key.pub",
    "--analyst-key", "people/ana/signing_key.pub",
)  # fmt: skip
LOG_KEY = ("--log-key", "people/ana/log_key.pub")
WITH_FIDELITY = {"ipf", "gaussian", "moments"}
"""Bundles whose distance from psi is kept."""

STEWARDS = (("cards", "--json"), ("ledger", "--json"), ("audits", "--json"))
"""Commands of `gencard-controller emergency`, at the stored state."""

SENTENCES = frozenset(
    {"advice", "claim", "description", "detail", "sentence", "what", "why", "wording", "summary", "text",
     "reading", "meaning", "needs", "bound", "holdsAgainst", "reviewedBy", "remark"}
)  # fmt: skip
"""Fields with a text for people: only its presence is compared, not its wording."""


def offline_commands(bundles: Iterable[str]) -> list[list[str]]:
    """List commands of the client's shell, run in the folder of the golden files."""
    commands = []
    for name in bundles:
        folder = f"bundles/{name}"
        commands.append(["verify", folder, "--json", *KEYS, *LOG_KEY])
        if name in WITH_FIDELITY:
            commands.append(["fidelity", folder, "--json"])
    rows = "bundles/measured/rows.csv"
    gap = ("--gap", "sex=male,female", "--within", "health")
    commands.append(["utility", "bundles/ipf", rows, "--json", "--target", "work", *gap])
    return commands


def offline_output(folder: Path, words: Sequence[str]) -> Any:
    """The JSON that a command prints."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        result = CliRunner().invoke(app, list(words))
    finally:
        os.chdir(before)
    try:
        return json.loads(result.stdout)
    except ValueError:
        raise AssertionError((words, result.output, result.exception)) from result.exception


def without_sentences(document: Any) -> Any:
    """A JSON document in which a text for people is replaced by whether there is one."""
    if isinstance(document, list):
        return [without_sentences(part) for part in document]
    if not isinstance(document, dict):
        return document
    return {
        name: bool(value) if name in SENTENCES and isinstance(value, str) else without_sentences(value)
        for name, value in document.items()
    }
