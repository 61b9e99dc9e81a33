import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from benchmarks import __main__ as every
from benchmarks import bench, first_hour, first_hour_files, first_hour_truth, speed, speed_once
from benchmarks.peers import Peer, Peers, record, recorded
from tests.messy_files import MESSY
from tests.system.raw_calls import eventually


def result_of(value):
    table = bench.Table("Speed", ("method", "seconds"), [("ours", 0.5), ("theirs", None)])
    return lambda quick: bench.Result(
        [table], [bench.Target("times", value, 8, "at least", "x")], {"quick": quick}
    )


@pytest.mark.parametrize(
    ("value", "direction", "met"),
    [
        (8, "at least", True),
        (7.9, "at least", False),
        (8, "at most", True),
        (8.1, "at most", False),
        (float("nan"), "at least", False),
        (float("nan"), "at most", False),
    ],
)
def test_a_target_is_met_or_missed(value, direction, met):
    assert bench.Target("times", value, 8, direction).met is met


@pytest.mark.parametrize(("value", "code"), [(9, 0), (7, 1)])
def test_a_missed_target_fails_the_run_and_all_is_written(tmp_path, capsys, value, code):
    file = tmp_path / "out.json"
    with pytest.raises(SystemExit) as ended:
        bench.main("speed", result_of(value), ["--quick", "--json", str(file)])
    assert ended.value.code == code
    report = json.loads(file.read_text())
    assert report["quick"]
    assert report["figures"] == {"quick": True}
    assert report["targets"][0]["met"] is (code == 0)
    assert capsys.readouterr().out.splitlines()[-1] == report["summary"]


def test_a_target_that_is_not_checked_fails_nothing_and_says_why(capsys):
    target = bench.Target("times", 1, 8, "at least", "x", "recorded elsewhere")
    with pytest.raises(SystemExit) as ended:
        bench.main("speed", lambda quick, peers: bench.Result([], [target]), [], peers=True)
    assert ended.value.code == 0
    written = capsys.readouterr().out
    assert "not checked: recorded elsewhere" in written
    assert "all 0 targets met, 1 not checked" in written


def test_peers_are_run_only_where_that_is_asked_for():
    asked = []

    def run(quick, peers):
        asked.append(peers)
        return bench.Result([], [])

    for arguments in ([], ["--peers"]):
        with pytest.raises(SystemExit):
            bench.main("speed", run, arguments, peers=True)
    assert asked == [False, True]


class TestRecordedPeers:
    PEER = Peer("scipy", 'a "task"', "1.0", "as it is", "x", "2026-11-22", {"seconds": [2, 0.5, 4e-7]})

    def test_figures_are_written_and_read_again(self, tmp_path):
        file = tmp_path / "recorded.toml"
        file.write_text("# What this is.\n")
        record(self.PEER, file)
        record(Peer("gower", "task", "", "", "x", "", {"seconds": [float("nan")]}), file)
        record(self.PEER, file)
        assert file.read_text().startswith("# What this is.\n\n[[peer]]\n")
        assert recorded(file)["scipy", 'a "task"'] == self.PEER
        assert np.isnan(recorded(file)["gower", "task"].median("seconds"))

    def test_a_program_is_run_and_recorded_or_taken_from_the_record(self, tmp_path):
        file = tmp_path / "recorded.toml"
        settings = ("program", "task", "default")
        assert Peers(False, file).peer(*settings, None) is None
        now = Peers(True, file).peer(*settings, lambda: {"seconds": [3.0]}, version="1.0")
        peers = Peers(False, file)
        later = peers.peer(*settings, lambda: pytest.fail("it runs"))
        assert (now.name, later.name) == ("program", "program (recorded)")
        assert later.figures == now.figures
        assert [row[:3] for row in peers.table().rows] == [("program", "1.0", "default")]

    @pytest.mark.parametrize(("processor", "met"), [(bench.processor(), False), ("another", True)])
    def test_seconds_are_compared_on_the_same_processor_only(self, processor, met):
        peer = Peer("program", "task", "1", "", processor, "2026-11-22", {"seconds": [1.0]})
        assert peer.speed("faster", 0.5, 3, "at least").met is met

    def test_the_record_can_be_read(self):
        assert all(peer.version and peer.day and peer.figures for peer in recorded().values())


