"""Tasks that run black boxes at the real records: rows of an audited card, and audits."""

import hmac
import math
import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from gencard.controller.base.disk import write_whole
from gencard.controller.jobs import tasks
from gencard.controller.jobs.measurement import records_over
from gencard.controller.jobs.synthesis import RowsFile, box_of, left_in
from gencard.core.audit.report import AuditReport, WorkerRuns
from gencard.core.audit.run import audit as core_audit
from gencard.core.blackbox import BlackBox, FittingBox, canonicalise, in_domain, runs_of
from gencard.core.dataset import Dataset
from gencard.core.derived_cells import with_computed
from gencard.core.errors import BlackBoxError, GencardError, JobLimitError, StorageError, WorkerError
from gencard.core.types import FloatArray, Progress

# Rows of an audited card: one run on the records, and draws from its result.
#
# The run keeps its fit, or its rows if it has no fit. All rows that are ever released under the card are
# made from that result, so the records are read once, and a claim of privacy is spent once.


def keep(job: tasks.KeepJob, progress: Progress) -> tasks.KeepResult:
    """Run the black box on the records and keep its result in a file; its seed is not kept."""
    progress("read", 0.0)
    cliques = [*job.recipe.cliques, *(statistic.clique for statistic in job.recipe.linear)]
    dataset = records_over(cliques, job.records)
    box = box_of(job.recipe)
    progress("run", 0.1)
    if isinstance(box, FittingBox):
        with _catalogued_errors():
            fit = box.fit(dataset, seed=_seed(), progress=progress).save()
        write_whole(job.folder / tasks.KEPT_FIT, [fit])
    else:
        with _catalogued_errors():
            output = box(dataset, job.rows, seed=_seed())
        rows = canonicalise(output, dataset.domain, job.rows, rng=_shuffling())
        RowsFile(job.folder / tasks.KEPT_ROWS).write(rows)
    return tasks.KeepResult()


def draw(job: tasks.DrawJob, progress: Progress) -> tasks.RowsResult:
    """Write rows in canonical form, made from the result of a kept run; reads no record."""
    progress("sample", 0.0)
    if (job.folder / tasks.KEPT_ROWS).exists():
        kept_rows = RowsFile(job.folder / tasks.KEPT_ROWS).dataset()
        drawn_rows = kept_rows.take(_shuffling().permutation(len(kept_rows))[: job.rows])
    else:
        box = box_of(job.recipe)
        saved = _read(job.folder / tasks.KEPT_FIT)
        if not isinstance(box, FittingBox):
            raise BlackBoxError(problem="its saved fit is missing")
        with _catalogued_errors():
            output = box.load(saved).sample(job.rows, seed=_seed())
        drawn_rows = canonicalise(output, job.domain, job.rows, rng=_shuffling())
    return left_in(job.rows_file, with_computed(drawn_rows, job.computed))


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
    with suppress(OSError):
        return path.read_bytes()
    raise StorageError


def _seed() -> int:
    """Return a secret seed with as many bits as in an audit, so that a box cannot tell the two apart."""
    return secrets.randbits(64)


def _shuffling() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(secrets.randbits(128)))


# Audits: runs are kept in files until the audit has ended; this machine repeats runs of workers.
#
# A worker may be dishonest and send rows that are not the box's. Its rows are trusted as far as
# repetitions agree, to the byte. On each side this machine repeats, once all answers of the side are
# there:
#
# * a share of the runs, drawn by the system's randomness, which no worker can foresee;
# * as many runs that move the results most: a few false runs that turn a verdict are among them;
# * two runs of every group with equal rows, so that one answer cannot serve for many runs.

_PROBLEM = "gave other rows for a run than this controller, twice, with the same seed"


class NotRepeatableError(Exception):
    """The box does not make the same rows from the same seed, so its runs cannot be compared."""


