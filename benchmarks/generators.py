"""Generators beside their peers: speed, marginals too many for a tree, accuracy under privacy, cost.

``python -m benchmarks.generators [--quick] [--peers] [--json FILE] [--plot FILE]``; seconds of fits
are the processor's on one thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks import accuracy, bench, cost, raking
from benchmarks.census import census
from benchmarks.ipf import APPLICATIONS, cyclic_ipf, worst_error
from benchmarks.peers import Figures, Fit, Peer, Peers, fitted
from benchmarks.raking import fifteen, pairs
from gencard.core.dataset import Dataset
from gencard.core.generators.contract import rng_of
from gencard.core.generators.family import graphical
from gencard.core.generators.junction_tree import edges
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Psi

_TREE = "14-attribute tree"

_PEER_ITERATIONS = 1_000
"""Iterations of mirror descent. On Application 3 even they leave two hundred times our error."""

_ROWS = 1_000_000

Part = tuple[list[bench.Table], list[bench.Target]]
"""Tables and targets of one part of the benchmark."""


def job(name: str) -> tuple[Psi, Dataset]:
    """The marginals of an application, or of the best spanning tree of 14 census attributes."""
    if name != _TREE:
        attributes, cliques = APPLICATIONS[name]
        dataset = census(attributes)
        return measure_dataset(dataset, cliques), dataset
    dataset = fifteen().project(fifteen().domain.attributes[:14])
    return measure_dataset(dataset, edges(measure_dataset(dataset, pairs(dataset)))), dataset


@dataclass(frozen=True, slots=True)
class Race:
    """Ours, and mbi's where it was run or recorded."""

    ours: Fit
    mbi: Peer | None


def graphical_race(name: str, repeats: int, peers: Peers) -> Race:
    psi, dataset = job(name)
    ours = fitted("gencard", psi, dataset.domain, repeats=repeats, processes=3)
    processes = 1 if name == "3" else 3  # a fit of mbi's takes a minute there

    def mbi() -> Figures:
        return fitted(
            "mbi", psi, dataset.domain, iterations=_PEER_ITERATIONS, repeats=1, processes=processes
        ).figures

    settings = f"MirrorDescent, {_PEER_ITERATIONS:,} steps, 64 bits"
    return Race(ours, peers.peer("mbi", name, settings, mbi))


def ipf_race(sweeps: int, peers: Peers) -> tuple[Fit, Fit, list[Peer]]:
    """IPF on Application 3: ours, the textbook, and two packages; ipfn does so many sweeps."""
    psi, dataset = job("3")
    domain = dataset.domain
    tables: list[np.ndarray] = []
    begin = bench.processor_seconds()
    tables.append(cyclic_ipf(psi, domain))
    cyclic = Fit(np.nan, bench.processor_seconds() - begin, worst_error(psi, domain, tables[0]), np.nan)
    ours = fitted("gencard ipf", psi, domain, repeats=5)

    def run(program: str) -> Figures:
        return fitted(program, psi, domain, iterations=sweeps, repeats=1).figures

    packages = {"ipfn": f"{sweeps} sweeps", "humanleague": "as delivered"}
    others = [
        peers.peer(program, "3", settings, partial(run, program))
        for program, settings in packages.items()
    ]
    return ours, cyclic, [peer for peer in others if peer]


def rows_per_second(name: str) -> float:
    psi, dataset = job(name)
    model = graphical().fit(psi, dataset.domain)
    return _ROWS / bench.fastest(lambda: model.sample(_ROWS, rng=rng_of(1)), 5)


def run(quick: bool, peers: bool = False) -> bench.Result:
    others = Peers(peers)
    by_records, by_model = cost.costs_by_records(quick), cost.costs_by_model(quick)
    parts = [
        _graphical(quick, others),
        *([] if quick else [_ipf(others)]),
        _raking(quick),
        _sampling(),
        _private(quick, others),
        cost.part(by_records, by_model),
    ]
    return bench.Result(
        [*(table for tables, _ in parts for table in tables), others.table()],
        [target for _, targets in parts for target in targets],
        plot=lambda path: cost.plot(path, by_records, by_model),
    )


