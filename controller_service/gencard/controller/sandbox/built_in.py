"""The program that runs in the sandbox for a black box that comes with Gencard.

python -I -B -m gencard.controller.sandbox.built_in NAME    answers the request on standard input
"""

import os
import sys
from collections.abc import Callable
from typing import BinaryIO

from gencard.boxes.entry import Surroundings
from gencard.boxes.registry import box_named
from gencard.controller.noise import OpenDpNoise
from gencard.core.blackbox import BlackBox, FittingBox
from gencard.core.errors import BlackBoxError
from gencard.core.types import Progress
from gencard.wire.box_answer import fit_answer, progress_line, refusal_answer, relayed, rows_answer
from gencard.wire.box_request import BoxRequest, BoxTask, read_request


def main() -> None:
    """Answer one request, and end."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not become part of the answer
    with channel:
        channel.write(answer(sys.argv[1], read_request(sys.stdin.buffer), _progress(channel)))


def answer(name: str, request: BoxRequest, progress: Progress) -> bytes:
    """The answer of the built-in box of this name; a refusal where its public input is not allowed."""
    surroundings = Surroundings(request.workload, request.values, OpenDpNoise())
    try:
        return _done(box_named(name, request.parameters, surroundings), request, progress)
    except relayed() as error:
        return refusal_answer(error.reason, error.fields)


def _done(box: BlackBox, request: BoxRequest, progress: Progress) -> bytes:
    if request.task is BoxTask.RUN:
        return rows_answer(box(request.dataset, request.rows, seed=request.seed))
    fitting = _fitting(box)
    if request.task is BoxTask.FIT:
        return fit_answer(fitting.fit(request.dataset, seed=request.seed, progress=progress).save())
    return rows_answer(fitting.load(request.saved).sample(request.rows, seed=request.seed))


def _fitting(box: BlackBox) -> FittingBox:
    if not isinstance(box, FittingBox):
        raise BlackBoxError(problem="its fit cannot be saved")
    return box


def _progress(channel: BinaryIO) -> Callable[[str, float], None]:
    reported = -1

    def report(_stage: str, fraction: float) -> None:
        nonlocal reported
        hundredths = min(100, int(100 * fraction))
        if hundredths > reported:
            reported = hundredths
            channel.write(progress_line(hundredths))
            channel.flush()

    return report


if __name__ == "__main__":
    main()
