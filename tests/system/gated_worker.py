"""A worker that tells its number and waits at a gate before it works: ``python gated_worker.py GATE``.

It is the service's own worker in everything else. The gate is a folder; it is open once it holds a file
of the name ``open``.
"""

import os
import sys
import time
from pathlib import Path

from gencard.controller.jobs import worker

_ended = worker.ended


def command(gate):
    """Return the command that starts this worker."""
    return (sys.executable, "-I", __file__, str(gate))


def ended(*args, **kwargs):
    gate = Path(sys.argv[1])
    (gate / f"worker-{os.getpid()}").touch()
    while not (gate / "open").exists():
        time.sleep(0.01)
    return _ended(*args, **kwargs)


if __name__ == "__main__":
    worker.ended = ended
    worker.main()
