"""Generators and black boxes of jobs, and the tasks that make rows: no record is in them.

Rows are exchanged in files of the type ``RowsFile``.
"""

import json
import os
import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from gencard.boxes.reference import AddsMarginal, CopiesRows, Honest, ReferenceKind, ReferenceRecipe
from gencard.controller.base.disk import write_whole
from gencard.controller.jobs.tasks import BlackBoxJob, RowsResult, SynthesisJob
from gencard.core.blackbox import BlackBox, canonicalise
from gencard.core.coding import StructuralZeros
from gencard.core.dataset import Dataset, row_bytes, wire_codes, wire_dtype
from gencard.core.derived_cells import with_computed
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError, GencardError, JobLimitError, StorageError
from gencard.core.generators.contract import Generator, Model, rng_of
from gencard.core.generators.model_file import model_of, saved_fit
from gencard.core.generators.registry import generator_named
from gencard.core.types import Progress
from gencard.wire.psi import psi_of_document

if TYPE_CHECKING:
    from gencard.controller.sandbox.boxes import Recipe


# Rows in a file: one line of JSON that says what follows, then the codes, attribute by attribute.
#
# The codes are those of the wire (one byte up to 256 levels, two little-endian bytes above), so that
# a release of any size is sent with little memory: each message is read where it lies.

_LONGEST_HEADER = 1 << 24


@dataclass(frozen=True, slots=True)
class RowsFile:
    """One file of rows.

    Every method raises StorageError if the file cannot be read or written, or is cut short.
    """

    path: Path

    def write(self, dataset: Dataset, *, lasting: bool = True) -> None:
        """Put the rows there, whole or not at all; other users cannot read them."""
        write_whole(self.path, _parts_of(dataset), lasting=lasting)

    def dataset(self) -> Dataset:
        with self.opened() as reader:
            columns = [
                np.frombuffer(reader.codes(axis, 0, reader.rows), dtype=wire_dtype(size))
                for axis, size in enumerate(reader.domain.sizes)
            ]
            return Dataset.of_columns(reader.domain, columns)

    @contextmanager
    def opened(self) -> Iterator["RowsReader"]:
        """Open the rows for reading a part at a time."""
        reader = None
        with ExitStack() as closing:
            with suppress(OSError, ValueError, KeyError, TypeError, GencardError):
                file = closing.enter_context(self.path.open("rb"))
                line = file.readline(_LONGEST_HEADER)
                header = json.loads(line)
                domain = Domain(tuple(header["attributes"]), tuple(header["sizes"]))
                rows, start = int(header["rows"]), len(line)
                if os.fstat(file.fileno()).st_size == start + rows * row_bytes(domain):
                    reader = RowsReader(domain, rows, file, start)
            if reader is None:
                raise StorageError()
            yield reader


def _parts_of(dataset: Dataset) -> Iterator[bytes | memoryview]:
    domain = dataset.domain
    header = {"attributes": domain.attributes, "sizes": domain.sizes, "rows": len(dataset)}
    yield json.dumps(header).encode() + b"\n"
    for axis, size in enumerate(domain.sizes):
        yield wire_codes(dataset.codes[:, axis], size).data


@dataclass(frozen=True, slots=True)
class RowsReader:
    """An open file whose size agrees with its header; the codes begin at ``start``."""

    domain: Domain
    rows: int
    file: BinaryIO
    start: int

    def codes(self, axis: int, start: int, count: int) -> bytes:
        """Codes of one attribute, ``count`` rows from row ``start`` on."""
        before = sum(wire_dtype(size).itemsize for size in self.domain.sizes[:axis])
        width = wire_dtype(self.domain.sizes[axis]).itemsize
        place = self.start + self.rows * before + start * width
        try:
            codes = os.pread(self.file.fileno(), count * width, place)
        except OSError:
            codes = b""
        if len(codes) != count * width:
            raise StorageError()
        return codes


def synthesise(job: SynthesisJob, progress: Progress) -> RowsResult:
    """Psi -> model -> rows in a file; or from the fit of an earlier job, the same rows."""
    progress("fit", 0.0)
    fit = b""
    if job.fit:
        model: Model = model_of(job.fit)
    else:
        psi = psi_of_document(job.psi).fitted
        attributes, digest = psi.domain.attributes, job.generator_digest
        generator = generator_of(job.generator, attributes, job.zeros, job.max_cells, digest)
        model = generator.fit(psi, psi.domain)
        if job.keep:
            with suppress(MemoryError):  # what the fit leaves of the limit may be too little
                fit = saved_fit(model)
    progress("sample", 0.5)
    rows = model.sample(job.rows, rng=rng_of(job.seed))
    return replace(left_in(job.rows_file, with_computed(rows, job.computed)), fit=fit)


