"""The two parts of the tests: ``python -m tests.parts first`` and ``python -m tests.parts rest``.

The first part is what a person runs before a commit: it needs only Python, and takes at most a quarter
of the processor time of all tests. The rest needs a browser, databases, R, torch, Java or a service, or
takes long. Each file of tests is in exactly one part. ``.ci/run`` runs both.
"""

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("first", "rest")

STORY = "tests/system/test_story.py"
"""The one story over TLS that the first part tells."""

_STATE = "tests/controller/state"

REST: Mapping[str, tuple[str, ...]] = {
    "a service over TLS": ("tests/system/*",),
    "a browser": ("tests/page/*",),
    "databases": (
        f"{_STATE}/test_awkward_columns.py",
        f"{_STATE}/test_engines_equal.py",
        f"{_STATE}/test_missing_values.py",
        f"{_STATE}/test_person_tables.py",
        f"{_STATE}/test_spark_connect.py",
        f"{_STATE}/test_state_migration.py",
        f"{_STATE}/test_table*.py",
    ),
    "R or torch": (
        "tests/client/test_written_files.py",
        "tests/core/test_ctgan.py",
        "tests/core/test_nets.py",
        "tests/core/test_pate_gan.py",
        "tests/core/test_stored_files.py",
        "tests/test_boxes_*.py",
        "tests/wire/test_r_language.py",
    ),
    "many processes": (
        "tests/client/test_real_service.py",
        "tests/controller/test_executor.py",
        "tests/controller/test_insider.py",
        "tests/controller/test_sandbox.py",
        "tests/test_house.py",
        "tests/test_load.py",
        "tests/test_mutation.py",
        "tests/test_notebook.py",
        "tests/test_packaging.py",
        "tests/test_stubs.py",
    ),
    "attacks and papers": (
        "tests/core/test_attack*.py",
        "tests/core/test_published_faults.py",
        "tests/test_attacks_*.py",
        "tests/test_paper*.py",
    ),
    "laws that take more than about three seconds": (
        *(
            f"tests/client/test_{name}.py"
            for name in (
                *("auto", "bounded_files", "card_report", "delivered", "number_reports", "one_call"),
                "text_forms",
            )
        ),
        *(
            f"tests/controller/test_{name}.py"
            for name in (
                *("code_lists", "negotiation_machine", "read_once", "run_functions", "run_refusals"),
                *("runs_of_numbers", "scale", "shapes", "sums_on_cards", "text_columns", "units"),
                *("versions_of_generators", "zones"),
            )
        ),
        *(
            f"tests/core/test_{name}.py"
            for name in (
                *("agreed_sums", "answers_of_numbers", "audit_report", "dcr", "few_records"),
                *("formula_names", "noisy_answers", "noisy_numbers", "number_fidelity", "predicting"),
                *("propensity", "psi_risk_claims", "small_holdouts", "sums_of_other_kinds"),
                *("table_utility", "undefined", "wide_raking"),
            )
        ),
    ),
}
"""Reason -> patterns of the files that the first part leaves out."""

MOST_SHARE = 0.25
"""Largest share of the first part in the processor time of all tests."""

_ENDS = ("passed", "failed", "skipped", "error")

_REPORT = ROOT / ".parts.json"
_SLIPCOVER = (sys.executable, "-m", "slipcover")
# `-p tests` imports the package first: under SlipCover, pytest would import it as a module without
# submodules.
_PYTEST = (
    *("-m", "pytest", "-p", "tests", "--numprocesses=auto", "--maxprocesses=4", "--dist=loadfile"),
    *("--no-loadscope-reorder", "--max-worker-restart=0"),
)


def part_of(file: Path) -> str:
    """Return the part of a file of tests."""
    name = file.relative_to(ROOT).as_posix()
    patterns = (pattern for reason in REST.values() for pattern in reason)
    is_later = name != STORY and any(fnmatch(name, pattern) for pattern in patterns)
    return "rest" if is_later else "first"


def main(part: str) -> int:
    """Run a part, print its tests and its processor time; after the rest, check the coverage of both."""
    if part not in PARTS:
        sys.stderr.write(f"usage: python -m tests.parts {'|'.join(PARTS)}\n")
        return 2
    command = [*_SLIPCOVER, "--out", f".coverage.{part}.json", *_PYTEST, "--part", part]
    if sys.stdout.isatty():
        command.append("--color=yes")
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    last = ""
    for line in process.stdout or ():
        sys.stdout.write(line)
        sys.stdout.flush()
        last = line if re.search(r"\d+ (passed|failed)", line) else last
    code = process.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    counts = {word: int(number) for number, word in re.findall(rf"(\d+) ({'|'.join(_ENDS)})", last)}
    seconds, tests = used.ru_utime + used.ru_stime, sum(counts.values())
    print(f"{part} part: {tests:,} tests, {seconds:,.0f} s of processor time")
    report = json.loads(_REPORT.read_text()) if part != "first" and _REPORT.exists() else {}
    report[part] = {"seconds": seconds, **counts}
    _REPORT.write_text(json.dumps(report))
    return code or (_check_both(report) if part == "rest" else 0)


def _check_both(report: dict[str, dict[str, float]]) -> int:
    """Print the share of the first part, if both were run, and refuse too little coverage."""
    if not {*PARTS} <= report.keys():
        print("The first part was not run here: no coverage is judged.")
        return 0
    total = sum(one["seconds"] for one in report.values())
    share = report["first"]["seconds"] / total
    print(f"both parts: {total:,.0f} s of processor time; the first takes {share:.0%}")
    if share > MOST_SHARE:
        print(f"That is more than {MOST_SHARE:.0%}: move files to REST in tests/parts.py.")
    counts = {word: sum(int(one.get(word, 0)) for one in report.values()) for word in _ENDS}
    # The bound is checked by a second call: the first, if it did, would report without the processes of
    # the tests.
    files = [f".coverage.{part}.json" for part in PARTS]
    merged = [*_SLIPCOVER, "--merge", *files, "--fail-under", "95"]
    code = subprocess.run(merged, check=False, cwd=ROOT).returncode
    print(", ".join(f"{count} {word}" for word, count in counts.items() if count), "in both parts")
    _REPORT.unlink()  # the next rest belongs to the next first part
    return code


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each process would compile all modules anew
    sys.exit(main(*sys.argv[1:2] or [""]))
