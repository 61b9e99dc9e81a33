"""Boxes that run in sandboxes, as the settings name them and as a job is told of them.

{"kind": "program", "folder": path, "command": [word, ...], "parameters": {name: word},
 "libraries": [name, ...], "digest": hex, "view": see below, "isolation": word, "limits": {name: int}}
{"kind": "built_in", "box": name, "parameters": {name: word}, "digest": hex, "view": see below,
 "isolation": word, "limits": {name: int}}

"view": {"shown": [path, ...], ..., "stamp": hex, "digest": hex}    as ``view.View`` has it; with
what was found when it was looked at and when it was read, for a job reads only what has changed since.
"copies", of the same form, for a folder of compiled copies
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gencard.controller.sandbox.boxes import (
    SandboxedProgram,
    built_in_digest,
    built_in_view,
    sandboxed_box,
    unconfined,
)
from gencard.controller.sandbox.contents import digest_of_view, remember, stamp_of_view
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.sandbox import Sandbox
from gencard.controller.sandbox.views import View, document_of_view, view_of_document
from gencard.core.blackbox import BlackBox
from gencard.core.domain import Clique
from gencard.core.errors import GeneratorChangedError, InvalidInputError
from gencard.wire.box_request import Values
from gencard.wire.signatures.canonical import Document

KINDS = ("program", "built_in")


def program_recipe(
    folder: Path,
    command: tuple[str, ...],
    parameters: Mapping[str, str],
    libraries: tuple[str, ...] = (),
) -> Document:
    """A program as it stands in its folder now.

    Raises:
        InvalidInputError: See ``Program.read``.
        GeneratorChangedError: What its sandbox would show changes while it is read.
    """
    program = Program.read(folder, command, parameters, libraries)
    view = program.view()
    return {
        "kind": "program",
        "folder": str(folder),
        "command": list(command),
        "parameters": dict(parameters),
        "libraries": list(libraries),
        "digest": program.digest(view),
        "view": _seen(view),
    }


def built_in_recipe(box: str, parameters: Mapping[str, str]) -> Document:
    """A box of the registry with these parameters.

    Raises:
        InvalidInputError: There is none of this name, or a parameter is wrong.
        GeneratorChangedError: What its sandbox would show changes while it is read.
    """
    unconfined(box, parameters)
    view = built_in_view(box)
    return {
        "kind": "built_in",
        "box": box,
        "parameters": dict(parameters),
        "digest": built_in_digest(box, parameters, view),
        "view": _seen(view),
    }


def _seen(view: View) -> Document:
    digest = digest_of_view(view)
    return {**document_of_view(view), "stamp": stamp_of_view(view), "digest": digest}


def with_copies(recipe: Document, folder: str) -> Document:
    """The same recipe, with a folder of ``compiled.CompiledCopies``; empty for none.

    Raises:
        GeneratorChangedError: The folder changes while it is read.
    """
    if not folder:
        return recipe
    view = {**recipe["view"], "compiled": folder}
    return {**recipe, "view": view, "copies": _seen(View((folder,)))}


def in_sandbox(recipe: Document, limits: SandboxLimits, isolation: Isolation) -> Document:
    """The same recipe, with the sandbox that it runs in."""
    return {**recipe, "isolation": str(isolation), "limits": asdict(limits)}


def sandboxed_box_of(
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
    if recipe["kind"] not in KINDS:
        raise InvalidInputError(field="black_box", problem="is of an unknown kind")
    (view, _), *_ = seen = tuple(_taken(recipe[name]) for name in ("view", "copies") if name in recipe)
    sandbox = Sandbox(SandboxLimits(**recipe["limits"]), Isolation(recipe["isolation"]), view, seen)
    parameters = recipe["parameters"]
    if recipe["kind"] == "program":
        folder, command, libraries = Path(recipe["folder"]), recipe["command"], recipe["libraries"]
        program = Program.read(folder, command, parameters, libraries)
        _check(program.digest(view), recipe)
        return SandboxedProgram(program, sandbox, workload, values or {})
    _check(built_in_digest(recipe["box"], parameters, view), recipe)
    return sandboxed_box(recipe["box"], parameters, sandbox, workload=workload, values=values)


def _taken(recorded: Mapping[str, Any]) -> tuple[View, str]:
    """A view that the service read, and its digest, which it has now.

    Raises:
        GeneratorChangedError: It has another one.
    """
    view, digest = view_of_document(recorded), str(recorded["digest"])
    remember(recorded["stamp"], digest)
    if digest_of_view(view) != digest:
        raise GeneratorChangedError
    return view, digest


def _check(digest: str, recipe: Document) -> None:
    if digest != recipe["digest"]:
        raise GeneratorChangedError
