"""Calls over mutual TLS, each announced to the tracer of all processes.

Run as a program: ``session.py PERSON PHASE``, a connection folder and the file that names the phase.
"""

import sys
from pathlib import Path

from gencard.client import Analyst, all_marginals

IDLE, PROPOSE, AGAIN, GENERATE, RUN, AUDIT = "-", "p", "q", "g", "r", "a"

ANALYSES = {"kinds": ["crosstab"], "checked_runs": 1, "numbers": 100}


def main(person: str, phase: Path) -> None:
    """The session; between the calls the analyst signs, which belongs to none of them."""
    with Analyst.connect(folder=person) as analyst:
        analyst.dataset("records")
        for moment in (PROPOSE, AGAIN):
            _announce(phase, moment)
            card = analyst.propose(
                "records",
                all_marginals(1),
                purpose="Counts with noise",
                rows=100,
                rho="0.05",
                neighbouring="add-remove",
            )
            _announce(phase, IDLE)
        card.accept()
        _announce(phase, GENERATE)
        card.generate(rows=100, seed=7)
        _announce(phase, IDLE)
        exact = analyst.propose(
            "records", all_marginals(1), purpose="Exact counts", rows=100, analyses=ANALYSES
        ).accept()
        _announce(phase, RUN)
        exact.run("health ~ sex", "crosstab", progress=False)
        _announce(phase, AUDIT)
        exact.audit(where="card", progress=False)
        _announce(phase, IDLE)


def _announce(file: Path, phase: str) -> None:
    """Overwrite the byte: every process has the file mapped, so it must never be shorter."""
    with file.open("r+b") as bytes_of_file:
        bytes_of_file.write(phase.encode())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
