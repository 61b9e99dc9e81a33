"""A black box that keeps its word: it counts what the card allows and forgets the records."""

import hashlib
from collections.abc import Sequence

from gencard.core.dataset import Dataset
from gencard.core.generators.contract import Generator, Model
from gencard.core.generators.replay import rng_of
from gencard.core.statistics.linear import Statistic
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Psi

_MODELS_KEPT = 4


class Honest:
    """Measures Phi on its input, fits the generator and samples.

    ``fit`` is deterministic, so the last few models are kept by the digest of psi: an audit asks for
    the same psi again and again. From outside the box only gets faster.
    """

    def __init__(self, generator: Generator, statistics: Sequence[Statistic]) -> None:
        self.generator = generator
        self.statistics = tuple(statistics)
        self._models: dict[str, Model] = {}

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        return self.model(dataset).sample(rows, rng=rng_of(seed))

    def model(self, dataset: Dataset) -> Model:
        """The model fitted to the input's psi, over the attributes that Phi names."""
        psi = measure_dataset(dataset, self.statistics)
        digest = _digest(psi)
        if digest not in self._models:
            while len(self._models) >= _MODELS_KEPT:
                del self._models[next(iter(self._models))]
            self._models[digest] = self.generator.fit(psi, psi.domain)
        return self._models[digest]


def _digest(psi: Psi) -> str:
    hasher = hashlib.sha256(repr(psi.domain).encode())
    for measurement in psi.measurements:
        hasher.update(measurement.values.tobytes())
    for linear in psi.linear:
        hasher.update(linear.values.tobytes())
    return hasher.hexdigest()
