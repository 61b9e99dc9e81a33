"""Draws of a number by other programs, beside those of ``benchmarks.numbers``.

gencard at the commit before numbers had a step, with the same statistics; sequential trees, each column
from a CART on those before it as synthpop's default method does, on the file's values; SDV's Gaussian
copula on the whole file. The last two read the records.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import numbers_once
from benchmarks.boxes_synthpop import has_rpart, rows_by_rpart, rpart_version
from benchmarks.peers import peers_python
from benchmarks.speed import interpreter_of
from docs.house.comparison import FIRST, checkout
from gencard.core.types import FloatArray

Draws = Sequence[FloatArray]
"""A number of each row, as many as records; NaN is missing."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A number of a file, and the two columns that are synthesized with it."""

    path: Path
    number: str
    other: str
    group: str


@dataclass(frozen=True, slots=True)
class Program:
    """Another program.

    Args:
        version: None if it is that of the package.
        draw: Makes so many draws; None if it cannot run here.
    """

    name: str
    settings: str
    version: str | None
    draw: Callable[[Columns, int], Draws] | None


def programs() -> Sequence[Program]:
    """All of them, in the order of the table."""
    return (
        Program(f"gencard {FIRST}", "exact pairs of three columns", FIRST, _earlier),
        Program(
            "rpart trees",
            "sequential_trees.R, three columns",
            rpart_version(),
            _trees if has_rpart() else None,
        ),
        Program("sdv", "Gaussian copula, defaults, whole file", None, _copula),
    )


def _earlier(columns: Columns, draws: int) -> Draws:
    with checkout(FIRST) as root:
        return _drawn("gencard", *interpreter_of(root), columns, draws)


def _copula(columns: Columns, draws: int) -> Draws:
    variables = {**os.environ, "PYTHONSAFEPATH": "1"}
    return _drawn("sdv", peers_python(".venv-peers-sdv"), variables, columns, draws)


def _drawn(
    program: str, interpreter: Path, variables: dict[str, str], columns: Columns, draws: int
) -> Draws:
    names = (columns.number, columns.other, columns.group)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "draws.npy")
        words = (interpreter, numbers_once.__file__, program, columns.path, *names, draws, out)
        subprocess.run([*map(str, words)], env=variables, check=True, capture_output=True)
        return list(np.load(out))


def _trees(columns: Columns, draws: int) -> Draws:
    frame = pd.read_parquet(columns.path)[[columns.group, columns.other, columns.number]]
    frame[columns.group] = frame[columns.group].astype(str)
    _, made = rows_by_rpart(frame, draws)
    return [rows[columns.number].to_numpy(dtype=float) for rows in made]