def test_slower_is_said_of_the_median_of_rounds():
    one = speed.Comparison("task", [(1, 1.0), (9, 2.0), (1, 1.0)], [(1, 1.2), (1, 2.4), (1, 9.0)])
    assert one.ratio(1) == pytest.approx(1.2)
    assert one.row[-1] == "SLOWER"


def test_wall_seconds_are_compared_by_the_fastest_of_each_side():
    one = speed.Comparison("task", [(4, 1.0), (2, 1.0), (9, 1.0)], [(8, 1.0), (3, 1.0), (3, 1.0)])
    assert one.fastest == pytest.approx(1.5)


WORKER = "import time; end = time.process_time() + 0.4\nwhile time.process_time() < end: pass"
SERVER = f"""
import subprocess, sys
command = [sys.executable, "-c", {WORKER!r}]
subprocess.run(command)
running = subprocess.Popen(command)
sys.stdin.read()
"""


def test_seconds_of_a_server_are_those_of_its_workers_too():
    """Seconds of a process that has ended, and of one that runs."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE) as server:
        assert eventually(lambda: speed_once._processor_seconds(server.pid) - time.process_time() > 0.75)
        server.stdin.close()


def test_time_is_that_of_one_call_or_of_its_parts():
    calls = []
    wall, used = speed_once._timed(lambda: calls.append(1) or 10**9, 0, 3)
    assert len(calls) == 3
    assert max(wall, used) < 1e-6


def test_a_plot_is_drawn_where_it_is_wanted(tmp_path):
    result = bench.Result([], [], plot=lambda path: path.write_text("drawn"))
    with pytest.raises(SystemExit):
        bench.main("speed", lambda quick: result, ["--plot", str(tmp_path / "a.png")])
    assert (tmp_path / "a.png").read_text() == "drawn"


def test_memory_is_what_a_call_holds_at_its_peak():
    assert 50 < bench.peak_mib(lambda: b"x" * (64 * 2**20)) < 80


def test_a_call_alone_has_its_own_process():
    assert bench.alone(abs, -1) == 1


def test_calls_on_all_cores_answer_in_order_and_hand_errors_on():
    assert bench.on_all_cores(pow, [(2, 5), (3, 2), (5, 0)]) == [32, 9, 1]
    with pytest.raises(ZeroDivisionError):
        bench.on_all_cores(pow, [(2, 5), (0, -1)])


def test_all_benchmarks_are_listed_and_no_helper_is():
    assert {"audit", "load", "vault"} <= set(every.names())
    assert not {"bench", "peers", "fit_once", "__main__"} & set(every.names())


@pytest.mark.parametrize(
    ("program", "end"),
    [
        ("print('done')", "targets met"),
        ("raise SystemExit(1)", "missed or failed"),
        ("raise SystemExit(3)", "exit code 3"),
    ],
)
def test_how_a_benchmark_ended_is_told(tmp_path, program, end):
    ended = every.run("one", [sys.executable, "-c", program], tmp_path / "log", limit=60)
    assert (ended.name, ended.end) == ("one", end)
    assert ended.seconds < 60


def test_a_benchmark_over_the_limit_is_stopped_with_all_that_it_started(tmp_path):
    child = tmp_path / "child"
    program = f"""
