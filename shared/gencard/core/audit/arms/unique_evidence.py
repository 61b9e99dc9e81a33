"""What an audit saw of unique records: of planted ones, and of the dataset's own."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlantedRuns:
    """Runs on one of the two planted datasets.

    Args:
        own: Of the records planted there, how many came out in each run.
        other: Of the records planted on the other side, how many came out in each run.
    """

    own: tuple[int, ...]
    other: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlantedEvidence:
    """What came out of two datasets with equal psi that differ in planted unique records alone.

    Args:
        cubes: Number of planted cubes.
        planted: Records planted on each side.
        rare: Records of both sides whose cells were expected to hold fewer than 0.05 rows of a run.
        even, odd: The runs on each side.
        one_in: A box that copies one unique record in so many is found by ``Check.PLANTED`` in about
            8 of 10 such audits; 0 where not even one that copies all of them is.
        alone: How many planted records ``Check.CANARY`` finds if they alone come out in every run.
    """

    cubes: int
    planted: int
    rare: int
    even: PlantedRuns
    odd: PlantedRuns
    one_in: int
    alone: int


@dataclass(frozen=True, slots=True)
class UniquesEvidence:
    """How many of the dataset's own unique records came out.

    Args:
        uniques: Unique records of the dataset that neither side of the pair holds.
        original: How many of them came out in each run on the dataset itself.
        twins: How many came out in each run on the sides of the pair, which have the same psi.
        one_in: As of ``PlantedEvidence``, for a box that copies on the dataset itself alone.
    """

    uniques: int
    original: tuple[int, ...]
    twins: tuple[int, ...]
    one_in: int
