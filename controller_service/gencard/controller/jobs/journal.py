"""Runs of a black box that are kept until their audit has ended, so that none is made twice."""

from dataclasses import dataclass
from pathlib import Path

from gencard.controller.releases.rows_file import RowsFile
from gencard.core.blackbox.canonical import in_domain
from gencard.core.blackbox.contract import BlackBox
from gencard.core.dataset import Dataset


@dataclass(frozen=True, slots=True)
class JournaledBox:
    """A black box whose runs are kept in files, each found again by its seed.

    It is for one audit alone: there each run has a seed of its own, and what a run is given follows
    from the plan and from the runs before it.

    Args:
        folder: Exists; belongs to this audit, and nobody else may read it.
    """

    box: BlackBox
    folder: Path

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        """The rows as they came, from the box or from its earlier run with this seed.

        Raises:
            BlackBoxError: They are not over the domain of ``dataset``, or of another number.
            StorageError: A run can be neither kept nor read again.
        """
        kept = RowsFile(self.folder / f"{seed:020d}.run")
        if kept.path.exists():
            return kept.dataset()
        output = in_domain(self.box(dataset, rows, seed=seed), dataset.domain, rows)
        kept.write(output)
        return output
