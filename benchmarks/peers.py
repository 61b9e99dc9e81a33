"""Other packages: run in environments of their own with ``--peers``, else shown as they were recorded.

``recorded.toml`` has their figures with version, settings, processor and day. Errors hold on any
machine; seconds, which are the processor's on one thread unless the settings say otherwise, are
compared with ours only where both are of the same kind of machine.
"""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from statistics import mean, median
from typing import Any, Literal

import numpy as np

from benchmarks import bench, fit_once
from gencard.core.domain import Domain
from gencard.core.statistics.psi import Psi

_ROOT = Path(__file__).resolve().parents[1]

_RECORDED = Path(__file__).with_name("recorded.toml")

Figures = Mapping[str, Sequence[float]]
"""By name, of each run."""

ONE_THREAD = {
    **dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
    ),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""Added to the environment of every program, ours too."""

ENVIRONMENTS = {
    ".venv-peers": ("mbi>=2,<3", "ipfn>=1.4", "humanleague>=2.4"),
    ".venv-peers-private": ("dpmm==0.1.9",),  # wants a numpy and a pandas of its own
    ".venv-peers-bayes": ("DataSynthesizer==0.1.13",),
    ".venv-peers-gower": ("gower==0.1.2", "pandas<3"),  # does not say that it needs pandas
    ".venv-peers-sdmetrics": ("sdmetrics==0.32.0",),
    ".venv-peers-anonymeter": ("anonymeter==1.1.0",),  # numpy before 2
    ".venv-peers-scipy": ("scipy>=1.14",),
    ".venv-peers-deep": ("ctgan==0.12.1", "torch==2.13.0"),  # BUSL-1.1: nowhere else
    ".venv-peers-sdv": ("sdv==2.0.0", "torch==2.13.0", "pyarrow"),  # BUSL-1.1 too
}
"""Packages of each environment."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Result of another program on one task.

    Args:
        processor: As ``bench.processor`` has it.
        day: On which it ran.
        now: Whether in this run of the benchmark.
    """

    program: str
    task: str
    version: str
    settings: str
    processor: str
    day: str
    figures: Figures
    now: bool = False

    @property
    def name(self) -> str:
        """For tables."""
        return self.program if self.now else f"{self.program} (recorded)"

    def median(self, figure: str) -> float:
        """Over the runs; not a number where it was not recorded."""
        return median(self.figures.get(figure) or [float("nan")])

    def speed(
        self, name: str, ratio: float, bound: float, direction: Literal["at least", "at most"]
    ) -> bench.Target:
        """A target for a ratio of its seconds and ours, checked on the same kind of machine only."""
        same = self.processor == bench.processor()
        unchecked = "" if same else f"recorded on {self.processor}"
        return bench.Target(name, ratio, bound, direction, "x", unchecked)


@dataclass(slots=True)
class Peers:
    """The programs that a benchmark looks at.

    Args:
        run: Measure them, and record what they did; else take what is recorded.
        file: Where figures are recorded.
    """

    run: bool
    file: Path = _RECORDED
    _seen: list[Peer] = field(default_factory=list)

    def peer(
        self,
        program: str,
        task: str,
        settings: str,
        measure: Callable[[], Figures] | None,
        *,
        version: str = "",
    ) -> Peer | None:
        """Figures of a program; None where there are none.

        Args:
            measure: Runs it; None where it cannot be run here.
            version: Of the package that is the program's first word, unless it is given.
        """
        if self.run and measure:
            day = f"{datetime.now(UTC):%Y-%m-%d}"
            version = version or _version(program.split(maxsplit=1)[0])
            processor, figures = bench.processor(), measure()
            peer = Peer(program, task, version, settings, processor, day, figures, now=True)
            record(peer, self.file)
        else:
            known = recorded(self.file).get((program, task))
            if known is None:
                return None
            peer = known
        self._seen.append(peer)
        return peer

    def table(self) -> bench.Table:
        """Every program that was looked at: version, settings, where and when it ran."""
        rows = {
            (p.program, p.version, p.settings, p.processor, "now" if p.now else f"recorded {p.day}")
            for p in self._seen
        }
        columns = ("program", "version", "settings", "processor", "figures")
        return bench.Table("Other programs", columns, sorted(rows))


def recorded(file: Path = _RECORDED) -> dict[tuple[str, str], Peer]:
    """All figures of a file, by program and task."""
    entries = tomllib.loads(file.read_text()).get("peer", []) if file.exists() else []
    return {(entry["program"], entry["task"]): Peer(**entry) for entry in entries}


def record(peer: Peer, file: Path) -> None:
    """Put a program's figures into a file, in place of earlier ones on the same task."""
    peers = recorded(file) | {(peer.program, peer.task): peer}
    header = file.read_text().partition("\n[[peer]]")[0].rstrip("\n") if file.exists() else ""
    entries = [_entry(peers[key]) for key in sorted(peers)]
    file.write_text("\n\n".join([header, *entries]).lstrip("\n") + "\n")


def _entry(peer: Peer) -> str:
    words = ("program", "task", "version", "settings", "processor", "day")
    lines = [f"{word} = {json.dumps(getattr(peer, word), ensure_ascii=False)}" for word in words]
    for name, values in peer.figures.items():
        known = ", ".join(f"{float(value):.10g}" for value in values if isfinite(value))
        lines.append(f"figures.{name} = [{known}]")
    return "\n".join(["[[peer]]", *lines])


@dataclass(frozen=True, slots=True)
class Fit:
    """Result of one program.

    Args:
        cold: Processor seconds from the start of Python to the fitted marginals, median over processes.
        warm: Those of a second fit in the same process, median; not a number where there was none.
        worst: Largest L1 distance of a marginal from psi, in shares.
        variation: Mean total variation of the marginals.
    """

    cold: float
    warm: float
    worst: float
    variation: float

    @classmethod
    def of(cls, peer: Peer) -> "Fit":
        """Convert a recorded result."""
        return cls(*(peer.median(name) for name in ("cold", "warm", "worst", "variation")))

    @property
    def figures(self) -> Figures:
        """To be recorded."""
        return {name: [value] for name, value in asdict(self).items()}


def fitted(
    program: str, psi: Psi, domain: Domain, *, iterations: int = 0, repeats: int = 1, processes: int = 1
) -> Fit:
    """Run a program of ``fit_once`` in fresh processes, ours in our environment, others in theirs."""
    ours = program.startswith("gencard")
    python = Path(sys.executable) if ours else peers_python(".venv-peers")
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.npz"
        write_job(job, psi, domain)
        arguments = [*bench.by_file(fit_once.__file__), program, str(job), str(iterations), str(repeats)]
        command = [str(python), *arguments]
        outputs = [
            subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=True,
                cwd=folder,
                env=os.environ | ONE_THREAD,
            ).stdout
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


def _version(package: str) -> str:
    """Read the version of a package in its environment."""
    environment = next(
        name
        for name, packages in ENVIRONMENTS.items()
        if any(requirement.startswith(package) for requirement in packages)
    )
    script = f"import importlib.metadata as m; print(m.version({package!r}))"
    command = [str(peers_python(environment)), "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
