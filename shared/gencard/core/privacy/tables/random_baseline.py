"""The median distance to the closest real record, beside that of records drawn without any model.

Random records take each attribute by itself and uniformly, from what the real ones have. Synthetic
records that are of any use are nearer than they are, so a low ratio shows no leak; one near 1 shows no
use. SDMetrics tells the ratio as DCRBaselineProtection.
"""

from dataclasses import dataclass

import numpy as np

from gencard.core.errors import InvalidDatasetError, InvalidNumberError
from gencard.core.privacy.distances.gower import Gower
from gencard.core.privacy.distances.nearest import nearest
from gencard.core.privacy.records import Column, Records


@dataclass(frozen=True, slots=True)
class RandomBaseline:
    """Median distances, 0 to 1, to the closest real record.

    Args:
        synthetic: Of synthetic records.
        random: Of random ones.
    """

    synthetic: float
    random: float

    @property
    def ratio(self) -> float | None:
        """The former by the latter, at most 1; None where random records are at distance 0."""
        return min(self.synthetic / self.random, 1.0) if self.random else None


def random_baseline(synthetic: Records, real: Records, random: Records, gower: Gower) -> RandomBaseline:
    """Compare synthetic and random records with real ones.

    Raises:
        DomainMismatchError: The attributes are not those of the distance.
        InvalidDatasetError: A table is empty, or none of its records has a distance.
    """
    return RandomBaseline(*(_median(records, real, gower) for records in (synthetic, random)))


def random_records(real: Records, rows: int, *, rng: np.random.Generator) -> Records:
    """Records whose attributes are independent and uniform over what real ones have.

    Numbers lie between the least and the greatest, whole ones where all are whole; levels are those
    that occur. As many values are missing, on average, as in the real records.

    Raises:
        InvalidDatasetError: There is no real record.
        InvalidNumberError: A negative number of rows.
    """
    if rows < 0:
        raise InvalidNumberError(field="The number of rows", expected="at least 0")
    if not len(real):
        raise InvalidDatasetError(problem="a table to compare has no records")
    return Records(real.attributes, tuple(_drawn(column, rows, rng) for column in real.columns))


def _median(records: Records, real: Records, gower: Gower) -> float:
    distance = nearest(records, real, gower, second=False).distance
    defined = distance[~np.isnan(distance)]
    if not len(defined):
        raise InvalidDatasetError(problem="no record has a distance to the real ones")
    return float(np.median(defined))


def _drawn(column: Column, rows: int, rng: np.random.Generator) -> Column:
    absent = np.isnan(column) if column.dtype.kind == "f" else column == -1
    missing, present = rng.random(rows) < absent.mean(), column[~absent]
    if column.dtype.kind == "i":
        levels = np.unique(present) if len(present) else np.array([-1])
        return np.where(missing, -1, rng.choice(levels, rows)).astype(np.int64)
    least, most = (present.min(), present.max()) if len(present) else (0.0, 0.0)
    numbers = least + (most - least) * rng.random(rows)
    if np.all(present == np.floor(present)):
        numbers = np.minimum(np.floor(least + (most - least + 1) * rng.random(rows)), most)
    return np.where(missing, np.nan, numbers)
