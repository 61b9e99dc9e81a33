"""A worker whose audits stand still after some of their runs: ``python held_worker.py HOLD RUNS``.

It is the service's own worker in everything else. An audit that has kept as many runs waits for as long
as there is a file HOLD.
"""

import sys
import time
from pathlib import Path

from gencard.controller.jobs import worker
from gencard.controller.jobs.auditing import JournaledBox

_run = JournaledBox.__call__


def run(box, *args, **kwargs):
    made = _run(box, *args, **kwargs)
    hold, runs = Path(sys.argv[1]), int(sys.argv[2])
    while hold.exists() and len(list(box.folder.iterdir())) >= runs:
        time.sleep(0.01)
    return made


if __name__ == "__main__":
    JournaledBox.__call__ = run
    worker.main()
