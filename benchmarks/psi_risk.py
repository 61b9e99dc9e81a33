"""Risk of psi: seconds and memory of all pairs, and whether each claim of certainty is true.

``python -m benchmarks.psi_risk``; needs ``../shared/data``. Bounds: five minutes, 1 GiB.
"""

import resource
import time
from itertools import combinations

import numpy as np

from benchmarks.adult import adult
from benchmarks.count import records
from gencard.core.dataset import Dataset
from gencard.core.psi_risk.risk import PsiRisk, psi_risk

CENSUS_RECORDS = 570_000


def main() -> None:
    """Print one line for each data set."""
    whole = adult()
    sets = {
        "Adult, 13 attributes": whole.project(whole.domain.attributes[:13]),
        "Adult without education-num": whole.project(
            tuple(name for name in whole.domain.attributes[:13] if name != "education-num")
        ),
        "census sample repeated, 15 attributes": records(CENSUS_RECORDS),
    }
    print(
        f"{'all pairs of':38} {'records':>8} {'s':>6} {'MiB':>6} {'small':>7} {'facts: 1 key':>13}",
        end="",
    )
    print(f" {'2 keys':>9} {'3 keys':>9} {'guesses right':>14} {'wrong':>6}")
    for name, dataset in sets.items():
        report, seconds = _timed(dataset)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        facts = [one.facts for one in report.facts]
        right = sum(one.right for one in report.guesses) / max(
            sum(one.guesses for one in report.guesses), 1
        )
        print(
            f"{name:38} {report.records:8,} {seconds:6.1f} {memory:6,} {report.small.small:7,}", end=""
        )
        print(f" {facts[0]:13,} {facts[1]:9,} {facts[2]:9,} {right:14.1%} {report.wrong:6}")


def _timed(dataset: Dataset) -> tuple[PsiRisk, float]:
    begin = time.perf_counter()
    report = psi_risk(dataset, list(combinations(dataset.domain.attributes, 2)))
    assert np.isfinite(report.certain).all()
    return report, time.perf_counter() - begin


if __name__ == "__main__":
    main()
