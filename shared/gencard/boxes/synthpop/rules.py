"""What must hold between attributes, whatever the trees say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError

FREE = -1
"""In place of a code, where no rule holds."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Records that meet every condition have this code.

    Args:
        attribute: The one whose code is fixed.
        code: The code it then has.
        where: Attributes that come before it, each with the codes of which it must have one.
    """

    attribute: str
    code: int
    where: tuple[tuple[str, tuple[int, ...]], ...]

    def check(self, domain: Domain) -> None:
        """Whether the rule speaks of this domain.

        Raises:
            InvalidInputError: A code is outside its attribute's size.
            UnknownAttributeError: An attribute is not in the domain.
        """
        for attribute, codes in ((self.attribute, (self.code,)), *self.where):
            if not all(0 <= code < domain.size(attribute) for code in codes):
                raise InvalidInputError(
                    field="rules", problem="a code is outside the domain of its attribute"
                )

    def holds(self, codes: NDArray[Any], domain: Domain) -> NDArray[np.bool_]:
        """For which records: shape ``(n,)``."""
        met = np.ones(len(codes), dtype=np.bool_)
        for attribute, allowed in self.where:
            met &= np.isin(codes[:, domain.axis(attribute)], allowed)
        return met


def ruled(rules: Sequence[Rule], codes: NDArray[Any], domain: Domain) -> NDArray[np.int64]:
    """The code that the first rule which holds gives to each record, else ``FREE``: shape ``(n,)``."""
    fixed = np.full(len(codes), FREE, dtype=np.int64)
    for rule in reversed(rules):
        fixed[rule.holds(codes, domain)] = rule.code
    return fixed
