"""A black box that smuggles in a marginal of which the card knows nothing."""

from collections.abc import Sequence

from gencard.core.blackbox.honest import Honest
from gencard.core.domain import Clique
from gencard.core.generators.contract import Generator


class AddsMarginal(Honest):
    """Fits ``extra`` besides the cliques of the card: the paper's dishonest generator."""

    def __init__(self, generator: Generator, cliques: Sequence[Clique], extra: Clique) -> None:
        super().__init__(generator, (*cliques, extra))
        self.extra = extra
