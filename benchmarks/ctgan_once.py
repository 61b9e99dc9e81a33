"""One synthesis by CTGAN, ours or the package ``ctgan``, in a process of its own.

``python ctgan_once.py PROGRAM JOB EPOCHS ROWS SEED``: the job is an npz file of codes, sizes and which
attributes are numbers; the rows' codes are saved beside it. Imports of either program stand in its own
function, since neither environment has both.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]


def main() -> None:
    program, job, *numbers = sys.argv[1:]
    epochs, rows, seed = map(int, numbers)
    with np.load(job, allow_pickle=False) as given:
        codes, sizes, numeric = (given[name].astype(np.int64) for name in ("codes", "sizes", "numeric"))
    draw = _gencard if program == "gencard" else _package
    drawn = draw(codes, sizes, numeric, epochs, (rows, seed))
    np.save(Path(job).with_name("rows.npy"), drawn)


def _gencard(codes: Codes, sizes: Codes, numeric: Codes, epochs: int, wanted: tuple[int, int]) -> Any:
    from gencard.boxes.ctgan import Ctgan  # noqa: PLC0415
    from gencard.boxes.net_options import CtganOptions  # noqa: PLC0415
    from gencard.core.dataset import Dataset  # noqa: PLC0415
    from gencard.core.domain import Domain  # noqa: PLC0415

    domain = Domain(tuple(map(str, range(len(sizes)))), tuple(sizes.tolist()))
    values = {str(axis): tuple(map(float, range(sizes[axis]))) for axis in numeric}
    rows, seed = wanted
    return Ctgan(CtganOptions(epochs=epochs), values)(Dataset(domain, codes), rows, seed=seed).codes


def _package(codes: Codes, sizes: Codes, numeric: Codes, epochs: int, wanted: tuple[int, int]) -> Any:
    rows, seed = wanted
    import_module("torch").manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the package draws from it
    names = [str(axis) for axis in range(len(sizes))]
    frame = import_module("pandas").DataFrame({name: codes[:, axis] for axis, name in enumerate(names)})
    model = import_module("ctgan").CTGAN(epochs=epochs, enable_gpu=False)
    model.fit(frame, [name for axis, name in enumerate(names) if axis not in numeric])
    return np.clip(model.sample(rows)[names].to_numpy(np.int64), 0, sizes - 1)


if __name__ == "__main__":
    main()
