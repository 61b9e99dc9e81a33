import json

import pytest

from benchmarks import bench


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


def test_a_plot_is_drawn_where_it_is_wanted(tmp_path):
    result = bench.Result([], [], plot=lambda path: path.write_text("drawn"))
    with pytest.raises(SystemExit):
        bench.main("speed", lambda quick: result, ["--plot", str(tmp_path / "a.png")])
    assert (tmp_path / "a.png").read_text() == "drawn"


def test_memory_is_what_a_call_holds_at_its_peak():
    assert 50 < bench.peak_mib(lambda: b"x" * (64 * 2**20)) < 80


def test_a_call_alone_has_its_own_process():
    assert bench.alone(abs, -1) == 1
