"""Programs in sandboxes, as the settings name them and as a job is told of them.

{"kind": "program", "box": name in the registry, or empty, "folder": path, or empty,
 "command": [word, ...], "parameters": {name: word}, "libraries": [name, ...], "digest": hex,
 "runtime": see ``Program.runtime``, "environment": {"shown": [path, ...], ..., "stamp": hex},
 "isolation": word, "limits": {name: int}}

The service compares distributions with their RECORDs; a job refuses what has changed since, by the
stamp, and reads the files of a program again. For another machine ``carried`` puts the files in place of
folder, runtime and environment: "files": {path: base64, ...}; ``received`` finds the others there.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path, PurePosixPath

from gencard.controller.sandbox.boxes import SandboxedProgram, built_in_program, sandboxed_box
from gencard.controller.sandbox.environment import environment_of_document
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.sandbox import Sandbox
from gencard.core.blackbox import BlackBox
from gencard.core.domain import Clique
from gencard.core.errors import GeneratorChangedError, InvalidInputError
from gencard.wire.box_request import Values
from gencard.wire.signatures.canonical import Document

PROGRAM = "program"


def program_recipe(
    folder: Path,
    command: tuple[str, ...],
    parameters: Mapping[str, str],
    libraries: tuple[str, ...] = (),
) -> Document:
    """A program as it stands in its folder now.

    Raises:
        InvalidInputError: See ``Program.read`` and ``distributions.checked``.
        GeneratorChangedError: A distribution changes while it is read.
    """
    program = Program.read(folder, command, parameters, libraries)
    return _recipe(program, box="", folder=str(folder))


def built_in_recipe(box: str, parameters: Mapping[str, str]) -> Document:
    """A box of the registry with these parameters; raises as ``program_recipe`` and ``box_named``."""
    return _recipe(built_in_program(box, parameters), box=box, folder="")


def _recipe(program: Program, *, box: str, folder: str) -> Document:
    runtime = program.runtime()
    return {
        "kind": PROGRAM,
        "box": box,
        "folder": folder,
        "command": list(program.command),
        "parameters": dict(program.parameters),
        "libraries": list(program.libraries),
        "digest": program.digest(runtime),
        "runtime": runtime,
        "environment": asdict(program.environment()),
    }


def imports_of(recipe: Document) -> tuple[str, ...]:
    """Imports of a program from its declared distributions; see ``program.Program.imports``."""
    return _program_of(recipe).imports(environment_of_document(recipe["environment"]))


def in_sandbox(recipe: Document, limits: SandboxLimits, isolation: Isolation) -> Document:
    """The same recipe, with the sandbox that it runs in."""
    return {**recipe, "isolation": str(isolation), "limits": asdict(limits)}


def sandboxed_box_of(
    recipe: Document,
    *,
    workload: tuple[Clique, ...] = (),
    values: Values | None = None,
    check_seconds: float = 0.0,
) -> BlackBox:
    """The box of a recipe, from the very bytes whose digest the recipe has.

    Args:
        workload: The cliques of the card.
        values: For ordered attributes, the number that each code stands for, NaN for missing.
        check_seconds: See ``sandbox.Sandbox``.

    Raises:
        GeneratorChangedError: What is there now has another digest.
        InvalidInputError: The recipe is of another kind, or its program cannot be read.
    """
    if recipe["kind"] != PROGRAM:
        raise InvalidInputError(field="black_box", problem="is of an unknown kind")
    environment = environment_of_document(recipe["environment"])
    environment.check_unchanged()
    limits, isolation = SandboxLimits(**recipe["limits"]), Isolation(recipe["isolation"])
    sandbox = Sandbox(limits, isolation, environment, check_seconds=check_seconds)
    program = checked_program(recipe)
    if recipe["box"]:
        return sandboxed_box(
            recipe["box"], program.parameters, sandbox, workload=workload, values=values
        )
    return SandboxedProgram(program, sandbox, workload, values or {})


def checked_program(recipe: Document) -> Program:
    """The program of a recipe as it lies there now.

    Raises:
        GeneratorChangedError: It has another digest than the recipe.
        InvalidInputError: It cannot be read.
    """
    program = _program_of(recipe)
    if program.digest(recipe["runtime"] if program.is_python else program.runtime()) != recipe["digest"]:
        raise GeneratorChangedError.since_start()
    return program


def carried(recipe: Document) -> Document:
    """The recipe for another machine, which has no files of this one.

    Raises:
        GeneratorChangedError: The files of the program are not those of the recipe any more.
        InvalidInputError: They cannot be read.
    """
    program = checked_program(recipe)
    files = {} if recipe["box"] else {path: b64encode(data).decode() for path, data in program.files}
    left = ("folder", "runtime", "environment")
    return {**{name: recipe[name] for name in recipe if name not in left}, "files": files}


def received(recipe: Document, compiled: str = "") -> Document:
    """The recipe of another machine for this one: the same program, by the interpreter that is here.

    Args:
        compiled: A folder of compiled copies; see ``environment.CompiledCopies``.

    Raises:
        GeneratorChangedError: With the interpreter and the distributions here it has another digest.
        InvalidInputError: A distribution is not installed here.
    """
    program = _program_of({**recipe, "folder": ""})
    here = {**recipe, "folder": "", "runtime": program.runtime()}
    if program.digest(here["runtime"]) != recipe["digest"]:
        raise GeneratorChangedError
    return {**here, "environment": asdict(program.environment(compiled))}


def _program_of(recipe: Document) -> Program:
    if recipe["box"]:
        return built_in_program(recipe["box"], recipe["parameters"])
    if "files" in recipe:
        # these come from another machine: no file may lie outside the program's folder
        if any(PurePosixPath(path).is_absolute() or ".." in path.split("/") for path in recipe["files"]):
            raise InvalidInputError(field="files", problem="has a path outside the program's folder")
        files = tuple((path, b64decode(data)) for path, data in sorted(recipe["files"].items()))
        return Program(tuple(recipe["command"]), files, recipe["parameters"], tuple(recipe["libraries"]))
    folder = Path(recipe["folder"])
    return Program.read(folder, recipe["command"], recipe["parameters"], recipe["libraries"])