def run_black_box(job: BlackBoxJob, progress: Progress) -> RowsResult:
    """Run a black box on a made-up dataset and write its rows in canonical form."""
    dataset = RowsFile(job.upload).dataset()
    recipe = job.recipe
    # a kept box is for lent runs alone; its program is checked before each run
    if not _kept_boxes or _kept_boxes[0][0] != recipe:
        _kept_boxes[:] = []
        _kept_boxes.append((recipe, box_of(recipe, check_seconds=_CHECKED_SECONDS)))
    elif not isinstance(recipe, ReferenceRecipe):
        from gencard.controller.sandbox.boxes import checked_program  # noqa: PLC0415 - loaded already

        checked_program(recipe)
    box = _kept_boxes[0][1]
    progress("run", 0.0)
    try:
        output = box(dataset, job.rows, seed=job.seed)
    except (BlackBoxError, JobLimitError) as error:
        raise _explained(error, box, dataset, job) from None
    rng = np.random.Generator(np.random.PCG64(secrets.randbits(128)))
    rows = canonicalise(output, dataset.domain, job.rows, rng=rng)
    return left_in(job.rows_file, rows, lasting=False)


_CHECKED_SECONDS = 1.0
"""Runs on made-up records within a second share one check of what their digest names."""

_kept_boxes: list[tuple["Recipe", BlackBox]] = []
"""The last lent box of this process, with its recipe: its sandbox has the libraries loaded."""


def _explained(
    error: BlackBoxError | JobLimitError, box: BlackBox, dataset: Dataset, job: BlackBoxJob
) -> GencardError:
    """Return the error of a lent run with its cause: the caller made up the dataset."""
    if isinstance(job.recipe, ReferenceRecipe):
        return error
    from gencard.controller.sandbox.boxes import SandboxedProgram  # noqa: PLC0415 - loaded already

    if not isinstance(box, SandboxedProgram):
        return error
    explanation, written = box.explanation(error, dataset, job.rows, job.seed)
    job.errors_file.write_text(written, encoding="utf-8", errors="replace")
    return explanation


def left_in(path: Path, dataset: Dataset, *, lasting: bool = True) -> RowsResult:
    """Write the rows of a job to its file."""
    RowsFile(path).write(dataset, lasting=lasting)
    return RowsResult(dataset.digest())


def box_of(recipe: "Recipe", *, check_seconds: float = 0.0) -> BlackBox:
    """Return the black box of a recipe, whose files must have the recipe's digest."""
    cliques, linear = recipe.cliques, recipe.linear
    if not isinstance(recipe, ReferenceRecipe):
        # a third of the start of a worker, and most jobs need no sandbox
        from gencard.controller.sandbox.boxes import sandboxed_box_of  # noqa: PLC0415

        workload = tuple(dict.fromkeys([*cliques, *(statistic.clique for statistic in linear)]))
        values = {
            name: tuple(nan if value is None else value for value in row)
            for name, row in recipe.values.items()
        }
        return sandboxed_box_of(recipe, workload=workload, values=values, check_seconds=check_seconds)
    extra = recipe.extra or ()
    all_cliques = [extra, *cliques, *(statistic.clique for statistic in linear)]
    attributes = {name for clique in all_cliques for name in clique}
    generator = generator_of(recipe.generator, attributes, recipe.zeros, recipe.max_cells)
    match recipe.kind:
        case ReferenceKind.HONEST:
            return Honest(generator, [*cliques, *linear])
        case ReferenceKind.ADDS_MARGINAL:
            return AddsMarginal(generator, [*cliques, *linear], extra)
        case ReferenceKind.COPIES_ROWS:
            return CopiesRows(Honest(generator, [*cliques, *linear]), recipe.share or 0.0)


def generator_of(
    name: str,
    attributes: Collection[str],
    zeros: Sequence[StructuralZeros],
    max_cells: int,
    digest: str = "",
) -> Generator:
    """Return the generator of this name, with the structural zeros that these attributes can meet."""
    met = tuple(entry for entry in zeros if set(entry.clique) <= set(attributes))
    return generator_named(name, structural_zeros=met, max_cells=max_cells, digest=digest)
