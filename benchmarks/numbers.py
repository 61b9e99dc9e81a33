"""Numbers of synthetic rows beside those of the file: ``python -m benchmarks.numbers``.

Ten columns of five files, drafted without a hand. psi is all pairs of the column, another number and a
group, the column's histogram and its sum, measured in the core: exact, and with Gaussian noise of rho
0.05 for all of it. Rows of maximum entropy, as many as records; means over 20 draws, of rows and of
noise. Errors are relative to the file, whose values count as the schema clamps them. Needs
``../shared/data``.

Beside them stand the draws of other programs (``benchmarks.numbers_beside``), which ``--peers`` runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import cache, partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import bench
from benchmarks.numbers_beside import Columns, Program, programs
from benchmarks.peers import Figures as Recorded
from benchmarks.peers import Peers
from gencard.controller.drafting.schema_draft import SchemaDraft, draft_schema
from gencard.controller.noise import OpenDpNoise
from gencard.controller.records.vault import Vault
from gencard.core.card.privacy import EXACT, Privacy, gaussian
from gencard.core.card.sums import Histogram, Sum, scale_of
from gencard.core.coding import Attribute, Coding, Edges
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.generators.contract import rng_of
from gencard.core.generators.registry import generator_named
from gencard.core.scale import Places
from gencard.core.statistics.measure import measure
from gencard.core.statistics.numbers import places_of
from gencard.core.statistics.psi import Psi
from gencard.core.types import FloatArray
from gencard.run.levels import Numbers

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"
DRAWS = 20
NOISE = gaussian("0.05", neighbouring="add-remove")
HEAP = 0.1
"""Share of the records from which a value is a heap."""

BARS = {"mean": 0.02, "KS": 0.03, "heaps": 0.005, "q95": 0.04, "q99": 0.15, "sd": 0.15}
NOISY_MEAN = 0.05
MAXIMUM_ENTROPY = generator_named("maximum-entropy", structural_zeros=(), max_cells=10_000_000)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a file, and what psi holds beside it.

    Args:
        last: A last edge in place of the drafted one; larger values count as it.
        bar: Of the error of the mean under noise; None for none.
    """

    title: str
    file: str
    name: str
    other: str
    group: str
    last: int | None = None
    bar: float | None = NOISY_MEAN

    @property
    def path(self) -> Path:
        return FOLDER / f"numbers_{self.file}.parquet"


COLUMNS = (
    Column("med", "medexp", "med", "age", "sex", bar=None),
    Column("med to 10,000", "medexp", "med", "age", "sex", last=10_000, bar=0.1),
    Column("age", "medexp", "age", "linc", "health"),
    Column("hours", "hours", "whrswk", "experience", "race"),
    Column("income", "hours", "husby", "whrswk", "region"),
    Column("visits", "visits", "ofp", "numchron", "privins"),
    Column("wage", "wage", "wage", "exper", "sex"),
    Column("price", "price", "price", "trend", "premium"),
    Column("family income", "visits", "faminc", "age", "region"),
    Column("other visits", "visits", "ofnp", "age", "privins", bar=None),
    Column("other visits to 50", "visits", "ofnp", "age", "privins", last=50, bar=0.1),
    Column("disk", "price", "hd", "price", "premium"),
)
"""Seven, and three more. Those whose tail is so long that one record moves the mean of noisy rows by 2 %
or more are there twice, and under noise only what a steward would declare has a bar.
"""


@cache
def drafted(path: Path) -> SchemaDraft:
    """Raises SystemExit if the file is not there."""
    if not path.exists():
        raise SystemExit(f"needs {path.name} in ../shared/data, beside the repository")
    return draft_schema(path, path.stem, today=date(2026, 11, 27))


def coding_of(column: Column) -> Coding:
    """The drafted schema of the three attributes, with another last edge."""
    draft = drafted(column.path)
    attributes = []
    for attribute in draft.schema.coding.attributes:
        (own,) = (one for one in draft.attributes if one.name == attribute.name)
        if attribute.name == column.name and column.last is not None and own.scale is not None:
            edges = (*(edge for edge in own.scale.edges if edge < column.last), Decimal(column.last))
            scale = replace(own.scale, edges=edges, above=True)
            levels = scale.edges_of(missing=attribute.coding.missing, dates=False)
            attribute = Attribute(attribute.name, levels)  # noqa: PLW2901 - the drafted one otherwise
        if attribute.name in (column.name, column.other, column.group):
            attributes.append(attribute)
    return Coding(tuple(attributes))