@dataclass(frozen=True, slots=True)
class JournaledBox:
    """A black box whose runs are kept in files, each found again by its seed.

    It is for one audit alone: there each run has a seed of its own, and the input of a run follows from
    the plan and from the runs before it.

    Args:
        folder: Exists; belongs to this audit, and no other account may read it.
        performer: Name of the worker that has made the run of a seed; empty for this machine.
    """

    box: BlackBox
    folder: Path
    performer: Callable[[int], str] = lambda _seed: ""

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        return next(self.runs_by_seed(dataset, rows, seeds=[seed]))

    def runs_by_seed(self, dataset: Dataset, rows: int, *, seeds: Sequence[int]) -> Iterator[Dataset]:
        kept = {seed: file for seed in seeds if (file := self._file(seed))}
        outputs = runs_of(self.box, dataset, rows, [seed for seed in seeds if seed not in kept])
        # files are written while the next runs are made: to wait for the disk takes as long as some runs
        with ThreadPoolExecutor(1) as writer:
            written: list[Future[None]] = []
            for number, seed in enumerate(seeds, start=1):
                if seed in kept:
                    output = kept[seed].dataset()
                else:
                    output = in_domain(next(outputs), dataset.domain, rows)
                    # the name stays with the rows, for a controller that takes over compares them too
                    file = RowsFile(self.folder / _file_name(seed, self.performer(seed)))
                    written.append(writer.submit(file.write, output))
                if number == len(seeds):  # the caller takes no more: all files are there, or it fails
                    for one in written:
                        one.result()
                yield output

    def made_by(self, seed: int) -> str:
        """Name of the worker that made a run; empty for this machine, or if there is no such run."""
        file = self._file(seed)
        return _worker_of(file.path) if file else ""

    def kept(self, seed: int) -> Dataset:
        file = self._file(seed)
        if file is None:
            raise StorageError
        return file.dataset()

    def forget_runs(self, but_of: Collection[str] = ()) -> None:
        """Throw away the runs that workers made, but those of some workers."""
        with suppress(OSError):
            for path in self.folder.glob("*.*.run"):
                if _worker_of(path) not in but_of:
                    path.unlink()
            return
        raise StorageError

    def _file(self, seed: int) -> RowsFile | None:
        own = self.folder / _file_name(seed, "")
        others = sorted(self.folder.glob(_file_name(seed, "*")))
        paths = [own] if own.exists() else others
        return RowsFile(paths[0]) if paths else None


def _file_name(seed: int, worker: str) -> str:
    return f"{seed:020d}.{worker}.run" if worker else f"{seed:020d}.run"


def _worker_of(path: Path) -> str:
    return path.name.removesuffix(".run").partition(".")[2]


class RepeatedBox:
    """A box whose runs by workers are repeated here in part; see ``core.blackbox.WeighedBox``.

    Args:
        box: Its runs are compared, also those of an earlier start of the same audit.
        here: The same box on this machine.
        share: Share of the runs of a side that is drawn; at least one run is.
    """

    def __init__(self, box: JournaledBox, here: BlackBox, share: float) -> None:
        self._box, self._here, self._share = box, here, share
        self._given: dict[int, tuple[Dataset, int]] = {}
        self._equal: defaultdict[str, list[int]] = defaultdict(list)
        self._repeated: set[int] = set()

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        return next(self.runs_by_seed(dataset, rows, seeds=[seed]))

    def runs_by_seed(self, dataset: Dataset, rows: int, *, seeds: Sequence[int]) -> Iterator[Dataset]:
        """Yield the rows of each seed, in their order; the last rows come after the comparison.

        Raises:
            WorkerError: A worker's rows are not those that this machine makes, with the same seed.
            NotRepeatableError: This machine makes different rows with the same seed.
        """
        outputs = self._box.runs_by_seed(dataset, rows, seeds=seeds)
        for number, seed in enumerate(seeds, start=1):
            output = next(outputs)
            self._given[seed] = (dataset, rows)
            self._equal[output.digest()].append(seed)
            # the caller takes no more after the last run, and none before this may be foreseen
            if number == len(seeds):
                self._repeat(_system.sample(list(seeds), self._number(len(seeds))))
                self._repeat_equal(frozenset(seeds))
            yield output

    def weigh(self, seeds: Sequence[int], values: FloatArray) -> None:
        """Repeat the runs of a side whose numbers lie farthest from those of its other runs."""
        order = np.argsort(-_distances(values), kind="stable")
        self._repeat([seeds[place] for place in order[: self._number(len(seeds))]])

    def worker_runs(self, runs: int) -> WorkerRuns | None:
        """Return the checks of the runs of workers, so many on a side; None if workers made none."""
        made = sum(bool(self._box.made_by(seed)) for seed in self._given)
        number = self._number(runs)
        return WorkerRuns(made, len(self._repeated), number, number) if made else None

    def _number(self, runs: int) -> int:
        return min(runs, max(1, math.ceil(self._share * runs)))

    def _repeat_equal(self, seeds: frozenset[int]) -> None:
        """Two of each group: at most one of them can be the run whose rows were used again."""
        for group in self._equal.values():
            if len(group) > 1 and seeds & set(group):
                self._repeat(_system.sample(group, 2))

    def _repeat(self, seeds: Iterable[int]) -> None:
        for seed in seeds:
            worker = self._box.made_by(seed)
            if not worker or seed in self._repeated:
                continue
            expected = self._run(seed)
            if expected != self._box.kept(seed).digest():
                # a box that uses more than its seed must not bring an honest worker into disrepute
                if self._run(seed) != expected:
                    raise NotRepeatableError
                raise WorkerError(worker=worker, problem=_PROBLEM)
            self._repeated.add(seed)

    def _run(self, seed: int) -> str:
        dataset, rows = self._given[seed]
        return in_domain(self._here(dataset, rows, seed=seed), dataset.domain, rows).digest()


