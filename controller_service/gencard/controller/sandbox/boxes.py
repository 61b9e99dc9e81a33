"""Black boxes that run in a sandbox: a program of a steward, or a box that comes with Gencard."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from gencard.boxes.entry import Parameters, Surroundings
from gencard.boxes.registry import BOXES, box_named, complete
from gencard.controller.sandbox.contents import digest_of_view
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.sandbox import Sandbox
from gencard.controller.sandbox.views import View, python_view
from gencard.core.blackbox import BlackBox, FittingBox
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import BlackBoxError, GencardError, InvalidInputError
from gencard.core.types import Progress, ignore_progress
from gencard.wire.box_answer import AnswerReader, HundredthsReport, error_of_refusal
from gencard.wire.box_request import BoxRequest, BoxTask, Values
from gencard.wire.signatures.canonical import digest_of, document_of, json_bytes


def values_of_attributes(values: Values, dataset: Dataset) -> Mapping[str, tuple[float, ...]]:
    """Those of the attributes that the dataset has."""
    return {name: values[name] for name in dataset.domain.attributes if name in values}


def ignore_hundredths(_hundredths: int) -> None:
    """Drop the progress of a program: it may depend on records."""


@dataclass(frozen=True, slots=True, eq=False)
class SandboxedProgram:
    """A program as a ``core.blackbox.contract.BlackBox``; each call is a separate run.

    Args:
        workload: The cliques of the card.
        values: For ordered attributes, the number that each code stands for, NaN for missing.
    """

    program: Program
    sandbox: Sandbox
    workload: tuple[Clique, ...] = ()
    values: Values = field(default_factory=dict)

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        """The rows that the program answers; its progress is dropped, for it may depend on records.

        Raises:
            BlackBoxError: It fails, or answers anything but so many declared codes.
            JobLimitError: It takes too long.
            IsolationError: Nothing can be run in a sandbox here.
        """
        request = BoxRequest(
            BoxTask.RUN,
            dataset,
            rows,
            seed,
            self.program.parameters,
            self.workload,
            values_of_attributes(self.values, dataset),
        )
        program = self.program
        return self.sandbox.ask(program.command, program.files, request, report=ignore_hundredths).rows()


Sampling = Callable[[Dataset, bytes, int, int], Dataset]
"""From a dataset without records, over the domain of the fit; the fit; rows; and seed."""


@dataclass(frozen=True, slots=True, eq=False)
class SandboxedFit:
    """See ``core.blackbox.contract.FittedBox``.

    Args:
        inner: As the box gave it.
    """

    sampling: Sampling
    domain: Domain
    inner: bytes = field(repr=False)

    def sample(self, rows: int, *, seed: int) -> Dataset:
        """Synthetic records, ``rows`` of them; raises what a call of the box raises."""
        none = Dataset(self.domain, np.zeros((0, len(self.domain)), dtype=np.uint8))
        return self.sampling(none, self.inner, rows, seed)

    def save(self) -> bytes:
        """A line of JSON with the domain, then what the box gave."""
        domain = {"attributes": list(self.domain.attributes), "sizes": list(self.domain.sizes)}
        return json_bytes(domain) + b"\n" + self.inner

    @classmethod
    def load(cls, sampling: Sampling, saved: bytes) -> "SandboxedFit":
        """What ``save`` gave; raises BlackBoxError where it did not."""
        head, _, inner = saved.partition(b"\n")
        try:
            header = document_of(head, "fit")
            domain = Domain(tuple(header["attributes"]), tuple(header["sizes"]))
            return cls(sampling, domain, inner)
        except (GencardError, KeyError, TypeError):
            pass
        raise BlackBoxError(problem="the bytes are not a saved fit")


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
class SandboxedBox:
    """See ``core.blackbox.contract.BlackBox``; made by ``built_in_box``.

    Args:
        parameters: Those that have not their defaults.
        values: For ordered attributes, the number that each code stands for, NaN for missing.
    """

    name: str
    parameters: Parameters
    sandbox: Sandbox
    workload: tuple[Clique, ...] = ()
    values: Values = field(default_factory=dict)

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        """See ``SandboxedProgram``; also raises what the box refuses by its public input."""
        return self.ask(BoxTask.RUN, dataset, rows, seed).rows()

    def ask(
        self,
        task: BoxTask,
        dataset: Dataset,
        rows: int,
        seed: int,
        *,
        saved: bytes = b"",
        report: HundredthsReport = ignore_hundredths,
    ) -> AnswerReader:
        """The answer to one request, which is no refusal."""
        values = values_of_attributes(self.values, dataset)
        request = BoxRequest(task, dataset, rows, seed, self.parameters, self.workload, values, saved)
        reader = self.sandbox.ask((*_COMMAND, self.name), (), request, report=report)
        if refusal := reader.refusal():
            raise error_of_refusal(*refusal)
        return reader


class FittingSandboxedBox(SandboxedBox):
    """See ``core.blackbox.contract.FittingBox``; fits and samples are made in sandboxes of their own."""

    __slots__ = ()

    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> SandboxedFit:
        """Fit to records; progress is reported, because this code is part of Gencard."""

        def report(hundredths: int) -> None:
            progress("fit", hundredths / 100)

        saved = self.ask(BoxTask.FIT, dataset, 0, seed, report=report).saved()
        return SandboxedFit(self.sampled, dataset.domain, saved)

    def load(self, saved: bytes) -> SandboxedFit:
        """A fit that was saved; the box checks the bytes when it samples."""
        return SandboxedFit.load(self.sampled, saved)

    def sampled(self, none: Dataset, saved: bytes, rows: int, seed: int) -> Dataset:
        """Rows of a fit, over the domain of a dataset without records."""
        return self.ask(BoxTask.SAMPLE, none, rows, seed, saved=saved).rows()


def sandboxed_box(
    name: str,
    parameters: Parameters,
    sandbox: Sandbox,
    *,
    workload: tuple[Clique, ...] = (),
    values: Values | None = None,
) -> SandboxedBox:
    """A box of the registry, in a sandbox.

    Raises:
        InvalidInputError: There is none of this name, or a parameter is wrong.
    """
    known = values or {}
    inside = unconfined(name, parameters, workload, known)
    kind = FittingSandboxedBox if isinstance(inside, FittingBox) else SandboxedBox
    return kind(name, parameters, sandbox, workload, known)


def unconfined(
    name: str, parameters: Parameters, workload: tuple[Clique, ...] = (), values: Values | None = None
) -> BlackBox:
    """The box outside a sandbox, for inspection only; it must never be run.

    Raises:
        InvalidInputError: There is none of this name, or a parameter is wrong.
    """
    from gencard.controller.noise import OpenDpNoise  # noqa: PLC0415 - OpenDP takes its time

    return box_named(name, parameters, Surroundings(workload, values or {}, OpenDpNoise()))


def built_in_view(name: str) -> View:
    """What the sandbox of a box of the registry shows of the machine.

    Raises:
        InvalidInputError: There is none of this name.
    """
    if name not in BOXES:
        raise InvalidInputError(field="black_box", problem="no black box has this name")
    return python_view(_LIBRARIES.get(name, _NOISE), controller=True)


def built_in_digest(name: str, parameters: Mapping[str, str], view: View) -> str:
    """SHA-256, in hex, of all that runs in the sandbox.

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
