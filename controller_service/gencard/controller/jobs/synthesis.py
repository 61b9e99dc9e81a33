"""Generators and black boxes of job descriptions, and the tasks that make rows: no record is in them."""

import json
import secrets
from collections.abc import Collection
from math import nan
from pathlib import Path

import numpy as np

from gencard.boxes.reference import AddsMarginal, CopiesRows, Honest
from gencard.controller.jobs.tasks import Job, cliques_of, linear_of
from gencard.controller.releases.rows_file import RowsFile
from gencard.core.blackbox import BlackBox, canonicalise
from gencard.core.coding import StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.derivation import Derivation
from gencard.core.derived_cells import with_computed
from gencard.core.errors import BlackBoxError, GencardError, InvalidInputError, JobLimitError
from gencard.core.generators.contract import Generator, rng_of
from gencard.core.generators.registry import generator_named
from gencard.core.typed_json import PLAIN
from gencard.core.types import Progress
from gencard.wire.box_request import Values
from gencard.wire.documents.psi_document import psi_of_document


def synthesise(job: Job, progress: Progress) -> Job:
    """Psi -> model -> rows in a file."""
    psi = psi_of_document(job["psi"].encode())
    generator = generator_of(job, psi.domain.attributes)
    progress("fit", 0.0)
    model = generator.fit(psi, psi.domain)
    progress("sample", 0.5)
    rows = model.sample(job["rows"], rng=rng_of(job["seed"]))
    return _left_in(job["rows_file"], computed(job, rows))


def run_black_box(job: Job, progress: Progress) -> Job:
    """A made-up dataset -> what a black box makes of it, in canonical form."""
    dataset = RowsFile(Path(job["upload"])).dataset()
    box = _kept_box_of(job["recipe"])
    progress("run", 0.0)
    try:
        output = box(dataset, job["rows"], seed=job["seed"])
    except (BlackBoxError, JobLimitError) as error:
        raise _explained(error, box, dataset, job) from None
    rng = np.random.Generator(np.random.PCG64(secrets.randbits(128)))
    rows = canonicalise(output, dataset.domain, job["rows"], rng=rng)
    return _left_in(job["rows_file"], rows, lasting=False)


def computed(job: Job, rows: Dataset) -> Dataset:
    """The rows, with what follows from their other attributes as the job says."""
    derivations = PLAIN.read(dict[str, Derivation], job.get("computed", {}), field="computed")
    return with_computed(rows, derivations)


_CHECKED_SECONDS = 1.0
"""Runs on made-up records within a second share one check of what their digest names."""

_kept_boxes: dict[str, BlackBox] = {}
"""The last lent box of this process, by its recipe: its sandbox has the libraries loaded."""


def _kept_box_of(recipe: Job) -> BlackBox:
    """The black box of a recipe, for lent runs alone; raises as ``box_of``, before each run."""
    key = json.dumps(recipe, sort_keys=True)
    if key not in _kept_boxes:
        _kept_boxes.clear()
        _kept_boxes[key] = box_of(recipe, check_seconds=_CHECKED_SECONDS)
    elif recipe["kind"] == "program":
        from gencard.controller.sandbox.recipes import checked_program  # noqa: PLC0415 - loaded already

        checked_program(recipe)
    return _kept_boxes[key]


def _explained(
    error: BlackBoxError | JobLimitError, box: BlackBox, dataset: Dataset, job: Job
) -> GencardError:
    """The error of a lent run with its cause; what the program wrote is left in a file.

    No record is involved, and the caller made up the dataset.
    """
    if job["recipe"]["kind"] != "program":
        return error
    from gencard.controller.sandbox.boxes import SandboxedProgram  # noqa: PLC0415 - loaded already

    if not isinstance(box, SandboxedProgram):
        return error
    explanation, written = box.explanation(error, dataset, job["rows"], job["seed"])
    Path(job["errors_file"]).write_text(written, encoding="utf-8", errors="replace")
    return explanation


def _left_in(path: str, dataset: Dataset, *, lasting: bool = True) -> Job:
    RowsFile(Path(path)).write(dataset, lasting=lasting)
    return {"digest": dataset.digest()}


def box_of(recipe: Job, *, check_seconds: float = 0.0) -> BlackBox:
    """The black box of a recipe.

    Args:
        check_seconds: See ``sandbox.Sandbox``.

    Raises:
        InvalidInputError: The kind of box, or the generator, is unknown.
        GeneratorChangedError: What is to run in a sandbox has another digest than the recipe.
    """
    cliques, linear = cliques_of(recipe["cliques"]), linear_of(recipe)
    if recipe["kind"] == "program":
        # a third of the start of a worker, and most jobs need no sandbox
        from gencard.controller.sandbox.recipes import sandboxed_box_of  # noqa: PLC0415

        workload = tuple(dict.fromkeys([*cliques, *(statistic.clique for statistic in linear)]))
        values = _values_of(recipe["values"])
        return sandboxed_box_of(recipe, workload=workload, values=values, check_seconds=check_seconds)
    extra = tuple(recipe.get("extra", ()))
    all_cliques = [*cliques, *(statistic.clique for statistic in linear)]
    generator = generator_of(recipe, {*extra, *(name for clique in all_cliques for name in clique)})
    match recipe["kind"]:
        case "honest":
            return Honest(generator, [*cliques, *linear])
        case "adds_marginal":
            return AddsMarginal(generator, [*cliques, *linear], extra)
        case "copies_rows":
            return CopiesRows(Honest(generator, [*cliques, *linear]), float(recipe["share"]))
    raise InvalidInputError(field="black_box", problem="is of an unknown kind")


def generator_of(description: Job, attributes: Collection[str]) -> Generator:
    """The generator of a job or recipe, with the structural zeros that these attributes can meet."""
    zeros = tuple(
        StructuralZeros(tuple(entry["clique"]), tuple(tuple(cell) for cell in entry["cells"]))
        for entry in description["zeros"]
        if set(entry["clique"]) <= set(attributes)
    )
    return generator_named(
        description["generator"], structural_zeros=zeros, max_cells=description["max_cells"]
    )


def _values_of(values: dict[str, list[float | None]]) -> Values:
    return {
        name: tuple(nan if value is None else value for value in row) for name, row in values.items()
    }