_system = secrets.SystemRandom()
_FAR = 1e12


def _distances(values: FloatArray) -> FloatArray:
    """Return each run's distance from the median run, in the number with the largest distance.

    In units of the median distance, which false runs do not move as long as they are fewer than half.
    ``values`` has the shape ``(runs, numbers)``.
    """
    distance = np.abs(values - np.median(values, axis=0))
    usual = np.median(distance, axis=0)
    # where more than half of the runs agree, any other value is far from them
    scaled = np.where(usual > 0, distance / np.where(usual > 0, usual, 1.0), distance * _FAR)
    return np.asarray(scaled.max(axis=1, initial=0.0))


def audit(job: tasks.AuditJob, progress: Progress) -> tasks.AuditResult:
    """Records and a black box -> a report; its numbers depend on records.

    Raises:
        BlackBoxError: The box did not end its runs; why, depends on records too, and is not said.
    """
    progress("read", 0.0)
    plan = job.plan
    cliques = [*plan.cliques, *(statistic.clique for statistic in plan.linear)]
    dataset = records_over(cliques, job.records)
    # The key is secret. A resumed audit has the same key, because its plan has the same seed; each audit
    # has a seed of its own, of 64 bits.
    key = hmac.digest(job.records.salt, f"audit-report {plan.seed}".encode(), "sha256")
    audit_of = partial(
        core_audit, dataset=dataset, plan=plan, versions=job.versions, digest_key=key, progress=progress
    )
    with suppress(BlackBoxError, JobLimitError):
        return tasks.AuditResult(_audited(job, audit_of))
    raise BlackBoxError(problem="its runs on the records did not finish correctly")


def _audited(job: tasks.AuditJob, audit_of: Callable[[BlackBox], AuditReport]) -> AuditReport:
    if job.cluster is None:
        box = JournaledBox(box_of(job.recipe), job.journal)
        box.forget_runs()
        return audit_of(box)
    # loads gRPC, which audits without a cluster do not need
    from gencard.controller.jobs.cluster.executor import cluster_box  # noqa: PLC0415

    there = cluster_box(job.recipe, job.cluster)
    journaled = JournaledBox(there, job.journal, lambda seed: there.performers.get(seed, ""))
    journaled.forget_runs(job.cluster.workers)  # others were refused since an earlier start
    repeated = RepeatedBox(journaled, there.here, job.cluster.repeated)
    with suppress(NotRepeatableError):
        report = audit_of(repeated)
        return replace(report, workers=repeated.worker_runs(report.plan.terms.runs))
    journaled.forget_runs()
    return audit_of(JournaledBox(there.here, job.journal))
