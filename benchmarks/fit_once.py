"""One fit in a process of its own, from the start of Python to the fitted marginals.

``python fit_once.py PROGRAM JOB.npz ITERATIONS REPEATS`` prints one line of JSON. It runs in our
environment and in that of the peers, so it imports nothing but what the program in question needs.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

Clique = tuple[str, ...]


class Job:
    """A domain and its marginals, as ``benchmarks.peers.write_job`` left them; counts in float64."""

    def __init__(self, path: str) -> None:
        np = import_module("numpy")
        with np.load(path) as parts:
            header = json.loads(parts["header"].tobytes())
            self.names: Clique = tuple(header["names"])
            self.sizes: tuple[int, ...] = tuple(header["sizes"])
            self.cliques: list[Clique] = [tuple(clique) for clique in header["cliques"]]
            self.values: list[Any] = [parts[f"values_{i}"] for i in range(len(self.cliques))]

    def errors(self, marginals: Sequence[Any]) -> list[float]:
        """L1 distance of each marginal from the job's, in shares."""
        pairs = zip(marginals, self.values, strict=True)
        return [
            float(abs(marginal.ravel() / marginal.sum() - wanted.ravel() / wanted.sum()).sum())
            for marginal, wanted in pairs
        ]


def gencard(job: Job, _: int) -> Sequence[Any]:
    generator = import_module("gencard.core.generators.family").graphical(tolerance=1e-4)
    psi = _psi(job)
    model = generator.fit(psi, psi.domain)
    return [model.marginal(clique) for clique in job.cliques]


def gencard_ipf(job: Job, _: int) -> Sequence[Any]:
    generator = import_module("gencard.core.generators.family").ipf(tolerance=1e-4)
    psi = _psi(job)
    model = generator.fit(psi, psi.domain)
    return [model.marginal(clique) for clique in job.cliques]


def _psi(job: Job) -> Any:
    domain = import_module("gencard.core.domain").Domain(job.names, job.sizes)
    psi = import_module("gencard.core.statistics.psi")
    pairs = zip(job.cliques, job.values, strict=True)
    return psi.Psi(domain, tuple(psi.Measurement(c, v.astype("int64")) for c, v in pairs))


def mbi(job: Job, iterations: int) -> Sequence[Any]:
    import_module("jax").config.update("jax_enable_x64", True)
    peer = import_module("mbi")
    np = import_module("numpy")

    measurements = [
        peer.LinearMeasurement(values.ravel(), clique)
        for clique, values in zip(job.cliques, job.values, strict=True)
    ]
    model = peer.estimation.MirrorDescent().estimate(
        peer.Domain(job.names, job.sizes), measurements, iters=iterations
    )
    return [np.asarray(model.project(clique).datavector()) for clique in job.cliques]


def ipfn(job: Job, iterations: int) -> Sequence[Any]:
    np = import_module("numpy")
    axes = _axes(job)
    table = (
        import_module("ipfn.ipfn")
        .ipfn(
            np.full(job.sizes, 1.0),
            list(job.values),
            [list(a) for a in axes],
            convergence_rate=0.0,
            rate_tolerance=0.0,
            max_iteration=iterations - 1,
        )
        .iteration()
    )
    return _sums(table, axes)


def humanleague(job: Job, _: int) -> Sequence[Any]:
    peer = import_module("humanleague")
    np = import_module("numpy")

    axes = _axes(job)
    table, _status = peer.ipf(np.ones(job.sizes), [np.array(a) for a in axes], list(job.values))
    return _sums(table, axes)


def _axes(job: Job) -> list[tuple[int, ...]]:
    return [tuple(job.names.index(name) for name in clique) for clique in job.cliques]


def _sums(table: Any, axes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Marginals of a table; all cliques of the jobs are in the domain's order."""
    return [
        table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in kept)) for kept in axes
    ]


PROGRAMS: dict[str, Callable[[Job, int], Sequence[Any]]] = {
    "gencard": gencard,
    "gencard ipf": gencard_ipf,
    "mbi": mbi,
    "ipfn": ipfn,
    "humanleague": humanleague,
}


def main(program: str, path: str, iterations: int, repeats: int) -> None:
    job = Job(path)
    marginals = PROGRAMS[program](job, iterations)
    cold = time.process_time()  # other work on the machine does not count
    warm = []
    for _ in range(repeats):
        begin = time.process_time()
        PROGRAMS[program](job, iterations)
        warm.append(time.process_time() - begin)
    print(json.dumps({"cold": cold, "warm": warm, "errors": job.errors(marginals)}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
