"""Noise for tests of what is done with noise: seeded, quick, in floats; and what was asked of it."""

import numpy as np


class SeededNoise:
    """The laws of the protocol, from numpy: Gaussian noise rounded, which is near enough above 1."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def laplace(self, counts, scale):
        share = -np.expm1(-1 / scale)
        draws = self.rng.geometric(share, (2, *counts.shape))
        return counts + draws[0] - draws[1]

    def gaussian(self, counts, scale):
        return counts + np.rint(self.rng.normal(0, scale, counts.shape)).astype(np.int64)

    def choose(self, scores, scale):
        return int(np.argmax(scores / scale + self.rng.gumbel(size=len(scores))))


class Recorded(SeededNoise):
    """Remembers each draw: its kind, how many counts or scores, and the scale."""

    def __init__(self, seed=0):
        super().__init__(seed)
        self.draws = []
        self.scores = []

    def laplace(self, counts, scale):
        self.draws.append(("laplace", counts.size, scale))
        return super().laplace(counts, scale)

    def gaussian(self, counts, scale):
        self.draws.append(("gaussian", counts.size, scale))
        return super().gaussian(counts, scale)

    def choose(self, scores, scale):
        self.draws.append(("choose", len(scores), scale))
        self.scores.append(np.array(scores))
        return super().choose(scores, scale)


class Silent(Recorded):
    """No noise at all, and the highest score: what a method does with an endless budget."""

    def laplace(self, counts, scale):
        return counts

    gaussian = laplace

    def choose(self, scores, scale):
        return int(np.argmax(scores))
