"""A worker whose audits stand still after some of their runs: ``python held_worker.py HOLD RUNS``.

It is the service's own worker in everything else. For as long as there is a file HOLD, an audit that has
kept as many runs waits, and no rows of a release are made.
"""

import sys
import time
from pathlib import Path

from gencard.controller.jobs import black_boxes, synthesis, worker
from gencard.controller.jobs.black_boxes import JournaledBox

_runs_by_seed = JournaledBox.runs_by_seed


def command(hold, runs):
    """Return the command that starts this worker."""
    return (sys.executable, "-I", __file__, str(hold), str(runs))


def runs_by_seed(box, *args, **kwargs):
    hold, runs = Path(sys.argv[1]), int(sys.argv[2])
    for made in _runs_by_seed(box, *args, **kwargs):
        while hold.exists() and len(list(box.folder.iterdir())) >= runs:
            time.sleep(0.01)
        yield made


def held(function):
    def waits(*args):
        while Path(sys.argv[1]).exists():
            time.sleep(0.01)
        return function(*args)

    return waits


if __name__ == "__main__":
    JournaledBox.runs_by_seed = runs_by_seed
    black_boxes.draw, synthesis.synthesise = held(black_boxes.draw), held(synthesis.synthesise)
    worker.main()
