"""A fit that was made in a cell, kept as bytes that only another cell opens."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError, GencardError
from gencard.wire.signatures.canonical import document_of, json_bytes

Sampling = Callable[[Dataset, bytes, int, int], Dataset]
"""From a dataset without records, over the domain of the fit; the fit; rows; and seed."""


@dataclass(frozen=True, slots=True, eq=False)
class CellFit:
    """See ``core.blackbox.contract.FittedBox``.

    Args:
        inner: As the box gave it.
    """

    sampling: Sampling
    domain: Domain
    inner: bytes = field(repr=False)

    def sample(self, rows: int, *, seed: int) -> Dataset:
        """Synthetic records, ``rows`` of them; raises what a call of the box raises."""
        none = Dataset(self.domain, np.zeros((0, len(self.domain)), dtype=np.uint8))
        return self.sampling(none, self.inner, rows, seed)

    def save(self) -> bytes:
        """A line of JSON with the domain, then what the box gave."""
        domain = {"attributes": list(self.domain.attributes), "sizes": list(self.domain.sizes)}
        return json_bytes(domain) + b"\n" + self.inner

    @classmethod
    def load(cls, sampling: Sampling, saved: bytes) -> "CellFit":
        """What ``save`` gave; raises BlackBoxError where it did not."""
        head, _, inner = saved.partition(b"\n")
        try:
            header = document_of(head, "fit")
            domain = Domain(tuple(header["attributes"]), tuple(header["sizes"]))
            return cls(sampling, domain, inner)
        except (GencardError, KeyError, TypeError):
            pass
        raise BlackBoxError(problem="the bytes are not a saved fit")
