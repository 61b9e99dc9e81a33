"""The task that audits a black box at the real records; its runs are kept until the audit has ended."""

import hmac
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gencard.controller.jobs.measurement import records_over
from gencard.controller.jobs.synthesis import box_of
from gencard.controller.jobs.tasks import Job
from gencard.controller.releases.rows_file import RowsFile
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.run import audit as core_audit
from gencard.core.audit.wording import report_to_json_object
from gencard.core.blackbox import BlackBox, in_domain, runs_of
from gencard.core.dataset import Dataset
from gencard.core.errors import BlackBoxError, JobLimitError
from gencard.core.typed_json import PLAIN
from gencard.core.types import Progress


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
        return next(self.runs_by_seed(dataset, rows, seeds=[seed]))

    def runs_by_seed(self, dataset: Dataset, rows: int, *, seeds: Sequence[int]) -> Iterator[Dataset]:
        """One for each seed, as a call gives it; raises the same."""
        files = {seed: RowsFile(self.folder / f"{seed:020d}.run") for seed in seeds}
        missing_seeds = [seed for seed in seeds if not files[seed].path.exists()]
        outputs = runs_of(self.box, dataset, rows, missing_seeds)
        for seed in seeds:
            if seed in missing_seeds:
                output = in_domain(next(outputs), dataset.domain, rows)
                files[seed].write(output)
                yield output
            else:
                yield files[seed].dataset()


def audit(job: Job, progress: Progress) -> Job:
    """Records and a black box -> a report; its numbers depend on records.

    Raises:
        BlackBoxError: The box did not end its runs; why, depends on records too, and is not said.
    """
    progress("read", 0.0)
    plan = PLAIN.read(AuditPlan, job["plan"], field="plan")
    cliques = [*plan.cliques, *(statistic.clique for statistic in plan.linear)]
    dataset = records_over(cliques, job["records"], most_records=job["most_records"])
    box = JournaledBox(_performed(job), Path(job["journal"]))
    versions = [(name, version) for name, version in job["versions"]]
    with suppress(BlackBoxError, JobLimitError):
        report = core_audit(
            box,
            dataset,
            plan,
            versions=versions,
            digest_key=_digest_key(job["records"], plan),
            progress=progress,
        )
        return {"report": report_to_json_object(report)}
    raise BlackBoxError(problem="its runs on the records did not finish correctly")


def _performed(job: Job) -> BlackBox:
    """The box here, or on the workers of a cluster."""
    if "cluster" not in job:
        return box_of(job["recipe"])
    from gencard.controller.cluster.executor import cluster_box  # noqa: PLC0415 - of an extra

    return cluster_box(job["recipe"], job["cluster"])


def _digest_key(records: Job, plan: AuditPlan) -> bytes:
    """A secret key for the digests of one report; an audit that is resumed has the same one.

    Each audit has a seed of its own, of 64 bits.
    """
    return hmac.digest(bytes.fromhex(records["salt"]), f"audit-report {plan.seed}".encode(), "sha256")
