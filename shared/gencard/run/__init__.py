"""For programs of analysts: ``records()`` is a data frame, ``output`` takes tables, models and numbers.

    from gencard.run import output, records

    frame = records()
    output.table("health by sex", frame.groupby(["sex", "health"]).size())

The same program runs on synthetic rows at the analyst's machine, and once on the records, in the
controller's sandbox. It needs no other change: names and lengths of its outputs are fixed by the run on
synthetic rows, and only the numbers may differ.
"""

from gencard.run.session import Outputs, output, records, rng

__all__ = ["Outputs", "output", "records", "rng"]
