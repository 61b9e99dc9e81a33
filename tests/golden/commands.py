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

STEWARDS = (
    ("cards", "--json"),
    ("ledger", "--json"),
    ("audits", "--json"),
)
"""Of the steward's shell, at the state that was kept."""

SENTENCES = frozenset(
    {"advice", "claim", "description", "detail", "sentence", "what", "why", "wording", "summary", "text",
     "reading", "meaning", "needs", "bound", "holdsAgainst", "reviewedBy", "remark"}
)  # fmt: skip
"""Fields for people: that there is a text is compared, and not which."""


def offline_commands(bundles: Iterable[str]) -> list[list[str]]:
    """Of the client's shell, run where the golden files lie."""
    found = []
    for name in bundles:
        folder = f"bundles/{name}"
        found.append(["verify", folder, "--json", *KEYS, *LOG_KEY])
        if name in WITH_FIDELITY:
            found.append(["fidelity", folder, "--json"])
    rows = "bundles/measured/rows.csv"
    gap = ("--gap", "sex=male,female", "--within", "health")
    found.append(["utility", "bundles/ipf", rows, "--json", "--target", "work", *gap])
    return found


def said_offline(folder: Path, words: Sequence[str]) -> Any:
    """The JSON that a command prints."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        said = CliRunner().invoke(app, list(words))
    finally:
        os.chdir(before)
    try:
        return json.loads(said.stdout)
    except ValueError:
        raise AssertionError((words, said.output, said.exception)) from said.exception


def without_sentences(document: Any) -> Any:
    """A JSON document in which texts for people are only said to be there."""
    if isinstance(document, list):
        return [without_sentences(part) for part in document]
    if not isinstance(document, dict):
        return document
    return {
        name: bool(value) if name in SENTENCES and isinstance(value, str) else without_sentences(value)
        for name, value in document.items()
    }
