"""Boxes that run in cells, as the settings name them and as a job is told of them.

{"kind": "program", "folder": path, "command": [word, ...], "parameters": {name: word},
 "digest": hex, "isolation": word, "limits": {name: int}}
{"kind": "built_in", "box": name, "parameters": {name: word}, "digest": hex, "isolation": word,
 "limits": {name: int}}
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from gencard.controller.cell.box import CellBox
from gencard.controller.cell.built_in_box import built_in_box, built_in_digest, unconfined
from gencard.controller.cell.cell import Cell
from gencard.controller.cell.limits import CellLimits, Isolation
from gencard.controller.cell.program import Program
from gencard.core.blackbox.contract import BlackBox
from gencard.core.domain import Clique
from gencard.core.errors import GeneratorChangedError, InvalidInputError
from gencard.wire.box_request import Values
from gencard.wire.canonical import Document

KINDS = ("program", "built_in")


def program_recipe(folder: Path, command: tuple[str, ...], parameters: Mapping[str, str]) -> Document:
    """A program as it stands in its folder now.

    Raises:
        InvalidInputError: See ``Program.read``.
    """
    digest = Program.read(folder, command, parameters).digest()
    return {
        "kind": "program",
        "folder": str(folder),
        "command": list(command),
        "parameters": dict(parameters),
        "digest": digest,
    }


def built_in_recipe(box: str, parameters: Mapping[str, str]) -> Document:
    """A box of the registry with these parameters.

    Raises:
        InvalidInputError: There is none of this name, or a parameter is wrong.
    """
    unconfined(box, parameters)
    digest = built_in_digest(box, parameters)
    return {"kind": "built_in", "box": box, "parameters": dict(parameters), "digest": digest}


def in_cell(recipe: Document, limits: CellLimits, isolation: Isolation) -> Document:
    """The same recipe, with the cell that it runs in."""
    return {**recipe, "isolation": str(isolation), "limits": asdict(limits)}


def cell_box_of(
    recipe: Document, *, workload: tuple[Clique, ...] = (), values: Values | None = None
) -> BlackBox:
    """The box of a recipe, from the very bytes whose digest the recipe has.

    Args:
        workload: The cliques of the card.
        values: For ordered attributes, the number that each code stands for, NaN for missing.

    Raises:
        GeneratorChangedError: What is there now has another digest.
        InvalidInputError: The recipe is of another kind, or its program cannot be read.
    """
    cell = Cell(CellLimits(**recipe["limits"]), Isolation(recipe["isolation"]))
    parameters = recipe["parameters"]
    match recipe["kind"]:
        case "program":
            program = Program.read(Path(recipe["folder"]), recipe["command"], parameters)
            _check(program.digest(), recipe)
            return CellBox(program, cell, workload, values or {})
        case "built_in":
            _check(built_in_digest(recipe["box"], parameters), recipe)
            return built_in_box(recipe["box"], parameters, cell, workload=workload, values=values)
    raise InvalidInputError(field="black_box", problem="is of an unknown kind")


def _check(digest: str, recipe: Document) -> None:
    if digest != recipe["digest"]:
        raise GeneratorChangedError
