"""One run of a black box as bytes, and the process that performs runs on a worker.

    order    a line of JSON: {"job": hex, "recipe": recipe, "rows": int, "seed": int,
             "cpu_seconds": int, "memory_mib": int}, then the dataset, as in a file of rows
    answer   a line of JSON, then the rows where there are any:
             {}, {"error": {"reason", "fields"}}, {"crash": {"kind", "where"}} or {"refused": word}

Nothing is written to a disk, and no text of an error leaves: it may quote a record.
"""

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from gencard.controller.jobs.process import read_frame, write_frame
from gencard.controller.jobs.synthesis import box_of
from gencard.controller.jobs.tasks import Job
from gencard.controller.jobs.worker import answer as answer_of_task
from gencard.controller.jobs.worker import limit
from gencard.controller.releases.rows_file import parts_of, rows_of_bytes
from gencard.controller.sandbox.environment import python_runtime
from gencard.controller.sandbox.limits import Isolation
from gencard.controller.sandbox.recipes import PROGRAM, received
from gencard.core.blackbox import BlackBox, in_domain
from gencard.core.dataset import Dataset
from gencard.core.errors import GeneratorChangedError, InvalidInputError, StorageError
from gencard.wire.signatures.canonical import digest_of

_PACKAGES = ("core", "boxes", "wire", "formulas", "run", "controller")
"""Of which a worker must have the same sources as the controller."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What all runs of one job may use together, outside sandboxes, in one process of a worker."""

    cpu_seconds: int
    memory_mib: int


def code_digest() -> str:
    """SHA-256, in hex, of Gencard's sources, interpreter, C library, numpy and scipy.

    A worker performs runs only where it has the controller's: so a report does not depend on the worker.

    Raises:
        GeneratorChangedError, InvalidInputError: numpy or scipy are not as their RECORDs say.
    """
    sources = {
        f"{package}/{path}": sha256(content).hexdigest()
        for package in _PACKAGES
        for path, content in sorted(_sources(files(f"gencard.{package}"), ""))
    }
    return digest_of({"runtime": python_runtime(()), "sources": sources})


def _sources(folder: Traversable, above: str) -> list[tuple[str, bytes]]:
    content = []
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            content += _sources(entry, f"{above}{entry.name}/")
        elif entry.name.endswith(".py"):
            content.append((above + entry.name, entry.read_bytes()))
    return content


@dataclass(frozen=True, slots=True)
class OrderBook:
    """Writes the orders of one job.

    Args:
        job: Differs between jobs: no process of a worker performs runs of two.
        recipe: As ``sandbox.recipes.carried`` gives it, or of a box of our own code.
    """

    job: str
    recipe: Job
    bounds: Bounds

    def order(self, dataset: Dataset, rows: int, seed: int) -> bytes:
        """One run."""
        head = {
            "job": self.job,
            "recipe": self.recipe,
            "rows": rows,
            "seed": seed,
            "cpu_seconds": self.bounds.cpu_seconds,
            "memory_mib": self.bounds.memory_mib,
        }
        return joined(head, dataset)


def joined(head: Mapping[str, Any], dataset: Dataset | None = None) -> bytes:
    """A line of JSON and the bytes of a dataset."""
    parts = () if dataset is None else parts_of(dataset)
    return b"".join([json.dumps(head).encode(), b"\n", *parts])


def head_of(content: bytes) -> dict[str, Any]:
    """The line of JSON; raises StorageError where there is none."""
    try:
        head: dict[str, Any] = json.loads(content[: content.index(b"\n")])
    except ValueError:
        raise StorageError from None
    return head


def dataset_of(content: bytes) -> Dataset:
    """What follows the line of JSON; raises StorageError where it is no dataset."""
    return rows_of_bytes(content[content.index(b"\n") + 1 :])


def refusal(reason: str) -> bytes:
    """An answer: this worker does not perform the run, another one may."""
    return joined({"refused": reason})


class Performer:
    """Performs the runs of one job, one after the other; the box stays built between them.

    Args:
        compiled: A folder of compiled copies; empty for none.
    """

    def __init__(self, compiled: str = "") -> None:
        self._compiled = compiled
        self._boxes: dict[str, BlackBox] = {}

    def __call__(self, order: bytes) -> bytes:
        """The answer; never raises."""
        rows: list[Dataset] = []

        def run(head: Job, _progress: object) -> Job:
            dataset = dataset_of(order)
            box = self._box(head["recipe"])
            output = box(dataset, head["rows"], seed=head["seed"])
            rows.append(in_domain(output, dataset.domain, head["rows"]))
            return {}

        try:
            answer = answer_of_task(run, head_of(order), lambda *_: None)
        except _RefusedError as error:
            return refusal(str(error))
        return joined({name: answer[name] for name in answer if name != "result"}, *rows)

    def _box(self, recipe: Job) -> BlackBox:
        name = digest_of({"recipe": recipe})
        if name not in self._boxes:
            try:
                self._boxes = {name: box_of(_recipe_here(recipe, self._compiled))}
            except (GeneratorChangedError, InvalidInputError):
                raise _RefusedError("box digest") from None
        return self._boxes[name]


class _RefusedError(BaseException):
    """Passes by what ends a run in an error: the run is for another worker."""


def _recipe_here(recipe: Job, compiled: str) -> Job:
    if recipe["kind"] != PROGRAM:
        return recipe
    if recipe["isolation"] != Isolation.NAMESPACES:
        raise _RefusedError("isolation")
    return received(recipe, compiled)


def main() -> None:
    """Perform orders from standard input until it ends; then end, with everything that was started."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints goes where errors go
    orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    perform, order = Performer(*sys.argv[1:]), orders.get()
    head = head_of(order)
    limit(head["cpu_seconds"], head["memory_mib"])
    while True:
        write_frame(channel, perform(order))
        order = orders.get()


def _listen(orders: "queue.SimpleQueue[bytes]") -> None:
    while (order := read_frame(sys.stdin.buffer)) is not None:
        orders.put(order)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
