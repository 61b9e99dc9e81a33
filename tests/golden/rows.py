"""Rows that psi, generator and seed stand for: digests of what the first version drew."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gencard.boxes.entry import Surroundings
from gencard.boxes.registry import box_named
from gencard.core.blackbox import FittingBox
from gencard.core.coding import StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import GencardError
from gencard.core.generators.contract import rng_of, synthesise
from gencard.core.generators.model_file import bytes_of, model_of
from gencard.core.generators.registry import GENERATORS, generator_named
from gencard.core.statistics.linear import Function, LinearStatistic
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import LinearMeasurement, Measurement, Psi
from gencard.wire.psi import psi_of_document
from tests.core.seeded_noise import SeededNoise
from tests.core.tables import dense_dataset
from tests.golden.files import golden

MAX_CELLS = 10_000_000
ROWS = 100_000
"""Number of rows: so many that a change of a probability by 1e-5 changes a row."""
ZEROS: Mapping[str, tuple[StructuralZeros, ...]] = {
    "zeros": (StructuralZeros(("a", "b"), ((0, 1), (1, 2))), StructuralZeros(("c",), ((3,),)))
}
"""Structural zeros that go with psi of this name; none with the others."""

SEEDS = {"chain": (0, 7, 2**64 - 1)}
USUAL_SEED = (7,)


@dataclass(frozen=True)
class Case:
    """One draw."""

    generator: str
    psi: str
    seed: int

    def __str__(self) -> str:
        return f"{self.generator} {self.psi} {self.seed}"

    def outcome(self) -> str:
        """SHA-256 of the rows, in hex; or the reason of the refusal."""
        psi = psi_of_document(golden(f"rows/{self.psi}.json"))
        try:
            generator = generator_named(
                self.generator, structural_zeros=ZEROS.get(self.psi, ()), max_cells=MAX_CELLS
            )
            return synthesise(generator, psi, psi.domain, ROWS, self.seed).digest()
        except GencardError as error:
            return error.reason


def cases() -> Iterator[Case]:
    """Every generator on every psi."""
    for psi in (*PSIS, "moments", "noisy-moments"):
        for generator in GENERATORS:
            for seed in SEEDS.get(psi, USUAL_SEED):
                yield Case(generator, psi, seed)


# What is measured, for ``make`` alone ------------------------------------------------------------

_SMALL = Domain.of({"a": 2, "b": 3, "c": 4, "d": 3})
_MIDDLE = Domain.of({"a": 6, "b": 9, "c": 5, "d": 8, "e": 10})
_WIDE = Domain.of({f"x{number}": 4 for number in range(14)})
_LONE = Domain.of({"a": 2, "b": 3, "one": 1, "z": 5})
_ABCD = _SMALL.attributes


def _records(domain: Domain, rows: int, seed: int) -> Dataset:
    """Records whose attributes each depend on the one before."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, domain.sizes[0], rows)]
    for size in domain.sizes[1:]:
        own = rng.integers(0, size, rows)
        columns.append(np.where(rng.random(rows) < 0.5, columns[-1] % size, own))
    return Dataset.of_columns(domain, columns)


def _noisy(psi: Psi, stddev: float) -> Psi:
    rng = np.random.default_rng(11)
    measurements = tuple(
        Measurement(m.clique, m.values + np.rint(rng.normal(0, stddev, m.values.shape)), stddev)
        for m in psi.measurements
    )
    linear = tuple(
        LinearMeasurement(
            one.statistic,
            one.values + np.rint(rng.normal(0, stddev, one.values.shape)).astype(np.int64),
            np.full(one.values.shape, stddev),
        )
        for one in psi.linear
    )
    return Psi(psi.domain, tuple(map(_whole, measurements)), linear)


def _whole(measurement: Measurement) -> Measurement:
    return Measurement(measurement.clique, measurement.values.astype(np.int64), measurement.stddev)


def _without(dataset: Dataset, zeros: tuple[StructuralZeros, ...]) -> Dataset:
    kept = np.ones(len(dataset), dtype=bool)
    for zero in zeros:
        codes = dataset.codes[:, list(dataset.domain.axes(zero.clique))]
        kept &= ~np.array([tuple(record) in set(zero.cells) for record in codes.tolist()])
    return dataset.take(np.flatnonzero(kept))


def _ring(domain: Domain) -> list[tuple[str, str]]:
    names = domain.attributes
    return list(zip(names, (*names[1:], names[0]), strict=True))


