"""One run of a built-in private box, from records to synthetic rows, in a process of its own.

``python -m benchmarks.box_once NAME JOB.npz PARAMETERS ROWS SEED``, with the parameters as JSON, writes
the rows as codes to JOB.npy.
"""

import json
import sys
from pathlib import Path

import numpy as np

from gencard.boxes.entry import Surroundings
from gencard.boxes.registry import box_named
from gencard.controller.noise import OpenDpNoise
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain


def main(name: str, path: Path, parameters: str, rows: int, seed: int) -> None:
    with np.load(path) as job:
        codes, sizes = job["codes"], job["sizes"].tolist()
    domain = Domain(tuple(f"a{number}" for number in range(len(sizes))), tuple(sizes))
    box = box_named(name, json.loads(parameters), Surroundings(noise=OpenDpNoise()))
    np.save(path.with_suffix(".npy"), box(Dataset(domain, codes), rows, seed=seed).codes)


if __name__ == "__main__":
    words = sys.argv[1:]
    main(words[0], Path(words[1]), words[2], int(words[3]), int(words[4]))
