"""Recipes of black boxes: how a job builds each, from the settings and from what was compared before.

The service compares distributions with their RECORDs; a job refuses what has changed since, by the
stamp, and reads the files of a program again. For another machine ``carried`` puts the files in place of
folder, runtime and environment; ``received`` finds the others there.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from gencard.boxes.reference import ReferenceRecipe
from gencard.controller.sandbox.boxes import SandboxedProgram, built_in_program, sandboxed_box
from gencard.controller.sandbox.environment import Environment, Runtime
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.sandbox import Sandbox
from gencard.core.blackbox import BlackBox
from gencard.core.domain import Clique
from gencard.core.errors import GeneratorChangedError, InvalidInputError
from gencard.core.json_codecs import ScalarCodec, written
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.typed_json import AS_IT_IS
from gencard.wire.black_box import Values

PROGRAM = "program"


_FILES = ScalarCodec(
    lambda files: files and {path: b64encode(data).decode() for path, data in files.items()},
    lambda json: (
        None
        if json is None
        else {path: b64decode(AS_IT_IS[str].of_json(data), validate=True) for path, data in json.items()}
    ),
)


@dataclass(frozen=True, slots=True)
class ProgramRecipe:
    """A program, or a box of the registry, that runs in a sandbox.

    Args:
        box: Name in the registry; empty for a program of the settings.
        folder: Folder of the program; empty for a box of the registry, and on another machine.
        command, parameters, libraries: See ``program.Program``.
        digest: SHA-256, in hex, that cards name it by.
        runtime: Part of the digest.
        environment: Parts of the machine that its sandbox shows.
        isolation, limits: The sandbox.
        cliques, linear: Statistics of the card; the box receives their attributes.
        values: For ordered attributes, the number of each code, None for missing.
        files: Content of each file by its path, if the program comes from another machine.
    """

    kind: str = field(init=False, default=PROGRAM)
    box: str
    folder: str
    command: tuple[str, ...]
    parameters: Mapping[str, str]
    libraries: tuple[str, ...]
    digest: str
    runtime: Runtime
    environment: Environment
    isolation: Isolation = Isolation.NAMESPACES
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    cliques: tuple[Clique, ...] = ()
    linear: tuple[LinearStatistic, ...] = ()
    values: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    files: Mapping[str, bytes] | None = field(default=None, metadata=written(scalar=_FILES))


Recipe = ReferenceRecipe | ProgramRecipe
"""Recipe by which a job builds a black box."""


def program_recipe(
    folder: Path,
    command: tuple[str, ...],
    parameters: Mapping[str, str],
    libraries: tuple[str, ...] = (),
) -> ProgramRecipe:
    """Return a program as it stands in its folder now.

    Raises:
        InvalidInputError: See ``Program.read`` and ``distributions.checked``.
        GeneratorChangedError: A distribution changes while it is read.
    """
    program = Program.read(folder, command, parameters, libraries)
    return _recipe(program, box="", folder=str(folder))


def built_in_recipe(box: str, parameters: Mapping[str, str]) -> ProgramRecipe:
    """Return the recipe of a registry's box; raises as ``program_recipe`` and ``box_named``."""
    return _recipe(built_in_program(box, parameters), box=box, folder="")


def _recipe(program: Program, *, box: str, folder: str) -> ProgramRecipe:
    runtime = program.runtime()
    return ProgramRecipe(
        box,
        folder,
        tuple(program.command),
        dict(program.parameters),
        tuple(program.libraries),
        program.digest(runtime),
        runtime,
        program.environment(),
    )


def imports_of(recipe: ProgramRecipe) -> tuple[str, ...]:
    """Imports of a program from its declared distributions; see ``program.Program.imports``."""
    return _program_of(recipe).imports(recipe.environment)


def sandboxed_box_of(
    recipe: ProgramRecipe,
    *,
    workload: tuple[Clique, ...] = (),
    values: Values | None = None,
    check_seconds: float = 0.0,
) -> BlackBox:
    """Return the box of a recipe, from the very bytes whose digest the recipe has.

    Args:
        workload: The cliques of the card.
        values: For ordered attributes, the number that each code stands for, NaN for missing.
        check_seconds: See ``sandbox.Sandbox``.

    Raises:
        GeneratorChangedError: The present files have another digest.
        InvalidInputError: Its program cannot be read.
    """
    recipe.environment.check_unchanged()
    sandbox = Sandbox(recipe.limits, recipe.isolation, recipe.environment, check_seconds=check_seconds)
    program = checked_program(recipe)
    if recipe.box:
        return sandboxed_box(recipe.box, program.parameters, sandbox, workload=workload, values=values)
    return SandboxedProgram(program, sandbox, workload, values or {})


def checked_program(recipe: ProgramRecipe) -> Program:
    """Return the program of a recipe from its present files.

    Raises:
        GeneratorChangedError: The program has another digest than the recipe.
        InvalidInputError: The program cannot be read.
    """
    program = _program_of(recipe)
    if program.digest(recipe.runtime if program.is_python else program.runtime()) != recipe.digest:
        raise GeneratorChangedError.since_start()
    return program


def carried(recipe: ProgramRecipe) -> ProgramRecipe:
    """Return the recipe for another machine, which has no files of this one.

    Raises:
        GeneratorChangedError: The files of the program are not those of the recipe any more.
        InvalidInputError: The files cannot be read.
    """
    program = checked_program(recipe)
    files = {} if recipe.box else dict(program.files)
    return replace(recipe, folder="", runtime=Runtime(), environment=Environment(), files=files)


def received(recipe: ProgramRecipe, compiled: str = "") -> ProgramRecipe:
    """Return another machine's recipe for this one: the same program, by this interpreter.

    Args:
        compiled: A folder of compiled copies; see ``environment.CompiledCopies``.

    Raises:
        GeneratorChangedError: With the interpreter and the distributions here it has another digest.
        InvalidInputError: A distribution is not installed here.
    """
    # only its own files: a folder that the recipe names is one of the other machine
    here = replace(recipe, folder="", files=recipe.files or {})
    program = _program_of(here)
    runtime = program.runtime()
    if program.digest(runtime) != recipe.digest:
        raise GeneratorChangedError
    return replace(here, runtime=runtime, environment=program.environment(compiled))


def _program_of(recipe: ProgramRecipe) -> Program:
    if recipe.box:
        return built_in_program(recipe.box, recipe.parameters)
    if recipe.files is not None:
        # these come from another machine: no file may lie outside the program's folder
        if any(PurePosixPath(path).is_absolute() or ".." in path.split("/") for path in recipe.files):
            raise InvalidInputError(field="files", problem="has a path outside the program's folder")
        files = tuple(sorted(recipe.files.items()))
        return Program(recipe.command, files, recipe.parameters, recipe.libraries)
    return Program.read(Path(recipe.folder), recipe.command, recipe.parameters, recipe.libraries)
