"""Tasks that make the rows of an audited card: one run on the records, and draws from its result.

The run keeps its fit, or its rows if it has no fit. All rows that are ever released under the card are
made from that result, so the records are read once, and a claim of privacy is spent once.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from gencard.controller.base.disk import write_whole
from gencard.controller.jobs.measurement import records_over
from gencard.controller.jobs.rows_file import RowsFile
from gencard.controller.jobs.synthesis import box_of
from gencard.controller.jobs.tasks import (
    KEPT_FIT,
    KEPT_ROWS,
    DrawJob,
    KeepJob,
    KeepResult,
    RowsResult,
)
from gencard.core.blackbox import FittingBox, canonicalise
from gencard.core.derived_cells import with_computed
from gencard.core.errors import BlackBoxError, GencardError, StorageError
from gencard.core.types import Progress


def keep(job: KeepJob, progress: Progress) -> KeepResult:
    """Run the black box on the records and keep its result in a file; its seed is not kept."""
    progress("read", 0.0)
    cliques = [*job.recipe.cliques, *(statistic.clique for statistic in job.recipe.linear)]
    dataset = records_over(cliques, job.records)
    box = box_of(job.recipe)
    progress("run", 0.1)
    if isinstance(box, FittingBox):
        with _catalogued_errors():
            fit = box.fit(dataset, seed=_seed(), progress=progress).save()
        write_whole(job.folder / KEPT_FIT, [fit])
    else:
        with _catalogued_errors():
            output = box(dataset, job.rows, seed=_seed())
        rows = canonicalise(output, dataset.domain, job.rows, rng=_shuffling())
        RowsFile(job.folder / KEPT_ROWS).write(rows)
    return KeepResult()


def draw(job: DrawJob, progress: Progress) -> RowsResult:
    """Write rows in canonical form, made from the result of a kept run; reads no record."""
    progress("sample", 0.0)
    if (job.folder / KEPT_ROWS).exists():
        kept_rows = RowsFile(job.folder / KEPT_ROWS).dataset()
        drawn_rows = kept_rows.take(_shuffling().permutation(len(kept_rows))[: job.rows])
    else:
        box = box_of(job.recipe)
        saved = _read(job.folder / KEPT_FIT)
        if not isinstance(box, FittingBox):
            raise BlackBoxError(problem="its saved fit is missing")
        with _catalogued_errors():
            output = box.load(saved).sample(job.rows, seed=_seed())
        drawn_rows = canonicalise(output, job.domain, job.rows, rng=_shuffling())
    drawn_rows = with_computed(drawn_rows, job.computed)
    RowsFile(job.rows_file).write(drawn_rows)
    return RowsResult(drawn_rows.digest())


@contextmanager
def _catalogued_errors() -> Iterator[None]:
    """Raise BlackBoxError in place of an error of a box that is not of the catalogue."""
    try:
        yield
    except GencardError:
        raise
    except Exception:
        raise BlackBoxError(problem="it raised an error") from None


def _read(path: Path) -> bytes:
    """Raises StorageError."""
    with suppress(OSError):
        return path.read_bytes()
    raise StorageError


def _seed() -> int:
    """Return a secret seed with as many bits as in an audit, so that a box cannot tell the two apart."""
    return secrets.randbits(64)


def _shuffling() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(secrets.randbits(128)))
