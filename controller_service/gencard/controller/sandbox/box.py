"""A program in a cell, as a black box."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gencard.controller.sandbox.cell import Cell
from gencard.controller.sandbox.program import Program
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.wire.box_request import BoxRequest, BoxTask, Values


@dataclass(frozen=True, slots=True, eq=False)
class CellBox:
    """See ``core.blackbox.contract.BlackBox``; each call is a run of its own.

    Args:
        workload: The cliques of the card.
        values: For ordered attributes, the number that each code stands for, NaN for missing.
    """

    program: Program
    cell: Cell
    workload: tuple[Clique, ...] = ()
    values: Values = field(default_factory=dict)

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        """What the program answers; its progress is heard by nobody, for it has seen the records.

        Raises:
            BlackBoxError: It fails, or answers anything but so many declared codes.
            JobLimitError: It takes too long.
            IsolationError: Nothing can be run in a cell here.
        """
        request = BoxRequest(
            BoxTask.RUN,
            dataset,
            rows,
            seed,
            self.program.parameters,
            self.workload,
            values_within(self.values, dataset),
        )
        program = self.program
        return self.cell.ask(program.command, program.files, request, told=unheard).rows()


def values_within(values: Values, dataset: Dataset) -> Mapping[str, tuple[float, ...]]:
    """Those of the attributes that the dataset has."""
    return {name: values[name] for name in dataset.domain.attributes if name in values}


def unheard(_hundredths: int) -> None:
    """What a program says besides its answer may depend on records."""
