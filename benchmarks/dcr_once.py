"""Distances to the closest record by one program, in a process of its own.

``python dcr_once.py PROGRAM JOB.npz LEFT RIGHT`` measures the first LEFT records of the job's one table
to the first RIGHT ones of its other, and prints one line of JSON. It runs in our environment and in
those of the peers, so it imports nothing but what the program in question needs. A job has ``left`` and
``right``, shape ``(n, d)``, with numbers first: ``spans`` are their ranges, all else are codes.
"""

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

np = import_module("numpy")

Answer = Any
"""Distances, shape ``(left,)``, 0 to 1."""


class Job:
    """Two tables as ``benchmarks.dcr`` left them, cut to so many records."""

    def __init__(self, path: str, left: int, right: int) -> None:
        with np.load(path) as parts:
            self.spans = parts["spans"]
            self.left, self.right = parts["left"][:left], parts["right"][:right]
        self.numbers, self.attributes = len(self.spans), self.left.shape[1]

    @property
    def names(self) -> list[str]:
        return [f"a{axis}" for axis in range(self.attributes)]

    def frames(self) -> tuple[Any, Any]:
        """Both tables with numbers as floats and levels as text."""
        frame = import_module("pandas").DataFrame
        frames = []
        for table in (self.left, self.right):
            made = frame(table, columns=self.names)
            levels = self.names[self.numbers :]
            made[levels] = made[levels].astype(int).astype(str)
            frames.append(made)
        return frames[0], frames[1]

    def few(self) -> "Job":
        """Ten records of either, for a call that compiles."""
        small = object.__new__(Job)
        small.__dict__ |= self.__dict__ | {"left": self.left[:10], "right": self.right[:10]}
        return small


def gencard(job: Job) -> Callable[[], Answer]:
    """Ours: pure numpy."""
    records = import_module("gencard.measures.privacy.distances").Records
    gower = import_module("gencard.measures.privacy.distances")
    nearest = import_module("gencard.measures.privacy.nearest").nearest
    tables = [
        records(
            tuple(job.names),
            tuple(c if axis < job.numbers else c.astype(np.int64) for axis, c in enumerate(table.T)),
        )
        for table in (job.left, job.right)
    ]
    ranges = (*job.spans.tolist(), *[None] * (job.attributes - job.numbers))
    distance = gower.Gower(tuple(job.names), ranges, (1.0,) * job.attributes)
    return lambda: nearest(*tables, distance, second=False).distance


def gower(job: Job) -> Callable[[], Answer]:
    """PyPI's gower, on codes, which is its fast way.

    Equally many rows on both sides are taken for one table, so that it leaves out half of the pairs:
    the last row is measured by itself.
    """
    matrix = import_module("gower").gower_matrix
    levels = [axis >= job.numbers for axis in range(job.attributes)]

    def distances() -> Answer:
        parts = (
            matrix(job.left, right, cat_features=levels) for right in (job.right[:-1], job.right[-1:])
        )
        return np.minimum(*(part.min(axis=1) for part in parts))

    return distances


def sdmetrics(job: Job) -> Callable[[], Answer]:
    """SDMetrics, in its chunks of a thousand by a thousand."""
    calculate = import_module("sdmetrics.single_table.privacy.dcr_utils").calculate_dcr
    kinds = ["numerical" if axis < job.numbers else "categorical" for axis in range(job.attributes)]
    columns = {name: {"sdtype": kind} for name, kind in zip(job.names, kinds, strict=True)}
    left, right = job.frames()
    return lambda: calculate(left, right, {"columns": columns}).to_numpy()


def anonymeter(job: Job) -> Callable[[], Answer]:
    """The search that its linkability and inference attacks use, compiled beforehand."""
    import_module("anonymeter.evaluators")  # its modules import each other in a circle
    search = import_module("anonymeter.neighbors.mixed_types_kneighbors").MixedTypeKNeighbors
    kinds = {"num": job.names[: job.numbers], "cat": job.names[job.numbers :]}

    def prepared(some: Job) -> Callable[[], Answer]:
        left, right = some.frames()
        neighbours = search(n_neighbors=1, n_jobs=1).fit(candidates=right, ctypes=kinds)
        return lambda: neighbours.kneighbors(left, return_distance=True)[0][:, 0] / job.attributes

    prepared(job.few())()
    return prepared(job)


def scipy(job: Job) -> Callable[[], Answer]:
    """``cdist`` by city blocks: numbers scaled, half an indicator for each level; 500 rows at once."""
    cdist = import_module("scipy.spatial.distance").cdist
    top = np.maximum(job.left.max(axis=0), job.right.max(axis=0)).astype(int)

    def embedded(table: Any) -> Any:
        parts = [table[:, : job.numbers] / job.spans]
        parts += [
            (table[:, [axis]] == np.arange(top[axis] + 1)) / 2
            for axis in range(job.numbers, job.attributes)
        ]
        return np.hstack(parts)

    def distances() -> Answer:
        left, right = embedded(job.left), embedded(job.right)
        blocks = (left[start : start + 500] for start in range(0, len(left), 500))
        nearest = [cdist(block, right, "cityblock").min(axis=1) for block in blocks]
        return np.concatenate(nearest) / job.attributes

    return distances


PROGRAMS: dict[str, Callable[[Job], Callable[[], Answer]]] = {
    "gencard": gencard,
    "gower": gower,
    "sdmetrics": sdmetrics,
    "anonymeter": anonymeter,
    "scipy": scipy,
}


def main(program: str, path: str, left: int, right: int) -> None:
    """Seconds of the processor, so that other work on the machine does not count."""
    call = PROGRAMS[program](Job(path, left, right))
    begin = time.process_time()
    distances = np.asarray(call(), np.float64)
    used = time.process_time() - begin
    status = Path("/proc/self/status").read_text().splitlines()  # rusage would count the parent's memory
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    zeros = int(np.sum(distances < 1e-9))
    print(json.dumps({"seconds": used, "peak": peak, "sum": float(distances.sum()), "zeros": zeros}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
