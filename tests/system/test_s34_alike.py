"""S34: one run of a program looks like any other: nothing tells an audit from what follows it."""

from dataclasses import replace

import numpy as np

from gencard.controller.jobs.executor import ProcessExecutor
from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.jobs.tasks import RUN_BLACK_BOX, BlackBoxJob
from gencard.controller.sandbox.boxes import program_recipe
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from tests.system.sandboxes import LIMITS, box, needs_sandbox

pytestmark = needs_sandbox

SEES = r"""
use POSIX ();
read STDIN, my $sent, 1_000_000;
my @seen = ($sent =~ s/"seed":"\d+"//r =~ /^(.*)/, length $sent, "@ARGV", $0, $$, getppid, umask);
push @seen, map "$_=$ENV{$_}", sort keys %ENV;
push @seen, (POSIX::uname())[1], getpriority(0, 0), `sh -c 'ulimit -a; ulimit -aH'`;
push @seen, grep defined, map { my $fd = POSIX::dup($_); $fd && (POSIX::close($fd), $_) } 0..40;
push @seen, `ls -AlR --time-style=+ --numeric-uid-gid /cell /dev | sed 's/ 6[0-9]\{4\} / USER /g'`;
my $text = substr join("\n", @seen), 0, 8000;
binmode STDOUT; print qq({"format":"gencard.box.v1","rows":8000}\n);
print $text, "\0" x (8000 - length $text), pack 'v*', 0..7999;
"""
WIDE = Dataset.of_columns(Domain.of({"a": 256, "b": 8000}), [np.arange(50), np.arange(50)])


def seen(rows: Dataset) -> str:
    """Read the message of a program: a letter and its place in each row, in any order."""
    letters = rows.column("a")[np.argsort(rows.column("b"))]
    return bytes(letters.astype(np.uint8)).rstrip(b"\0").decode()


def test_s34_one_run_looks_like_the_other(tmp_path):
    """Runs differ in seed, clock, counters and user number only, for any caller and number of runs."""
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "box").write_text(SEES)
    upload = RowsFile(tmp_path / "upload")
    upload.write(WIDE)
    command = ("/usr/bin/perl", "./box")
    limits = replace(LIMITS, processes=8)
    recipe = replace(program_recipe(tmp_path / "box", command, {}), limits=limits)
    job = BlackBoxJob(recipe, upload.path, 8_000, 11, tmp_path / "rows", tmp_path / "errors")
    executor = ProcessExecutor(1, cpu_seconds=60, memory_mib=2_048, report=print)
    try:
        executor.submit(RUN_BLACK_BOX, job).result(240)
    finally:
        executor.shutdown(cancel_futures=True)
    made = box(SEES, interpreter="/usr/bin/perl", processes=8)
    direct = [seen(made(WIDE, 8_000, seed=10 + number)) for number in (2, 3)]
    assert "PATH=/usr/bin:/bin" in direct[0]
    assert direct[0].splitlines() == direct[1].splitlines()
    assert seen(RowsFile(tmp_path / "rows").dataset()).splitlines() == direct[0].splitlines()
