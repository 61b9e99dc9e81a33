"""One run of DataSynthesizer's Bayesian network, from records to rows, in a process of its own.

``bayes_once.py DEGREE JOB.npz EPSILON ROWS SEED`` writes the rows as codes to JOB.npy; degree 0 leaves
the number of parents to the program. It runs in the environment of the peer and imports nothing of ours.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def main(degree: int, path: Path, epsilon: float, rows: int, seed: int) -> None:
    np, pandas = import_module("numpy"), import_module("pandas")
    with np.load(path) as job:
        codes, sizes = job["codes"], job["sizes"].tolist()
    names = [f"a{number}" for number in range(len(sizes))]
    table, description = path.with_suffix(".csv"), path.with_suffix(".json")
    pandas.DataFrame({n: [f"v{c}" for c in codes[:, i]] for i, n in enumerate(names)}).to_csv(
        table, index=False
    )
    _describe(degree, table, description, epsilon, names, max(sizes), seed)
    made = import_module("DataSynthesizer.DataGenerator").DataGenerator()
    made.generate_dataset_in_correlated_attribute_mode(rows, str(description), seed)
    drawn = made.synthetic_dataset
    columns = [drawn[name].str.slice(1).to_numpy().astype("uint16") for name in names]
    np.save(path.with_suffix(".npy"), np.column_stack(columns))


def _describe(
    degree: int,
    table: Path,
    description: Path,
    epsilon: float,
    names: list[str],
    largest: int,
    seed: int,
) -> None:
    module: Any = import_module("DataSynthesizer.DataDescriber")
    describer = module.DataDescriber(category_threshold=largest)
    describer.describe_dataset_in_correlated_attribute_mode(
        str(table),
        k=degree,
        epsilon=epsilon,
        attribute_to_datatype=dict.fromkeys(names, "String"),
        attribute_to_is_categorical=dict.fromkeys(names, True),
        seed=seed,
    )
    describer.save_dataset_description_to_file(str(description))


if __name__ == "__main__":
    words = sys.argv[1:]
    main(int(words[0]), Path(words[1]), float(words[2]), int(words[3]), int(words[4]))
