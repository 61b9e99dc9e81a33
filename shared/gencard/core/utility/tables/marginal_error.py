r"""Root mean squared error of one marginal: how far synthetic shares lie from the original ones.

:math:`\sqrt{\frac{1}{k} \sum_i (p_i - q_i)^2}` over all k cells of the domain, empty ones too, with the
shares p of the original and q of the synthetic records (Houssiau et al. 2022, Table 1).
"""

import numpy as np

from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.statistics.marginal import count


def marginal_error(original: Dataset, synthetic: Dataset, clique: Clique) -> float:
    """The error of the marginal on a clique, in shares; 0 where the shares agree.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidInputError: A dataset holds no record.
        TooLargeError: More cells than may be counted.
        UnknownAttributeError: An attribute is not in the domain.
    """
    check_same_domain(original.domain, synthetic.domain)
    if not (len(original) and len(synthetic)):
        raise InvalidInputError(field="dataset", problem="contains no records")
    ours, theirs = (count(dataset, clique) / len(dataset) for dataset in (original, synthetic))
    return float(np.sqrt(np.mean((ours - theirs) ** 2)))