Figures = dict[str, Any]
"""Errors by the names of ``BARS``."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A column with its records."""

    column: Column
    coding: Coding
    vault: Vault
    values: FloatArray

    @property
    def edges(self) -> Edges:
        edges = self.coding.attribute(self.column.name).coding
        assert isinstance(edges, Edges)
        return edges

    @property
    def real(self) -> FloatArray:
        """The numbers that are present."""
        return self.values[~np.isnan(self.values)]

    @property
    def step(self) -> Decimal:
        return scale_of(self.coding, self.column.name).step

    def figures(self, drawn: FloatArray) -> Figures:
        """Errors of numbers of rows, of which NaN is missing."""
        return figures(drawn[~np.isnan(drawn)], self.real, float(self.step))

    def psi(self, privacy: Privacy) -> Psi:
        phi: list[Clique | Histogram | Sum] = [*combinations(self.coding.domain.attributes, 2)]
        phi += [Histogram(self.column.name), Sum((self.column.name,))]
        return measure(self.vault, phi, self.coding.domain, privacy, noise=OpenDpNoise())

    def drawn(self, rows: Dataset, seed: int, places: Mapping[str, Places]) -> FloatArray:
        codes = rows.column(self.column.name)
        return Numbers(seed, places=places).of(self.column.name, self.edges, codes)


def task_of(column: Column) -> Task:
    coding, draft = coding_of(column), drafted(column.path)
    vault = Vault(column.path, coding, draft.schema.readings)
    values = pd.read_parquet(column.path)[column.name].to_numpy(dtype=float)
    return Task(column, coding, vault, scale_of(coding, column.name).adjusted(values))


def figures(drawn: FloatArray, real: FloatArray, step: float) -> Figures:
    """Errors of the rows' numbers, relative or in shares, by the names of ``BARS``; one of each heap."""
    both = np.concatenate([drawn, real])
    shares = [np.searchsorted(np.sort(part), both, side="right") / len(part) for part in (drawn, real)]
    values, counts = np.unique(real, return_counts=True)
    heaps = values[(counts >= HEAP * len(real)) | (values == 0)]
    errors = [
        np.mean(abs(drawn - one) < step / 2) - np.mean(abs(real - one) < step / 2) for one in heaps
    ]
    return {
        "mean": float(drawn.mean() / real.mean() - 1),
        "KS": float(np.abs(shares[0] - shares[1]).max()),
        "heaps": [*map(float, errors)],
        "q95": float(np.quantile(drawn, 0.95) / np.quantile(real, 0.95) - 1),
        "q99": float(np.quantile(drawn, 0.99) / np.quantile(real, 0.99) - 1),
        "sd": float(drawn.std() / real.std() - 1),
    }


def off_step(drawn: FloatArray, step: Decimal) -> int:
    """Count the numbers whose shortest decimal is no multiple of the step."""
    return sum(bool(Decimal(repr(one)) % step) for one in np.unique(drawn).tolist())


WAYS = ("levels", "histogram", "histogram and sum")


def places_by(psi: Psi, coding: Coding, way: str) -> dict[str, Places]:
    if way == "levels":
        return {}
    sums = psi.sums if way == "histogram and sum" else ()
    return places_of(Psi(psi.domain, psi.measurements, psi.linear, psi.histograms, sums), coding)


def exact(task: Task, draws: int) -> tuple[dict[str, Figures], int]:
    """The mean figures of each way to place numbers, and the numbers that are off their step."""
    psi = task.psi(EXACT)
    model = MAXIMUM_ENTROPY.fit(psi.fitted, psi.fitted.domain)
    places = {way: places_by(psi, task.coding, way) for way in WAYS}
    found: dict[str, list[Figures]] = {way: [] for way in WAYS}
    wrong = 0
    for seed in range(draws):
        rows = model.sample(len(task.values), rng=rng_of(seed))
        for way in WAYS:
            drawn = task.drawn(rows, seed, places[way])
            found[way].append(task.figures(drawn))
            wrong += off_step(drawn[~np.isnan(drawn)], task.step)
    return {way: averaged(figures) for way, figures in found.items()}, wrong


def averaged(found: Sequence[Figures]) -> Figures:
    """The mean error over draws; of the heaps the largest one."""
    means = {name: np.mean([one[name] for one in found], axis=0) for name in BARS}
    return {name: float(max(np.atleast_1d(mean), key=abs, default=0)) for name, mean in means.items()}


def noisy(task: Task, draws: int) -> dict[str, Figures]:
    """Root mean square of the error of the mean, and its mean and that of KS, for each way."""
    found: dict[str, list[Figures]] = {way: [] for way in WAYS}
    for seed in range(draws):
        psi = task.psi(NOISE)
        rows = MAXIMUM_ENTROPY.fit(psi.fitted, psi.fitted.domain).sample(
            len(task.real), rng=rng_of(seed)
        )
        for way in WAYS:
            drawn = task.drawn(rows, seed, places_by(psi, task.coding, way))
            found[way].append(task.figures(drawn))
    return {
        way: {
            "RMS": float(np.sqrt(np.mean([one["mean"] ** 2 for one in own]))),
            "mean": float(np.mean([one["mean"] for one in own])),
            "KS": float(np.mean([one["KS"] for one in own])),
        }
        for way, own in found.items()
    }