def _graphical(quick: bool, peers: Peers) -> Part:
    names = ["1", _TREE] if quick else ["1", "2", "3", _TREE]
    races = {name: graphical_race(name, 3 if quick else 9, peers) for name in names}
    return [_race_table(races)], _race_targets(races)


def _ipf(peers: Peers) -> Part:
    ipfs = ipf_race(28, peers)
    return [_ipf_table(*ipfs)], _ipf_targets(*ipfs)


def _raking(quick: bool) -> Part:
    support = 2**16 if quick else 2**18
    rakes = {name: bench.alone(raking.rake, name, support) for name in raking.DATASETS}
    return [raking.table(rakes)], raking.targets(rakes)


def _sampling() -> Part:
    speeds = {name: rows_per_second(name) for name in ("1", _TREE)}
    table = bench.Table("Sampling", ("model", "rows/s"), list(speeds.items()))
    return [table], [
        bench.Target("rows/s, 3 attributes", speeds["1"], 5e6, "at least"),
        bench.Target("rows/s, 14 attributes", speeds[_TREE], 1e6, "at least"),
    ]


def _private(quick: bool, peers: Peers) -> Part:
    accuracies = {
        name: accuracy.accuracies(name, raking.DATASETS[name](), peers)
        for name in (("census",) if quick else raking.DATASETS)
    }
    return (
        [accuracy.table(name, *programs) for name, programs in accuracies.items()],
        [
            target
            for name, programs in accuracies.items()
            for target in accuracy.targets(name, *programs)
        ],
    )


def _race_table(races: dict[str, Race]) -> bench.Table:
    return bench.Table(
        "Graphical model on a junction tree: start, import and first fit (cold); fit again (warm)",
        ("job", "cold, s", "mbi cold", "times", "warm, s", "mbi warm", "times", "error", "mbi error"),
        [
            (
                name,
                *(race.ours.cold, *_beside(race, "cold", race.ours.cold)),
                *(race.ours.warm, *_beside(race, "warm", race.ours.warm)),
                race.ours.variation,
                race.mbi.median("variation") if race.mbi else None,
            )
            for name, race in races.items()
        ],
    )


def _beside(race: Race, figure: str, ours: float) -> tuple[bench.Cell, bench.Cell]:
    """Mbi's, and by ours."""
    if race.mbi is None:
        return None, None
    return race.mbi.median(figure), race.mbi.median(figure) / ours


def _ipf_table(ours: Fit, cyclic: Fit, peers: Sequence[Peer]) -> bench.Table:
    fits = {"gencard ipf": ours, "cyclic numpy": cyclic}
    fits |= {peer.name: Fit.of(peer) for peer in peers}
    return bench.Table(
        "IPF on Application 3, 936,000 cells, 21 pairs; without imports",
        ("program", "seconds", "times ours", "L1 error"),
        [(name, fit.warm, fit.warm / ours.warm, fit.worst) for name, fit in fits.items()],
    )


def _race_targets(races: dict[str, Race]) -> list[bench.Target]:
    targets = []
    for name, (ours, mbi) in ((name, (race.ours, race.mbi)) for name, race in races.items()):
        if mbi is None:
            continue
        cold, warm = mbi.median("cold") / ours.cold, mbi.median("warm") / ours.warm
        error = ours.variation / mbi.median("variation")
        targets += [
            mbi.speed(f"{name}: faster than mbi", cold, 50 if name == "3" else 10, "at least"),
            mbi.speed(f"{name}: warm", warm, 1, "at least"),
            bench.Target(f"{name}: error to mbi's", error, 1, "at most", "x"),
        ]
    return targets


def _ipf_targets(ours: Fit, cyclic: Fit, peers: Sequence[Peer]) -> list[bench.Target]:
    return [
        bench.Target("IPF: faster than cyclic numpy", cyclic.warm / ours.warm, 10, "at least", "x"),
        bench.Target("IPF: L1 error", ours.worst, 1e-4, "at most"),
        *(
            peer.speed(
                f"IPF: faster than {peer.program}", peer.median("warm") / ours.warm, 10, "at least"
            )
            for peer in peers
        ),
    ]


if __name__ == "__main__":
    bench.main("generators", run, peers=True)
