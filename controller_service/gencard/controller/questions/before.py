"""Everything that was released of the same records before a run, as its job receives it."""

from dataclasses import dataclass

from gencard.core.card.sums import Sum
from gencard.core.domain import Clique
from gencard.core.output_checks.populations import (
    Rounded,
)
from gencard.wire.documents.answer_document import Question


@dataclass(frozen=True, slots=True)
class EndedQuestion:
    """Question of an earlier run, and how its condition is read.

    Args:
        rules: Version of the output rules under which it ended; empty if its condition means the same
            now.
    """

    question: Question
    rules: str = ""


@dataclass(frozen=True, slots=True)
class Before:
    """All that was or may be released of the same records before.

    Args:
        earlier: Questions of runs that are answered, or may be.
        refused: Questions of runs that were refused or have failed; their populations are remembered.
        released: Marginals that cards have released exactly.
        rounded: Marginals that cards have released rounded.
        histograms: Attributes whose histograms cards have released exactly.
        sums: Sums that cards have released exactly.
    """

    earlier: tuple[EndedQuestion, ...] = ()
    refused: tuple[EndedQuestion, ...] = ()
    released: tuple[Clique, ...] = ()
    rounded: tuple[Rounded, ...] = ()
    histograms: Clique = ()
    sums: tuple[Sum, ...] = ()


NOTHING_BEFORE = Before()
"""Nothing was released of these records."""