def beside(tasks: Sequence[Task], draws: int, peers: Peers) -> dict[str, dict[str, Figures]]:
    """Figures of other programs' draws, by program and column, but of columns with another last edge."""
    found: dict[str, dict[str, Figures]] = {}
    for program, task in product(programs(), tasks):
        column, known = task.column, None
        if column.last is None:
            measure = partial(_measured, program, task, draws) if program.draw else None
            known = peers.peer(
                program.name, column.title, program.settings, measure, version=program.version or ""
            )
        if known is not None:
            medians = {name: known.median(name) for name in BARS}
            found.setdefault(known.name, {})[column.title] = medians
    return found


def _measured(program: Program, task: Task, draws: int) -> Recorded:
    column = task.column
    columns = Columns(column.path, column.name, column.other, column.group)
    assert program.draw is not None
    every = averaged([task.figures(drawn) for drawn in program.draw(columns, draws)])
    return {name: [value] for name, value in every.items()}


def speed(task: Task, rows: int) -> float:
    """Time for the numbers of rows with the histogram and sum, as a multiple of the time without."""
    psi = task.psi(EXACT)
    codes = np.random.default_rng(1).integers(task.edges.size, size=rows)
    name, edges = task.column.name, task.edges

    def seconds(places: Mapping[str, Places]) -> float:
        return bench.fastest(lambda: Numbers(1, places=places).of(name, edges, codes))

    return seconds(places_of(psi, task.coding)) / seconds({})


def run(quick: bool, peers: bool = False) -> bench.Result:
    draws = 3 if quick else DRAWS
    tasks = [task_of(column) for column in (COLUMNS[1:4] if quick else COLUMNS)]
    exacts = {task.column.title: exact(task, draws) for task in tasks}
    noises = {task.column.title: noisy(task, draws) for task in tasks}
    others = Peers(peers)
    compared = beside(tasks, draws, others)
    slower = speed(tasks[0], 100_000 if quick else 1_000_000)
    targets = [
        bench.Target(f"{title}: {name}", abs(found[WAYS[-1]][name]), bar, "at most")
        for title, (found, _) in exacts.items()
        for name, bar in BARS.items()
    ]
    wrong = sum(count for _, count in exacts.values())
    targets.append(bench.Target("numbers off their step", wrong, 0, "at most"))
    targets += [
        bench.Target(f"{column.title}: mean, rho 0.05", abs(found["mean"]), column.bar, "at most")
        for column in (task.column for task in tasks)
        if column.bar is not None and (found := noises[column.title][WAYS[-1]])
    ]
    targets.append(bench.Target("time with a histogram", slower, 3.0, "at most", "times"))
    return bench.Result(
        [*_exact_tables(exacts), _table_beside(exacts, compared), _noisy_table(noises), others.table()],
        targets,
        {"exact": {title: found for title, (found, _) in exacts.items()}, "noise": noises},
    )


def _exact_tables(exacts: Mapping[str, tuple[dict[str, Figures], int]]) -> list[bench.Table]:
    pairs = [
        (title, *(f"{100 * found[way]['mean']:+.1f} / {1000 * found[way]['KS']:.0f}" for way in WAYS))
        for title, (found, _) in exacts.items()
    ]
    rows = [
        (title, *(f"{100 * found[WAYS[-1]][name]:+.2f}" for name in BARS))
        for title, (found, _) in exacts.items()
    ]
    return [
        bench.Table("Exact psi: error of the mean in % / KS distance x 1000", ("Column", *WAYS), pairs),
        bench.Table("Exact psi with histogram and sum: errors in %", ("Column", *BARS), rows),
    ]


def _table_beside(
    exacts: Mapping[str, tuple[dict[str, Figures], int]], others: Mapping[str, Mapping[str, Figures]]
) -> bench.Table:
    def cell(one: Figures | None) -> str:
        if one is None:
            return ""
        return f"{100 * one['mean']:+.1f} / {1000 * one['KS']:.0f} / {100 * one['sd']:+.0f}"

    rows = [
        (title, cell(found[WAYS[-1]]), *(cell(drawn.get(title)) for drawn in others.values()))
        for title, (found, _) in exacts.items()
    ]
    title = "Beside others: error of the mean in % / KS distance x 1000 / error of the sd in %"
    return bench.Table(title, ("Column", "here", *others), rows)


def _noisy_table(noises: Mapping[str, dict[str, Figures]]) -> bench.Table:
    rows = [
        (
            title,
            *(
                f"{100 * found[way]['RMS']:.2f} ({100 * found[way]['mean']:+.2f}) / "
                f"{1000 * found[way]['KS']:.0f}"
                for way in WAYS
            ),
        )
        for title, found in noises.items()
    ]
    title = "rho 0.05: RMS error of the mean in % (mean error) / KS distance x 1000"
    return bench.Table(title, ("Column", *WAYS), rows)


if __name__ == "__main__":
    bench.main("numbers", run, peers=True)
