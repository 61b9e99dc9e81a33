"""Programs of analysts for tests: where they run, what they run on, and what the hostile ones try."""

import atexit
import re
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from examples.fair_survey import SCHEMA
from gencard.controller.records.schema_file import read_schema
from gencard.controller.sandbox.analyses import (
    SandboxedAnalysis,
    analysis_recipe,
    home,
    packages,
    packages_in,
)
from gencard.controller.sandbox.environment import CompiledCopies
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset

FOLDER = Path(__file__).parents[2] / "examples" / "analyses"
EXAMPLES = sorted(FOLDER.glob("*.py"))
IN_R = sorted(FOLDER.glob("*.R"))
LIMITS = SandboxLimits(memory_mib=2_048, cpu_seconds=60, wall_seconds=90, work_mib=16)

START = "import numpy as np\nfrom gencard.run import output, records\nframe = records()\n"

HOSTILE = {
    "into shapes": START + "for row in range(len(frame) % 7): output.scalar(f'{row}', 1.0)\n",
    "into names": START + "output.scalar(str(frame.iloc[0].tolist()), 1.0)\n",
    "into errors": START + "raise ValueError(str(frame.iloc[0].tolist()))\n",
    "into the exit code": START + "import sys\nsys.exit(int(frame['age'].cat.codes[0]) + 3)\n",
    "into the spelling": START
    + "import os\n"
    + 'body = b\'{"outputs":[{"column_names":["value"],"counts":[],"kind":"scalar",\'\n'
    + 'body += b\'"name":"x","row_names":["value"],"values":[[1.0]]}]}\'\n'
    + 'head = b\'{"format":"gencard.box.v1","saved":%d}\\n\' % len(body)\n'
    + "[os.write(fd, head + body) for fd in (1, 3, 4) if True]\nos._exit(0)\n",
    "asks for the network": START
    + "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:1')\n",
    "10 GB": START + "held = np.ones(10 << 27)\noutput.scalar('x', held.sum())\n",
    "never ends": START + "while True: pass\n",
    "starts a process": START + "import subprocess\nsubprocess.run(['true'], check=True)\n",
    "reads the machine": START + "open('/etc/passwd').read()\n",
    "too many numbers": START
    + "import pandas as pd\noutput.table('all', pd.DataFrame(np.ones((600, 1))))\n",
}
"""Each fails, whatever it carries; see test_programs."""

START_R = (
    "#!/usr/bin/env Rscript\nframe <- records()\nfirst <- paste(unlist(frame[1, ]), collapse = ' ')\n"
)

HOSTILE_R = {
    "into shapes": START_R + "for (row in seq_len(nrow(frame) %% 7)) output$scalar(paste(row), 1)\n",
    "into names": START_R + "output$scalar(first, 1)\n",
    "into errors": START_R + "output$scalar('x', 1)\nstop(first)\n",
    "into the exit code": START_R + "output$scalar('x', 1)\nquit(status = 3L + nchar(first))\n",
    "into the spelling": START_R
    + 'body <- \'{"outputs":[{"column_names":["value"],"counts":[],"kind":"scalar",\'\n'
    + 'body <- paste0(body, \'"name":"x","row_names":["value"],"values":[[1.0]]}]}\')\n'
    + "while (sink.number() > 0) sink()\n"
    + "cat('{\"format\":\"gencard.box.v1\",\"saved\":', nchar(body), '}\\n', body, sep = '')\nquit()\n",
    "after the answer": START_R
    + "output$scalar('x', 1)\nreg.finalizer(globalenv(), function(e) cat(first), onexit = TRUE)\n",
    "asks for the network": START_R + "socketConnection('127.0.0.1', 1)\n",
    "asks for the network by url": START_R + "readLines(url('http://127.0.0.1:1'))\n",
    "10 GB": START_R + "held <- rep(1, 10 * 2^27)\noutput$scalar('x', sum(held))\n",
    "never ends": START_R + "repeat {}\n",
    "starts a process": START_R + "stopifnot(system('true') == 0)\noutput$scalar('x', 1)\n",
    "forks": START_R + "parallel::mclapply(1:2, identity, mc.cores = 2)\noutput$scalar('x', 1)\n",
    "reads the machine": START_R + "readLines(file('/etc/passwd'))\n",
    "too many numbers": START_R + "output$table('all', matrix(1, 600, 1))\n",
    "no output": START_R,
}
"""The same in R."""

INTO_DIGITS = START + "output.scalar('x', 0.123456789012345)\noutput.scalar('y', 1e300)\n"


@cache
def schema() -> Coding:
    folder = Path(tempfile.mkdtemp(prefix="gencard-schema-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "schema.toml").write_text(SCHEMA)
    return read_schema(folder / "schema.toml").coding


def rows(number: int = 1_500, seed: int = 1) -> Dataset:
    """Made-up women of Fair's survey, with a trend that models can find."""
    rng, domain = np.random.default_rng(seed), schema().domain
    sizes = dict(zip(domain.attributes, domain.sizes, strict=True))
    columns = {name: rng.integers(0, size, number) for name, size in sizes.items()}
    columns["affairs"] = np.where(
        rng.random(number) < 0.6 - 0.1 * columns["rate_marriage"], columns["affairs"], 0
    )
    return Dataset.of_columns(domain, list(columns.values()))


def has_r() -> bool:
    return home() is not None


def missing_r_packages(*declared: str) -> list[str]:
    """Packages of R among these libraries that are not installed here."""
    installed = packages() if has_r() else {}
    return [name for name in packages_in(declared) if name not in installed]


def libraries_of(text: str) -> tuple[str, ...]:
    """Return the libraries that an example in R declares."""
    named = re.findall(r"^library\((\w+)\)", text, re.MULTILINE)
    return ("R", *(f"R-{name}" for name in named))


@cache
def libraries() -> tuple[str, ...]:
    """Return the libraries of the examples that are installed here."""
    modules = {"statsmodels": "statsmodels", "scikit-learn": "sklearn"}
    return tuple(name for name, module in sorted(modules.items()) if find_spec(module))


@cache
def _copies() -> str:
    work = tempfile.mkdtemp(prefix="gencard-copies-")
    atexit.register(shutil.rmtree, work, ignore_errors=True)
    return CompiledCopies(Path(work), [], ("pandas", *libraries())).folder()


def sandboxed(text: str, declared: tuple[str, ...] | None = None, **limits: int) -> SandboxedAnalysis:
    """A program in the sandbox that the service uses; it declares all libraries, or these."""
    bounds, names = replace(LIMITS, **limits), libraries() if declared is None else declared
    recipe = analysis_recipe(text, names, bounds, Isolation.NAMESPACES, compiled=_copies())
    return SandboxedAnalysis.of_recipe(recipe, 500)
