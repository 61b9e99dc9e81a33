"""What a job is told of a black box besides its recipe: what the schema says, and a bound."""

from collections.abc import Mapping
from math import isnan
from typing import Any

from gencard.controller.jobs.tasks import Job
from gencard.controller.records.catalogue import DatasetEntry
from gencard.controller.sandbox.recipes import KINDS
from gencard.controller.sandbox.values import values_of


def whole_recipe(recipe: Mapping[str, Any], dataset_entry: DatasetEntry, model_cells: int) -> Job:
    """The recipe of a black box, whole: numbers for what runs in a cell, else zeros and a bound."""
    if recipe["kind"] in KINDS:
        values = values_of(dataset_entry.schema.coding)
        return {**recipe, "values": {name: list(map(_written, row)) for name, row in values.items()}}
    return {**recipe, "zeros": zeros_of(dataset_entry), "max_cells": model_cells}


def zeros_of(dataset_entry: DatasetEntry) -> list[Job]:
    """The structural zeros of the schema."""
    return [
        {"clique": list(entry.clique), "cells": [list(cell) for cell in entry.cells]}
        for entry in dataset_entry.schema.coding.structural_zeros
    ]


def _written(value: float) -> float | None:
    """JSON has no NaN."""
    return None if isnan(value) else value