import pathlib, subprocess, time
started = subprocess.Popen(["sleep", "600"])
pathlib.Path({str(child)!r}).write_text(str(started.pid))
time.sleep(600)
"""
    ended = every.run("long", [sys.executable, "-c", program], tmp_path / "log", limit=3)
    assert ended.end == "stopped after 3 s"
    assert eventually(lambda: has_ended(int(child.read_text())))


def has_ended(process):
    try:
        return "zombie" in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_an_unknown_benchmark_is_refused_before_one_runs(capsys):
    with pytest.raises(SystemExit) as ended:
        every.main(["start", "stat"])
    assert ended.value.code == 2
    assert "unknown benchmarks: stat; available: answers, " in capsys.readouterr().err


class TestFirstHour:
    SCHEMA: ClassVar[dict[str, Any]] = {
        "attributes": [
            {"name": "plz", "labels": ["01067", "10115"], "text": True},
            {"name": "answer", "labels": ["1", "2"], "missing": ["99"]},
            {"name": "pay", "edges": [0, 100, 200], "step": "0.5", "missing": True},
            {"name": "day", "dates": ["2020-01-01", "2021-01-01"]},
        ]
    }
    FILE = pd.DataFrame(
        {
            "plz": ["01067", "10115"] * 2,
            "answer": ["1", "2.0", "", "99"],
            "pay": ["10,5", "1.100", "", "20"],
            "day": ["01.02.2020", "02.02.2020"] * 2,
        }
    )
    WRITTEN: ClassVar[dict[str, Any]] = {"decimal": ",", "thousands": ".", "dates": ["%d.%m.%Y"]}
    ROWS = pd.DataFrame(
        {
            "plz": ["10115", "01067"] * 2,
            "answer": ["2", "1", "", ""],
            "pay": ["10.5", "1100", "", "20"],
            "day": ["2020-02-01", "2020-02-02"] * 2,
        }
    )

    def compared(self, **columns):
        rows = self.ROWS.assign(**columns)
        schema = {"attributes": [dict(one) for one in self.SCHEMA["attributes"]]}
        schema["attributes"][2]["edges"] = [0, 100, 2000]
        return first_hour_truth.differences(self.FILE, rows, schema, self.WRITTEN)

    def test_rows_that_say_what_the_file_says_differ_in_nothing(self):
        found = self.compared()
        assert (found.mean, found.share, found.altered, found.compared) == (0.0, 0.0, (), 4)

    @pytest.mark.parametrize(
        ("column", "values", "part"),
        [
            ("plz", ["1067", "10115"] * 2, "altered"),
            ("answer", ["1", "3", "", ""], "altered"),
            ("pay", ["10.25", "1100", "", "20"], "altered"),
            ("pay", ["10.5", "2100", "", "20"], "altered"),
            ("pay", ["k.A.", "1100", "", "20"], "altered"),
            ("plz", ["10115"] * 4, "share"),
            ("pay", ["10.5", "1100", "1", "20"], "share"),
            ("pay", ["110.5", "1100", "", "20"], "mean"),
            ("day", ["2020-02-02"] * 4, "mean"),
        ],
    )
    def test_another_value_share_or_mean_is_named(self, column, values, part):
        found = self.compared(**{column: values})
        assert getattr(found, part)
        assert column in (*found.altered, *found.worst)

    def test_there_are_enough_files_and_the_messy_ones_among_them(self):
        assert len(first_hour_files.FILES) > first_hour.LEAST_FILES
        assert {*MESSY} < {*first_hour_files.FILES}

    def test_one_file_goes_from_init_to_rows_and_a_regression(self):
        result = first_hour.run(quick=True, names=["codes"])
        assert {target.name: target.value for target in result.targets if not target.met} == {}
        (row,) = result.tables[0].rows
        assert row[:4] == ("codes", 5, 7, 0)

    def test_a_refused_file_is_refused_by_a_message(self, tmp_path):
        path = first_hour_files.REFUSED["ragged lines"](tmp_path)
        said, is_refused = first_hour.refusal(path, tmp_path)
        assert is_refused
        assert "2002, 2003" in said
