"""Tasks that make the rows of an audited card: one run on the records, and draws from its result.

The run keeps its fit, or its rows if it has no fit. All rows that are ever released under the card are
made from that result, so the records are read once, and a claim of privacy is spent once.
"""

import secrets
from contextlib import suppress
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
from gencard.core.blackbox import BlackBox, FittingBox, canonicalise
from gencard.core.dataset import Dataset
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
        write_whole(job.folder / KEPT_FIT, [_fit(box, dataset, progress)])
    else:
        RowsFile(job.folder / KEPT_ROWS).write(_rows(box, dataset, job.rows))
    return KeepResult()


def draw(job: DrawJob, progress: Progress) -> RowsResult:
    """Write rows in canonical form, made from the result of a kept run; reads no record."""
    progress("sample", 0.0)
    if (job.folder / KEPT_ROWS).exists():
        kept_rows = RowsFile(job.folder / KEPT_ROWS).dataset()
        drawn_rows = kept_rows.take(_shuffling().permutation(len(kept_rows))[: job.rows])
    else:
        output = _sampled(box_of(job.recipe), _read(job.folder / KEPT_FIT), job.rows)
        drawn_rows = canonicalise(output, job.domain, job.rows, rng=_shuffling())
    drawn_rows = with_computed(drawn_rows, job.computed)
    RowsFile(job.rows_file).write(drawn_rows)
    return RowsResult(drawn_rows.digest())


def _fit(box: FittingBox, dataset: Dataset, progress: Progress) -> bytes:
    """Fit the box; raises BlackBoxError if the box raises an error that is not of the catalogue."""
    try:
        return box.fit(dataset, seed=_seed(), progress=progress).save()
    except GencardError:
        raise
    except Exception:
        raise BlackBoxError(problem="it raised an error") from None


def _rows(box: BlackBox, dataset: Dataset, rows: int) -> Dataset:
    """Make rows; raises BlackBoxError as ``_fit``, or for an output that breaks the contract."""
    try:
        output = box(dataset, rows, seed=_seed())
    except GencardError:
        raise
    except Exception:
        raise BlackBoxError(problem="it raised an error") from None
    return canonicalise(output, dataset.domain, rows, rng=_shuffling())


def _read(path: Path) -> bytes:
    """Raises StorageError."""
    with suppress(OSError):
        return path.read_bytes()
    raise StorageError


def _sampled(box: BlackBox, saved: bytes, rows: int) -> object:
    if not isinstance(box, FittingBox):
        raise BlackBoxError(problem="its saved fit is missing")
    try:
        return box.load(saved).sample(rows, seed=_seed())
    except GencardError:
        raise
    except Exception:
        raise BlackBoxError(problem="it raised an error") from None


def _seed() -> int:
    """Return a secret seed with as many bits as in an audit, so that a box cannot tell the two apart."""
    return secrets.randbits(64)


def _shuffling() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(secrets.randbits(128)))
