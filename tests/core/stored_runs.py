"""Runs on stored numbers, made from columns of a test."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gencard.analysis.answers.margins import RecordMargins
from gencard.analysis.output_checks.stored import StoredRun
from gencard.controller.run_question import RunQuestion
from gencard.core.coding import Coding, Edges, intervals_of
from gencard.core.dataset import Dataset
from gencard.core.types import FloatArray
from gencard.wire.canonical import json_bytes
from gencard.wire.documents import Question


def stored_run(
    kind: str,
    formula: str,
    coding: Coding,
    columns: Mapping[str, Any],
    kept: Any = None,
    *,
    options: Mapping[str, Any] | None = None,
    where: str = "",
) -> StoredRun:
    """A run on records.

    Args:
        columns: Codes of labels, and numbers of attributes with edges; NaN is "missing".
        kept: Which records are in the population; by default all.
    """
    question = Question(kind, formula, where, "level", json_bytes(dict(options or {})).decode())
    run = RunQuestion.new(question, coding)
    numbers, dataset = dataset_of(coding, columns)
    kept = np.ones(len(dataset), dtype=bool) if kept is None else np.asarray(kept, dtype=bool)
    inside, outside = (run.records(dataset, numbers, one) for one in (kept, ~kept))
    return StoredRun(run.at(RecordMargins.of(inside.dataset)), inside, outside)


def dataset_of(coding: Coding, columns: Mapping[str, Any]) -> tuple[dict[str, FloatArray], Dataset]:
    """Numbers of attributes with edges, and the coded records; see ``stored_run``."""
    numbers: dict[str, FloatArray] = {}
    codes = []
    for one in coding.attributes:
        column = np.asarray(columns[one.name])
        if isinstance(one.coding, Edges):
            numbers[one.name] = np.asarray(column, dtype=np.float64)
            column = intervals_of(one.coding.edges, numbers[one.name])
        codes.append(column.astype(np.int64))
    return numbers, Dataset.of_columns(coding.domain, codes)
