"""One run of a black box as bytes, and the process that performs runs on a worker.

An order is a ``RunOrder`` and its answer a ``RunAnswer``, of protos/gencard/v1/worker.proto. An answer
names the digest of its order, and so box, seed and dataset of the run, and of no other order.

Nothing is written to a disk, and no text of an error leaves: it may quote a record.
"""

import json
import secrets
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

import numpy as np
from google.protobuf.message import DecodeError

from gencard.controller.jobs.process import served, write_frame
from gencard.controller.jobs.synthesis import box_of
from gencard.controller.jobs.tasks import JOBS
from gencard.controller.jobs.worker import ended, limit
from gencard.controller.sandbox.boxes import ProgramRecipe, Recipe, received
from gencard.controller.sandbox.environment import python_runtime
from gencard.controller.sandbox.limits import Isolation
from gencard.core.blackbox import BlackBox, in_domain
from gencard.core.dataset import Dataset, row_bytes, wire_codes, wire_dtype
from gencard.core.domain import Domain
from gencard.core.errors import GencardError, GeneratorChangedError, InvalidInputError
from gencard.core.typed_json import PLAIN
from gencard.core.types import ignore_progress
from gencard.v1.worker_pb2 import RunAnswer, RunOrder
from gencard.wire.canonical import digest_of

_PACKAGES = ("core", "boxes", "wire", "v1", "measures", "analysis", "run", "controller")
"""Packages whose sources must be identical on worker and controller."""

_BESIDE_CODES = 1_024  # bytes of an answer besides its codes, at most


@cache
def code_digest() -> str:
    """SHA-256, in hex, of Gencard's sources, interpreter, C library, numpy and scipy.

    A worker of the controller's version reports the controller's digest. The digest is the worker's own
    claim: it prevents mistakes, not lies.
    """
    sources = {
        f"{package}/{path}": sha256(content).hexdigest()
        for package in _PACKAGES
        for path, content in sorted(_sources(files(f"gencard.{package}"), ""))
    }
    return digest_of({"runtime": PLAIN.write(python_runtime(())), "sources": sources})


def _sources(folder: Traversable, above: str) -> list[tuple[str, bytes]]:
    content = []
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            content += _sources(entry, f"{above}{entry.name}/")
        elif entry.name.endswith(".py"):
            content.append((above + entry.name, entry.read_bytes()))
    return content


class MalformedAnswerError(Exception):
    """An answer that no worker of this version gives; the text is public, and has no part of it."""


class WorkerRefusedError(Exception):
    """A worker does not perform the run, and another one may."""


@dataclass(frozen=True, slots=True)
class SentOrder:
    """The bytes of a ``RunOrder``, and the domain and number of the rows of its answer."""

    content: bytes
    domain: Domain
    rows: int

    @property
    def most_bytes(self) -> int:
        """Size of the largest possible answer, in bytes."""
        return self.rows * row_bytes(self.domain) + _BESIDE_CODES

    def rows_of(self, answer: bytes) -> Dataset | None:
        if len(answer) > self.most_bytes:
            raise MalformedAnswerError("an answer that is too large")
        message = RunAnswer()
        try:
            message.ParseFromString(answer)
        except DecodeError:
            raise MalformedAnswerError("an answer that is not of the protocol") from None
        # swapped and repeated answers end here: the digest covers the order's random number
        if message.order != sha256(self.content).digest():
            raise MalformedAnswerError("the answer to another order")
        outcome = message.WhichOneof("outcome")
        if outcome == "refused":
            raise WorkerRefusedError
        if outcome == "codes":
            with suppress(ValueError, GencardError):
                return _dataset(self.domain, self.rows, message.codes)
            raise MalformedAnswerError("rows of a wrong size, or codes outside the declared domain")
        if outcome == "failed" and message.failed:
            return None
        raise MalformedAnswerError("an answer without an outcome")


