"""The generators of Houssiau et al. (2022), and what the paper prints for each.

Two are made for an application, from the marginals that its card names. The others get all 17
attributes once, as in the paper, with the parameters of its code: a PrivBayes whose attributes have one
parent each, ten epochs of CTGAN, ten teachers and a hundred iterations of PATE-GAN. With more parents
PrivBayes keeps the marginal of Table 1 almost exactly at so large an epsilon.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from benchmarks import census
from benchmarks.applications import applications
from benchmarks.houssiau import FULL_FILE, TOLERANCE
from gencard.boxes.entry import Surroundings
from gencard.boxes.reference import Honest
from gencard.boxes.registry import BOXES, box_named
from gencard.controller.noise import OpenDpNoise
from gencard.core.blackbox import BlackBox
from gencard.core.dataset import Dataset
from gencard.core.generators.family import LogLinear, graphical, ipf

TEST_RECORDS = 5_000
"""A tenth, which no generator sees."""

PREDICTION_ROWS = 50_000
"""Synthetic rows that predictions are learned from; the paper has all of them."""

GENERATORS: Mapping[str, LogLinear] = {
    "IPF": ipf(tolerance=TOLERANCE),
    "Private-PGM": graphical(tolerance=TOLERANCE),
}
"""Methods that see psi alone; the latter on exact marginals, as in the paper."""


class Printed(NamedTuple):
    """The paper's figures, of the full file: errors of Table 1, accuracies of Tables 2 and 3."""

    three: float
    gap: float
    regression: tuple[float, float]
    forest: tuple[float, float]
    similarity: float


@dataclass(frozen=True, slots=True)
class Method:
    """One generator.

    Args:
        box: The built-in black box that it is; empty where it sees psi alone.
        parameters: Where they are not the usual ones.
    """

    name: str
    printed: Printed
    box: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def there(self) -> bool:
        """Whether it can be run: CTGAN and PATE-GAN need torch."""
        if not self.box:
            return True
        return self.box in BOXES and (not BOXES[self.box].extra or find_spec("torch") is not None)

    @property
    def told(self) -> str:
        """Name and parameters."""
        return ", ".join([self.name, *(f"{name} {value}" for name, value in self.parameters.items())])


_PRIVATE = {"epsilon": "1000"}
_APPROXIMATE = {**_PRIVATE, "delta": "0.00001"}

METHODS = (
    Method("IPF", Printed(5.39e-4, 4.77e-2, (0.341, 0.341), (0.434, 0.436), 0.98)),
    Method("Private-PGM", Printed(5.35e-4, 4.94e-2, (0.341, 0.340), (0.438, 0.370), 1.0)),
    Method("MST", Printed(1.04e-3, 8.68e-2, (0.312, 0.297), (0.258, 0.266), 0.83), "mst", _APPROXIMATE),
    Method(
        "PrivBayes",
        Printed(8.97e-3, 0.284, (0.312, 0.306), (0.215, 0.222), 0.70),
        "privbayes",
        {**_PRIVATE, "degree": "1"},
    ),
    Method(
        "CTGAN", Printed(3.62e-3, 0.170, (0.288, 0.380), (0.329, 0.383), 0.89), "ctgan", {"epochs": "10"}
    ),
    Method(
        "PATE-GAN",
        Printed(1.29e-2, 0.570, (0.205, 0.403), (0.210, 0.460), 0.49),
        "pate-gan",
        {
            **_APPROXIMATE,
            "teachers": "10",
            "iterations": "100",
            "batch_size": "128",
            "critic_rate": "0.0001",
        },
    ),
    Method("SynthPop", Printed(9.60e-5, 4.61e-3, (0.341, 0.340), (0.437, 0.473), 0.98), "synthpop"),
)


@cache
def records() -> tuple[Dataset, Dataset]:
    """Training and test records on all attributes: nine tenths and a tenth at random."""
    everyone = census.census(census.names())
    order = np.random.default_rng(1).permutation(len(everyone))
    return everyone.take(order[TEST_RECORDS:]), everyone.take(order[:TEST_RECORDS])


def drawn(method: Method, seed: int) -> dict[str, Dataset]:
    """Synthetic records for each application, as many as the full file has."""
    training, _ = records()
    chosen = applications()
    if method.box:
        made = box(method)(training, FULL_FILE, seed=seed)
        return {one.name: made.project(one.dataset.domain.attributes) for one in chosen}
    honest = {one.name: Honest(GENERATORS[method.name], one.cliques) for one in chosen}
    return {
        one.name: honest[one.name](training.project(one.dataset.domain.attributes), FULL_FILE, seed=seed)
        for one in chosen
    }


def box(method: Method) -> BlackBox:
    """The built-in black box, its noise drawn by OpenDP; all attributes are nominal, as in the paper."""
    return box_named(method.box, method.parameters, Surroundings(noise=OpenDpNoise()))
