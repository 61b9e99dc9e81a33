"""For programs of analysts: ``records()`` is a data frame, ``output`` takes tables, models and numbers.

    from gencard.run import output, records

    frame = records()
    output.table("health by sex", frame.groupby(["sex", "health"]).size())

The same program runs on synthetic rows at the analyst's machine, and once on the records, in the
controller's sandbox. It needs no other change: names and lengths of its outputs are fixed by the run on
synthetic rows, and only the numbers may differ.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gencard.run.session import output, records, rng

__all__ = ["output", "records", "rng"]


def __getattr__(name: str) -> Any:
    """Load pandas only for who needs it: the levels of a file are in this package too."""
    if name in __all__:
        return getattr(import_module("gencard.run.session"), name)
    raise AttributeError(name)