def _pairs() -> Psi:
    return measure_dataset(_records(_SMALL, 900, 1), list(combinations(_ABCD, 2)))


def _zeros() -> Psi:
    records = _without(_records(_SMALL, 900, 2), ZEROS["zeros"])
    return measure_dataset(records, [("a", "b"), ("b", "c"), ("c", "d")])


PSIS = {
    "pairs": _pairs,
    "chain": lambda: measure_dataset(_records(_SMALL, 900, 3), [("a", "b"), ("b", "c"), ("c", "d")]),
    "triples": lambda: measure_dataset(
        _records(_SMALL, 900, 4), [("a", "b", "c"), ("b", "d"), ("c", "d")]
    ),
    "whole": lambda: measure_dataset(_records(_SMALL, 900, 5), [_ABCD, ("a", "b")]),
    "noisy": lambda: _noisy(_pairs(), 4.0),
    "noisy-whole": lambda: _noisy(
        measure_dataset(_records(_SMALL, 900, 5), [_ABCD, ("a", "b"), ("d",)]), 2.5
    ),
    "zeros": _zeros,
    "apart": lambda: measure_dataset(_records(_LONE, 300, 6), [("a", "b"), ("one",), ("z",)]),
    "middle": lambda: measure_dataset(
        dense_dataset(_MIDDLE, 30_000), list(combinations(_MIDDLE.attributes, 2))
    ),
    "wide": lambda: measure_dataset(_records(_WIDE, 2_000, 7), _ring(_WIDE)),
}


def _statistics() -> list[LinearStatistic]:
    by_c = tuple(int(c == place) * (2 * d + 1) for place in range(2) for c in range(4) for d in range(3))
    halves = (Function("1", (1,) * 12), *(Function(f"d {p}", by_c[12 * p :][:12], 2) for p in (0, 1)))
    mean = (Function("1", (1,) * 3), Function("b", (0, 1, 5)))
    return [LinearStatistic(("b",), mean), LinearStatistic(("c", "d"), halves)]


def linear_psis() -> dict[str, Psi]:
    """Make psis with sums besides marginals."""
    exact = measure_dataset(_records(_SMALL, 900, 8), [("a", "b"), *_statistics()])
    return {"moments": exact, "noisy-moments": _noisy(exact, 4.0)}


# Black boxes -----------------------------------------------------------------------------------------

BOXES: Mapping[str, Mapping[str, str]] = {
    "mst": {},
    "aim": {"rounds": "2"},
    "privbayes": {"degree": "2"},
    "synthpop": {},
}
"""Built-in boxes that need no torch, with parameters for quick runs."""


def box_outcome(name: str) -> str:
    """SHA-256 of the rows of a built-in box whose noise is seeded."""
    return _box(name)(_records(_SMALL, 900, 9), 300, seed=7).digest()


FITS = ("ipf", "graphical", "support-raking", "mst", "privbayes", "synthpop")
"""Generators and boxes of which a fit is kept, as the controller keeps those of private boxes."""


def _box(name: str) -> FittingBox:
    surroundings = Surroundings((("a", "b"), ("c", "d")), noise=SeededNoise(5))
    box = box_named(name, dict(BOXES[name]), surroundings)
    assert isinstance(box, FittingBox)
    return box


def saved_fits() -> Iterator[tuple[str, bytes]]:
    """The bytes of each fit; for ``make`` alone."""
    psi = psi_of_document(golden("rows/chain.json"))
    for name in FITS:
        if name in BOXES:
            yield name, _box(name).fit(_records(_SMALL, 900, 9), seed=7).save()
        else:
            generator = generator_named(name, structural_zeros=(), max_cells=MAX_CELLS)
            yield name, bytes_of(generator.fit(psi, psi.domain))


def kept_again(name: str) -> bytes:
    """The bytes of a fit that was loaded from its golden file."""
    saved = golden(f"rows/{name}.fit")
    return _box(name).load(saved).save() if name in BOXES else bytes_of(model_of(saved))


def fit_outcome(name: str) -> str:
    """SHA-256 of the rows that a kept fit gives, in hex."""
    saved = golden(f"rows/{name}.fit")
    if name in BOXES:
        return _box(name).load(saved).sample(300, seed=7).digest()
    return model_of(saved).sample(300, rng=rng_of(7)).digest()
