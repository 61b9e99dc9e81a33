"""One run of a differentially private peer, from records to synthetic rows, in a process of its own.

``private_once.py MECHANISM JOB.npz EPSILON DELTA ROWS SEED`` writes the rows as codes to JOB.npy and
prints one line of JSON. It runs in the environment of ``dpmm`` and imports nothing of ours.
"""

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

_AIM = {"max_model_size": 1.0, "n_iters": 200}
"""MiB, and steps of each fit, which begins where the last one ended. With the defaults of 80 and 1,000
it was not through Adult after half an hour; with 1 MiB and 1,000 not after twenty minutes."""


def _mst(**settings: Any) -> Any:
    return import_module("dpmm.models.mst").MSTGM(**settings)


def _aim(**settings: Any) -> Any:
    return import_module("dpmm.models.aim").AIMGM(**_AIM, **settings)


MECHANISMS: dict[str, Callable[..., Any]] = {"MST": _mst, "AIM": _aim}


def main(mechanism: str, path: str, epsilon: float, delta: float, rows: int, seed: int) -> None:
    np, pandas = import_module("numpy"), import_module("pandas")
    with np.load(path) as job:
        codes, sizes = job["codes"], job["sizes"].tolist()
    names = [f"a{number}" for number in range(len(sizes))]
    begin = time.perf_counter()
    model = MECHANISMS[mechanism](
        epsilon=epsilon,
        delta=delta,
        domain=dict(zip(names, sizes, strict=True)),
        random_state=np.random.RandomState(seed),
        n_jobs=1,
    )
    model.fit(pandas.DataFrame(codes.astype("int64"), columns=names))
    drawn = model.generate(rows)
    seconds = time.perf_counter() - begin
    np.save(path.removesuffix(".npz") + ".npy", drawn[names].to_numpy().astype("uint16"))
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    words = sys.argv[1:]
    main(words[0], words[1], float(words[2]), float(words[3]), int(words[4]), int(words[5]))
