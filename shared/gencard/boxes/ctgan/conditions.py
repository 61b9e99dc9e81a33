r"""The conditional vector, and records that meet it: training by sampling.

A condition is one level of one nominal attribute. The attribute is any with the same chance, the level
:math:`l` one with probability in proportion to :math:`\log(1 + n_l)`, so that rare levels are trained
too; the record is any of the :math:`n_l` that have it.

References:
    L. Xu, M. Skoularidou, A. Cuesta-Infante, K. Veeramachaneni, "Modeling Tabular Data using Conditional
    GAN", NeurIPS 2019, section 4.3.
"""

from dataclasses import dataclass

import numpy as np

from gencard.boxes.nets.draws import drawn_by
from gencard.boxes.nets.layout import Entries, Layout, Rows
from gencard.boxes.nets.modes import Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Conditions:
    """What can be a condition, and who meets it.

    Args:
        records: How many there are.
        counts: Records that have each nominal entry.
        starts: Of those records in ``order``, for each entry.
        order: Records by nominal attribute, and in each by level.
        by_log: Cumulative chances of the entries in training.
        by_count: Chances of the entries in sampling: every level as frequent as among the records.
    """

    records: int
    counts: Entries
    starts: Entries
    order: Entries
    by_log: Numbers
    by_count: Numbers

    def __len__(self) -> int:
        return len(self.counts)

    def drawn(self, batch: int, rng: np.random.Generator) -> tuple[Entries, Entries]:
        """A condition for each row of a batch, and a record that meets it, both by position.

        Without nominal attributes there are no conditions: zeros, and any records.
        """
        if not len(self):
            return np.zeros(batch, dtype=np.int64), rng.integers(self.records, size=batch)
        entries = drawn_by(self.by_log, rng.random(batch))
        among = (rng.random(batch) * self.counts[entries]).astype(np.int64)
        return entries, self.order[self.starts[entries] + among]


def conditions_of(layout: Layout, rows: Rows) -> Conditions:
    """The conditions of the records, of which there is at least one."""
    entries = int(layout.starts[layout.nominal])
    columns = rows.entries[:, : layout.nominal]
    counts = np.bincount(columns.ravel(), minlength=entries)
    by_log = [_shares(np.log1p(part)) for part in _by_attribute(layout, counts)]
    by_count = [_shares(part) for part in _by_attribute(layout, counts)]
    order = [np.argsort(column, kind="stable") for column in columns.T]
    return Conditions(
        len(columns),
        counts,
        np.cumsum(counts) - counts,
        np.concatenate([np.empty(0, dtype=np.int64), *order]),
        np.cumsum(np.concatenate([np.empty(0), *by_log])),
        np.concatenate([np.empty(0), *by_count]) / max(1, layout.nominal),
    )


def _by_attribute(layout: Layout, counts: Entries) -> list[Entries]:
    return np.split(counts, layout.starts[1 : layout.nominal]) if layout.nominal else []


def _shares(weights: Entries | Numbers) -> Numbers:
    shares: Numbers = weights / weights.sum()
    return shares
