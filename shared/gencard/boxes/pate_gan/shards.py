"""Every record in one shard, and so in front of one teacher."""

from dataclasses import dataclass

import numpy as np

from gencard.boxes.nets.layout import Entries


@dataclass(frozen=True, slots=True, eq=False)
class Shards:
    """A partition of positions, which depends on their number and on randomness alone.

    Args:
        order: The positions, shard after shard.
        starts: Where each shard starts in ``order``.
        sizes: Positions of each, at least one; two shards differ by one at most.
    """

    order: Entries
    starts: Entries
    sizes: Entries

    def drawn(self, batch: int, rng: np.random.Generator) -> Entries:
        """Positions of each shard, with replacement: shape ``(shards, batch)``."""
        among = (rng.random((len(self.sizes), batch)) * self.sizes[:, None]).astype(np.int64)
        drawn: Entries = self.order[self.starts[:, None] + among]
        return drawn


def shards_of(records: int, shards: int, rng: np.random.Generator) -> Shards:
    """So many records in so many shards, at most as many."""
    sizes = np.full(shards, records // shards, dtype=np.int64)
    sizes[: records % shards] += 1
    return Shards(rng.permutation(records), np.cumsum(sizes) - sizes, sizes)
