"""A box that comes with Gencard, run in a cell all the same."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gencard.boxes.entry import Parameters, Surroundings
from gencard.boxes.registry import BOXES, box_named, complete
from gencard.controller.sandbox.box import unheard, values_within
from gencard.controller.sandbox.cell import Cell
from gencard.controller.sandbox.cell_fit import CellFit
from gencard.controller.sandbox.contents import digest_of_view
from gencard.controller.sandbox.refusals import error_of_refusal
from gencard.controller.sandbox.view import View
from gencard.controller.sandbox.views import python_view
from gencard.core.blackbox.contract import BlackBox, FittingBox
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.types import Progress, ignore_progress
from gencard.wire.box_answer import AnswerReader, Told
from gencard.wire.box_request import BoxRequest, BoxTask, Values
from gencard.wire.signatures.canonical import digest_of

_COMMAND = ("python", "-I", "-m", "gencard.controller.sandbox.built_in")

_LIBRARIES = {
    "synthpop": ("opendp", "scikit-learn"),
    "ctgan": ("opendp", "scikit-learn", "torch"),
    "pate-gan": ("opendp", "torch"),
}
"""Distributions that boxes compute with besides numpy and scipy."""

_NOISE = ("opendp",)
"""Those of all others."""


@dataclass(frozen=True, slots=True, eq=False)
class BuiltInBox:
    """See ``core.blackbox.contract.BlackBox``; made by ``built_in_box``.

    Args:
        parameters: Those that have not their defaults.
        values: For ordered attributes, the number that each code stands for, NaN for missing.
    """

    name: str
    parameters: Parameters
    cell: Cell
    workload: tuple[Clique, ...] = ()
    values: Values = field(default_factory=dict)

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        """See ``box.CellBox``; raises besides what the box refuses by what is public of its input."""
        return self.ask(BoxTask.RUN, dataset, rows, seed).rows()

    def ask(
        self,
        task: BoxTask,
        dataset: Dataset,
        rows: int,
        seed: int,
        *,
        saved: bytes = b"",
        told: Told = unheard,
    ) -> AnswerReader:
        """The answer to one request, which is no refusal."""
        values = values_within(self.values, dataset)
        request = BoxRequest(task, dataset, rows, seed, self.parameters, self.workload, values, saved)
        reader = self.cell.ask((*_COMMAND, self.name), (), request, told=told)
        if refusal := reader.refusal():
            raise error_of_refusal(*refusal)
        return reader


class FittingBuiltInBox(BuiltInBox):
    """See ``core.blackbox.contract.FittingBox``; fits and samples are made in cells of their own."""

    __slots__ = ()

    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> CellFit:
        """Fit to records; progress is heard, for the code is ours."""

        def told(hundredths: int) -> None:
            progress("fit", hundredths / 100)

        saved = self.ask(BoxTask.FIT, dataset, 0, seed, told=told).saved()
        return CellFit(self.sampled, dataset.domain, saved)

    def load(self, saved: bytes) -> CellFit:
        """A fit that was saved; whether the bytes are one is seen by the box, when it samples."""
        return CellFit.load(self.sampled, saved)

    def sampled(self, none: Dataset, saved: bytes, rows: int, seed: int) -> Dataset:
        """Rows of a fit, over the domain of a dataset without records."""
        return self.ask(BoxTask.SAMPLE, none, rows, seed, saved=saved).rows()


def built_in_box(
    name: str,
    parameters: Parameters,
    cell: Cell,
    *,
    workload: tuple[Clique, ...] = (),
    values: Values | None = None,
) -> BuiltInBox:
    """A box of the registry, in a cell.

    Raises:
        InvalidInputError: There is none of this name, or a parameter is wrong.
    """
    known = values or {}
    inside = unconfined(name, parameters, workload, known)
    kind = FittingBuiltInBox if isinstance(inside, FittingBox) else BuiltInBox
    return kind(name, parameters, cell, workload, known)


def unconfined(
    name: str, parameters: Parameters, workload: tuple[Clique, ...] = (), values: Values | None = None
) -> BlackBox:
    """The box as it will be made in the cell, to be looked at and never to be run.

    Raises:
        InvalidInputError: There is none of this name, or a parameter is wrong.
    """
    from gencard.controller.noise import OpenDpNoise  # noqa: PLC0415 - OpenDP takes its time

    return box_named(name, parameters, Surroundings(workload, values or {}, OpenDpNoise()))


def built_in_view(name: str) -> View:
    """What the cell of a box of the registry shows of the machine.

    Raises:
        InvalidInputError: There is none of this name.
    """
    if name not in BOXES:
        raise InvalidInputError(field="black_box", problem="no black box has this name")
    return python_view(_LIBRARIES.get(name, _NOISE), controller=True)


def built_in_digest(name: str, parameters: Mapping[str, str], view: View) -> str:
    """SHA-256, in hex, of all that runs in the cell.

    Raises:
        InvalidInputError: The box has no such parameter.
        GeneratorChangedError: What the view names is not there any more.
    """
    return digest_of(
        {
            "format": "gencard.built-in.v2",
            "box": name,
            "parameters": dict(complete(BOXES[name], parameters)),
            "view": digest_of_view(view),
        }
    )
