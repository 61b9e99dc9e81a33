"""The parts of the paper's evaluation: what is said of figures, and a small audit."""

import re
from dataclasses import replace

import pytest

from benchmarks import paper, paper_audits, paper_figure
from benchmarks.paper_audits import Finding, Job
from benchmarks.paper_methods import METHODS
from benchmarks.paper_tasks import Marks, Worth
from gencard.boxes.registry import BOXES, complete
from gencard.measures.utility.prediction import Accuracies, ForestReference, ForestUtility
from tests.shared_data import shared_file


def worth(name, factor, right):
    """A draw that is so many times as far off as another one."""
    forest = ForestUtility(Accuracies(0.4, 0.4), (0.1,) * 6, 0.9)
    return Worth(name, 1.0, 1e-3 * factor, 1e-2 * factor, Accuracies(right, 0.3), forest)


WORTHS = [worth("IPF", 1, 0.34), worth("Private-PGM", 1.1, 0.33), worth("MST", 2, 0.30)]
MARKS = Marks(0.34, ForestReference(0.44, (0.1,) * 6))
HONEST = Finding("1", "IPF", "honest", 0.4, False, ("a",), ("a", "b"), (1.0, 2.0), (1.5, 2.5))
LEAKY = Finding("1", "IPF", "dishonest", 1e-30, True, ("a", "b"), ("a", "b"), (1.0, 2.0), (8.0, 9.0))
BOX = replace(LEAKY, method="SynthPop", kind="box", strongest=("c",))


def missed(targets):
    return [target.name for target in targets if not target.met]


class TestTargets:
    def test_better_than_the_others(self):
        assert missed(paper._utility_targets(WORTHS)) == []

    @pytest.mark.parametrize(
        ("worse", "name"),
        [
            (replace(WORTHS[0], three=3e-3), "MST, 3-way error to ours"),
            (replace(WORTHS[0], gap=3e-2), "MST, gap error to ours"),
            (replace(WORTHS[0], regression=Accuracies(0.2, 0.3)), "MST, accuracy on real behind ours"),
        ],
    )
    def test_the_worst_draw_counts(self, worse, name):
        assert missed(paper._utility_targets([*WORTHS, worse])) == [name]

    def test_audits(self):
        assert missed(paper._audit_targets([HONEST, LEAKY, BOX])) == []

    def test_too_much_evidence_against_honest_ones(self):
        accused = [replace(HONEST, rejected=True)] * 8
        assert missed(paper._audit_targets([*accused, LEAKY]))[0].startswith("honest")

    def test_a_leak_must_show_and_be_named(self):
        weak, elsewhere = replace(LEAKY, mean=1e-19), replace(LEAKY, strongest=("c", "a"))
        assert missed(paper._audit_targets([HONEST, weak])) == ["dishonest and SynthPop, largest p"]
        assert missed(paper._audit_targets([HONEST, elsewhere])) == [
            "dishonest, smuggled marginal named"
        ]


def test_tables_have_a_cell_for_each_column():
    tables = [
        paper._first_table(WORTHS),
        paper._second_table(WORTHS, MARKS),
        paper._third_table(WORTHS, MARKS),
        paper._fourth_table([HONEST, LEAKY, BOX]),
    ]
    assert [len(table.rows) for table in tables] == [3, 4, 4, 3]
    for table in tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_every_generator_of_the_paper_is_there():
    names = {method.name for method in METHODS}
    assert names == {"IPF", "Private-PGM", "MST", "PrivBayes", "CTGAN", "PATE-GAN", "SynthPop"}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_its_parameters_are_those_of_the_box(method):
    if method.box:
        complete(BOXES[method.box], method.parameters)


def test_jobs_hold_every_seed_once():
    for quick in (True, False):
        jobs = [job for job in paper._jobs(quick) if job.kind == "honest"]
        seeds = [(job.application, job.method, seed) for job in jobs for seed in job.seeds]
        assert len(seeds) == len(set(seeds)) == 3 * 2 * paper.HONEST_SEEDS


def test_the_figure_is_drawn_the_same_every_time(tmp_path):
    for name in ("one.svg", "two.svg"):
        paper_figure.draw([HONEST, LEAKY, BOX], tmp_path / name)
    drawn = (tmp_path / "one.svg").read_text()
    assert drawn == (tmp_path / "two.svg").read_text()
    assert re.search("Application 1: IPF, dishonest", drawn)


@pytest.mark.shared
def test_an_honest_generator_and_one_that_adds_a_marginal(monkeypatch):
    shared_file("ons2011_first50k.parquet")
    monkeypatch.setitem(paper_audits.RUNS, "dishonest", 6)
    (honest,) = paper_audits.findings(Job("1", "IPF", "honest", (1,)))
    (dishonest,) = paper_audits.findings(Job("1", "IPF", "dishonest", (1,)))
    assert not honest.rejected
    assert dishonest.rejected
    assert dishonest.named
    assert dishonest.mean < 1e-6
    assert len(dishonest.low) == 6
    assert paper_audits.figures(dishonest)["rejected"]