@dataclass(frozen=True, slots=True)
class OrderBook:
    """Writes the orders of one job.

    Args:
        job: Differs between jobs: no process of a worker performs runs of two.
        recipe: Result of ``sandbox.boxes.carried``, or the recipe of a box of Gencard's own code.
        cpu_seconds, memory_mib: Limits of all runs together, outside sandboxes, in one process of a
            worker.
    """

    job: str
    recipe: Recipe
    cpu_seconds: int
    memory_mib: int

    def order(self, dataset: Dataset, rows: int, seed: int) -> SentOrder:
        """Write the order for one run; no two orders are equal."""
        message = RunOrder(
            number=secrets.token_bytes(16),
            job=self.job,
            recipe=json.dumps(JOBS.write(self.recipe)),
            rows=rows,
            seed=seed,
            cpu_seconds=self.cpu_seconds,
            memory_mib=self.memory_mib,
            attributes=dataset.domain.attributes,
            sizes=dataset.domain.sizes,
            records=len(dataset),
            codes=_codes(dataset),
        )
        return SentOrder(message.SerializeToString(), dataset.domain, rows)


def _codes(dataset: Dataset) -> bytes:
    sizes = enumerate(dataset.domain.sizes)
    return b"".join(wire_codes(dataset.codes[:, axis], size).data for axis, size in sizes)


def _dataset(domain: Domain, rows: int, codes: bytes) -> Dataset:
    """Raises ValueError or GencardError if the codes are not so many rows over the domain."""
    if len(codes) != rows * row_bytes(domain):
        raise ValueError
    columns, place = [], 0
    for size in domain.sizes:
        columns.append(np.frombuffer(codes, wire_dtype(size), rows, place))
        place += columns[-1].nbytes
    return Dataset.of_columns(domain, columns)


def order_of(content: bytes) -> RunOrder:
    message = RunOrder()
    with suppress(DecodeError):
        message.ParseFromString(content)
        return message
    raise InvalidInputError(field="order", problem="is not a RunOrder")


def recipe_of(order: RunOrder) -> Recipe:
    recipe: Recipe = JOBS.read(Recipe, json.loads(order.recipe), field="recipe")  # type: ignore[arg-type]  # a union
    return recipe


def failure(order: bytes) -> bytes:
    return RunAnswer(order=sha256(order).digest(), failed=True).SerializeToString()


def refusal(order: bytes, reason: str) -> bytes:
    """Return the answer that this worker does not perform the run, and another one may."""
    return RunAnswer(order=sha256(order).digest(), refused=reason).SerializeToString()


class Performer:
    """Performs the runs of one job, one after the other; the box stays built between them."""

    def __init__(self, compiled: str = "") -> None:
        self._compiled = compiled
        self._built: tuple[Recipe, BlackBox] | None = None

    def __call__(self, order: bytes) -> bytes:
        def run(_progress: object) -> bytes:
            message = order_of(order)
            domain = Domain(tuple(message.attributes), tuple(message.sizes))
            dataset = _dataset(domain, message.records, message.codes)
            box = self._box(recipe_of(message))
            output = box(dataset, message.rows, seed=message.seed)
            return _codes(in_domain(output, domain, message.rows))

        try:
            _, codes = ended(run, ignore_progress)
        except _RefusedError as error:
            return refusal(order, str(error))
        if codes is None:
            return failure(order)
        return RunAnswer(order=sha256(order).digest(), codes=codes).SerializeToString()

    def _box(self, recipe: Recipe) -> BlackBox:
        if self._built is None or self._built[0] != recipe:
            here = recipe
            if isinstance(recipe, ProgramRecipe) and recipe.isolation is not Isolation.NAMESPACES:
                raise _RefusedError("isolation")
            try:
                if isinstance(recipe, ProgramRecipe):
                    here = received(recipe, self._compiled)
                self._built = recipe, box_of(here)
            except (GeneratorChangedError, InvalidInputError):
                raise _RefusedError("box digest") from None
        return self._built[1]


class _RefusedError(BaseException):
    """Passes the handler that ends a run in an error: the run is for another worker."""


def main() -> None:
    """Perform orders from standard input until it ends; then end, with everything that was started."""
    channel, orders = served()
    perform, order = Performer(*sys.argv[1:]), orders.get()
    bounds = order_of(order)
    limit(bounds.cpu_seconds, bounds.memory_mib)
    while True:
        write_frame(channel, perform(order))
        order = orders.get()


if __name__ == "__main__":
    main()
