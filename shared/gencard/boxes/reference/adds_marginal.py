"""A black box that smuggles in a marginal of which the card knows nothing."""

from collections.abc import Sequence

from gencard.boxes.reference.honest import Honest
from gencard.core.domain import Clique
from gencard.core.generators.contract import Generator
from gencard.core.statistics.linear import Statistic, divided


class AddsMarginal(Honest):
    """Fits ``extra`` besides the statistics of the card: the paper's dishonest generator."""

    def __init__(self, generator: Generator, statistics: Sequence[Statistic], extra: Clique) -> None:
        cliques, linear = divided(statistics)
        super().__init__(generator, (*cliques, extra, *linear))
        self.extra = extra
