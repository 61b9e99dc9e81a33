"""How well a classifier predicts the records that it was made from, where margins determine that."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from gencard.core.answers.answer import Scalar, Table, table_of
from gencard.core.answers.margins import Margins
from gencard.core.domain import Clique
from gencard.core.errors import LackingMarginalsError
from gencard.core.types import FloatArray, IntArray

_UNDETERMINED = (
    "accuracy is not given: it needs the joint table of the response and all features, which "
    "is not determined here"
)


@dataclass(frozen=True, slots=True, eq=False)
class Predicted:
    """Predictions beside the truth.

    Args:
        confusion: Records by true class and predicted class; None where they are not determined.
        log_loss: Mean of the negative logarithm of the true class's probability, in nats.
    """

    confusion: FloatArray | None
    log_loss: float = np.nan

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        if self.confusion is None:
            return ()
        accuracy = float(np.trace(self.confusion) / self.confusion.sum())
        return Scalar("accuracy", accuracy), Scalar("log_loss", self.log_loss)

    @property
    def notes(self) -> tuple[str, ...]:
        return (_UNDETERMINED,) if self.confusion is None else ()

    def tables(self, classes: tuple[str, ...]) -> tuple[Table, ...]:
        """The confusion matrix, true classes in rows."""
        if self.confusion is None:
            return ()
        return (table_of("confusion", classes, classes, self.confusion),)


def predictions(
    margins: Margins,
    response: str,
    features: Clique,
    classes: IntArray,
    scores: Callable[[IntArray], FloatArray],
) -> Predicted:
    """What a classifier says about the records that it was made from.

    Args:
        classes: Codes of the response that it knows; every record has one of them.
        scores: From cells of the features, shape ``(m, len(features))``, to the logarithm of the
            probability of each class up to a constant, shape ``(m, len(classes))``.
    """
    clique = (response, *features)
    try:
        margins.source(clique)
    except LackingMarginalsError:
        return Predicted(None)
    cells = margins.occupied(clique)
    counts = np.maximum(cells.counts, 0)
    known = np.isin(cells.codes[:, 0], classes)
    codes, counts = cells.codes[known], counts[known]
    true = np.searchsorted(classes, codes[:, 0])
    logs = special.log_softmax(scores(codes[:, 1:]), axis=1)
    confusion = np.zeros((len(classes), len(classes)))
    np.add.at(confusion, (true, np.argmax(logs, axis=1)), counts)
    loss = -float(counts @ logs[np.arange(len(true)), true] / counts.sum())
    return Predicted(confusion, loss)
