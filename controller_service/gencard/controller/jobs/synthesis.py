"""Tasks that make rows without access to records: from psi, or by a black box from an upload."""

import secrets
from pathlib import Path

import numpy as np

from gencard.controller.jobs.recipes import box_of, generator_of
from gencard.controller.jobs.tasks import Job
from gencard.controller.releases.rows_file import RowsFile
from gencard.core.blackbox import canonicalise
from gencard.core.dataset import Dataset
from gencard.core.generators.contract import rng_of
from gencard.core.types import Progress
from gencard.wire.documents.psi_document import psi_of_document


def synthesise(job: Job, progress: Progress) -> Job:
    """Psi -> model -> rows in a file."""
    psi = psi_of_document(job["psi"].encode())
    generator = generator_of(job, psi.domain.attributes)
    progress("fit", 0.0)
    model = generator.fit(psi, psi.domain)
    progress("sample", 0.5)
    return _left_in(job["rows_file"], model.sample(job["rows"], rng=rng_of(job["seed"])))


def run_black_box(job: Job, progress: Progress) -> Job:
    """A made-up dataset -> what a black box makes of it, in canonical form."""
    dataset = RowsFile(Path(job["upload"])).dataset()
    box = box_of(job["recipe"])
    progress("run", 0.0)
    output = box(dataset, job["rows"], seed=job["seed"])
    rng = np.random.Generator(np.random.PCG64(secrets.randbits(128)))
    return _left_in(job["rows_file"], canonicalise(output, dataset.domain, job["rows"], rng=rng))


def _left_in(path: str, dataset: Dataset) -> Job:
    RowsFile(Path(path)).write(dataset)
    return {"digest": dataset.digest()}
