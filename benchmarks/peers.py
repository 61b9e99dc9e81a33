"""Other people's programs, in an environment of their own, given the same marginals."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from benchmarks import fit_once
from gencard.core.domain import Domain
from gencard.core.statistics.psi import Psi

_ROOT = Path(__file__).resolve().parents[1]

ENVIRONMENTS = {
    ".venv-peers": ("mbi>=2,<3", "ipfn>=1.4", "humanleague>=2.4"),
    ".venv-peers-private": ("dpmm==0.1.9",),  # wants a numpy and a pandas of its own
    ".venv-peers-bayes": ("DataSynthesizer==0.1.13",),
    ".venv-peers-gower": ("gower==0.1.2", "pandas<3"),  # does not say that it needs pandas
    ".venv-peers-sdmetrics": ("sdmetrics==0.32.0",),
    ".venv-peers-anonymeter": ("anonymeter==1.1.0",),  # numpy before 2
    ".venv-peers-scipy": ("scipy>=1.14",),
    ".venv-peers-deep": ("ctgan==0.12.1", "torch==2.13.0"),  # BUSL-1.1: nowhere else
}
"""Packages of each environment."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How one program did.

    Args:
        cold: Seconds from the start of the first import to the fitted marginals, median over processes.
        warm: The same for a second fit in the same process, median; not a number where there was none.
        worst: Largest L1 distance of a marginal from psi, in shares.
        variation: Mean total variation of the marginals.
    """

    cold: float
    warm: float
    worst: float
    variation: float


def fitted(
    program: str,
    psi: Psi,
    domain: Domain,
    *,
    iterations: int = 0,
    repeats: int = 1,
    processes: int = 1,
) -> Fit:
    """Run a program of ``fit_once`` in fresh processes, ours in our environment, others in theirs."""
    ours = program.startswith("gencard")
    python = Path(sys.executable) if ours else peers_python(".venv-peers")
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.npz"
        write_job(job, psi, domain)
        arguments = [fit_once.__file__, program, str(job), str(iterations), str(repeats)]
        command = [str(python), *arguments]
        outputs = [
            subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout
            for _ in range(processes)
        ]
    answers = [json.loads(output.splitlines()[-1]) for output in outputs]
    warm = [seconds for answer in answers for seconds in answer["warm"]]
    errors = answers[0]["errors"]
    return Fit(
        median(answer["cold"] for answer in answers),
        median(warm) if warm else float("nan"),
        max(errors),
        0.5 * mean(errors),
    )


def write_job(path: Path, psi: Psi, domain: Domain) -> None:
    """The marginals for ``fit_once``, each clique in the domain's order."""
    header = {"names": domain.attributes, "sizes": domain.sizes, "cliques": psi.cliques}
    parts: dict[str, Any] = {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}
    parts |= {f"values_{i}": m.values.astype(np.float64) for i, m in enumerate(psi.measurements)}
    np.savez(path, **parts)


def peers_python(environment: str) -> Path:
    """The interpreter of one of the ``ENVIRONMENTS``, which is made with pip on first use."""
    folder = _ROOT / environment
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *ENVIRONMENTS[environment]], check=True)
        ready.touch()
    return python
