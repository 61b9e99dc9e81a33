"""S68: a worker with a valid certificate can neither run code on the controller nor turn a verdict."""

import json
import secrets
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gencard.boxes.reference import ReferenceKind, ReferenceRecipe
from gencard.controller.base.files import toml_text
from gencard.controller.jobs import black_boxes as repetition
from gencard.controller.jobs.black_boxes import JournaledBox, NotRepeatableError, RepeatedBox
from gencard.controller.jobs.cluster.executor import cluster_box
from gencard.controller.jobs.cluster.orders import Performer
from gencard.controller.jobs.synthesis import box_of
from gencard.controller.sandbox.boxes import ProgramRecipe, received
from gencard.controller.sandbox.environment import Environment, Runtime
from gencard.controller.shell.main import app
from gencard.controller.shell.terminal import controller_state
from gencard.controller.state.log import event_of
from gencard.core.audit.plan import AuditPlan, AuditStep, Side, run_seed
from gencard.core.audit.report import Verdict, WorkerRuns
from gencard.core.audit.run import audit
from gencard.core.audit.wording import report_of_json_object, report_to_json_object
from gencard.core.card.terms import AuditTerms
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError, ClusterError, InvalidInputError, WorkerError
from gencard.v1 import audit_pb2
from gencard.v1.worker_pb2 import RunAnswer, RunOrder
from tests.system.house import build, request_id, survey
from tests.system.lying_workers import (
    Lie,
    OtherBox,
    PickledError,
    Replay,
    Truth,
    lying_cluster,
    malformed,
)
from tests.system.prepared_audits import ended_audit, operation_of
from tests.system.raw_calls import eventually
from tests.system.sandboxes import needs_sandbox

DOMAIN = Domain.of(dict.fromkeys("abcd", 3))
RECORDS = Dataset(DOMAIN, np.random.default_rng(1).integers(3, size=(300, 4)))
CLIQUES = tuple(combinations(DOMAIN.attributes, 2))
HONEST = ReferenceRecipe(ReferenceKind.HONEST, "ipf", CLIQUES, max_cells=10**6)
COPIES = replace(HONEST, kind=ReferenceKind.COPIES_ROWS, share=1.0)
PLAN = AuditPlan(CLIQUES, 300, 7, AuditTerms(10, 3, "0.05"))


def audited(job, folder, recipe=COPIES, plan=PLAN):
    """The report of an audit by the workers of a job's cluster, as the job makes it."""
    box = cluster_box(recipe, job)
    journal = JournaledBox(box, folder, lambda seed: box.performers.get(seed, ""))
    repeated = RepeatedBox(journal, box.here, job.repeated)
    report = audit(repeated, RECORDS, plan)
    return replace(report, workers=repeated.worker_runs(plan.terms.runs))


@pytest.fixture
def journal(tmp_path):
    (tmp_path / "journal").mkdir()
    return tmp_path / "journal"


def test_an_honest_worker_gives_the_report_of_this_machine_and_the_report_says_who_worked(
    tmp_path, journal
):
    with lying_cluster(tmp_path, truth := Truth(), runs=2) as job:
        report = audited(job, journal)
    assert replace(report, workers=None) == audit(box_of(COPIES), RECORDS, PLAN)
    assert report.verdict is Verdict.LEAKAGE
    assert report.workers == WorkerRuns(50, report.workers.repeated, 1, 1)
    assert 5 <= report.workers.repeated <= 10
    assert len(truth.orders) == 50, "each run is ordered once; here nothing can be planted"
    document = report_to_json_object(report)
    assert report_of_json_object(json.loads(json.dumps(document))) == report
    assert "Workers made the runs" in document["wording"]
    assert "workers" not in report_to_json_object(replace(report, workers=None))


@pytest.mark.parametrize("name", malformed(Path()))
def test_a_malformed_answer_is_refused_unread_and_its_worker_is_named(tmp_path, journal, name):
    lie: Lie = malformed(tmp_path)[name]
    with lying_cluster(tmp_path, lie) as job, pytest.raises(WorkerError) as caught:
        audited(job, journal)
    assert caught.value.fields["worker"] == "liar"
    assert "disk" not in str(caught.value)
    assert not (tmp_path / "whole").exists()
    assert not (tmp_path / "inside").exists()


def test_an_error_with_pickled_details_is_a_lost_call_and_no_more(tmp_path, monkeypatch):
    def raise_pickled(_order):
        raise PickledError(tmp_path / "whole")

    monkeypatch.setattr("gencard.controller.jobs.cluster.executor._RECONNECT", 0.05)
    with lying_cluster(tmp_path, raise_pickled) as job, pytest.raises(ClusterError) as caught:
        next(cluster_box(HONEST, job).runs_by_seed(RECORDS, 50, seeds=[1]))
    assert not isinstance(caught.value, WorkerError), "a lost call may be nobody's fault"
    assert not (tmp_path / "whole").exists()


def test_no_module_of_the_product_can_unpickle():
    """Dask's messages were pickled; nothing that the product imports for a cluster is."""
    room = "gencard.controller.jobs.cluster"
    look = f"import sys, {room}.executor, {room}.workers"
    done = subprocess.run(
        [sys.executable, "-c", f"{look}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    modules = {name.partition(".")[0] for name in done.stdout.split()}
    assert not {"dask", "distributed", "cloudpickle", "msgpack"} & modules


def test_honest_rows_for_a_copying_box_end_the_audit(tmp_path, journal):
    lie = OtherBox(HONEST)
    with lying_cluster(tmp_path, lie) as job, pytest.raises(WorkerError, match="other rows"):
        audited(job, journal)
    assert len(lie.orders) == 10, "the first side is compared before the second begins"


def test_one_answer_for_all_runs_is_not_taken(tmp_path, journal):
    with (
        lying_cluster(tmp_path, Replay(bound=False)) as job,
        pytest.raises(WorkerError, match="another"),
    ):
        audited(job, journal)


def test_equal_rows_for_different_orders_are_always_repeated(tmp_path, journal, monkeypatch):
    """A pair of runs with one answer, in a side of which the draw and the weights miss both."""
    monkeypatch.setattr(RepeatedBox, "weigh", lambda *_: None)
    monkeypatch.setattr(RepeatedBox, "_number", lambda *_: 0)
    replay = Replay(bound=True)
    replay.chosen = None
    with lying_cluster(tmp_path, replay) as job, pytest.raises(WorkerError, match="other rows"):
        audited(job, journal)


def test_answers_of_another_audit_are_not_taken(tmp_path, journal):
    """The same box, seed and dataset in two audits: their orders differ all the same."""
    first = Truth()
    with lying_cluster(tmp_path / "one", first) as job:
        next(cluster_box(HONEST, job).runs_by_seed(RECORDS, 50, seeds=[1]))
    answer = first.answer(first.orders[0].SerializeToString())
    with (
        lying_cluster(tmp_path / "two", lambda _: [answer]) as job,
        pytest.raises(WorkerError, match="another order"),
    ):
        next(cluster_box(HONEST, job).runs_by_seed(RECORDS, 50, seeds=[1]))


class TestRepetition:
    """The draw itself, without a network."""

    @staticmethod
    def box(folder, lies=frozenset(), share=0.2, here=None):
        def honest(dataset, rows, *, seed):
            return dataset.take(np.random.default_rng(seed).integers(len(dataset), size=rows))

        def by_worker(dataset, rows, *, seed):
            return honest(dataset, rows, seed=seed + 1_000 if seed in lies else seed)

        journal = JournaledBox(by_worker, folder, lambda _: "w1")
        return RepeatedBox(journal, here or honest, share)

    @pytest.mark.parametrize("false", [1, 3, 8, 9])
    def test_a_lie_of_k_runs_is_found_as_often_as_documents_say(self, tmp_path, false, monkeypatch):
        runs, tries, number = 10, 150, 0.0
        monkeypatch.setattr(repetition, "_system", np_system := _Sampler(false))
        for attempt in range(tries):
            folder = tmp_path / str(attempt)
            folder.mkdir()
            box = self.box(folder, lies=set(range(false)))
            try:
                list(box.runs_by_seed(RECORDS, 20, seeds=list(range(runs))))
            except WorkerError:
                number += 1
        probability = WorkerRuns(10, 2, 2, 2).probability(false, runs)
        assert probability == pytest.approx(1 - comb(runs - false, 2) / comb(runs, 2))
        spread = 4 * np.sqrt(probability * (1 - probability) / tries)
        assert abs(number / tries - probability) <= spread
        assert np_system.calls

    def test_one_wild_run_is_found_whatever_the_draw(self, tmp_path, monkeypatch):
        """A single false run far from all others would turn a test of means."""
        monkeypatch.setattr(RepeatedBox, "_repeat_equal", lambda *_: None)
        monkeypatch.setattr(secrets.SystemRandom, "sample", lambda _, seeds, k: seeds[-k:])
        box = self.box(tmp_path, lies={3})
        list(box.runs_by_seed(RECORDS, 20, seeds=list(range(10))))
        values = np.random.default_rng(1).normal(size=(10, 4))
        values[3, 2] = 40
        with pytest.raises(WorkerError):
            box.weigh(list(range(10)), values)

    def test_runs_kept_by_an_earlier_start_are_drawn_from_too(self, tmp_path):
        """An owner who cancels an audit before the comparison and resumes it does not save its lies."""
        outputs = self.box(tmp_path, lies=set(range(9))).runs_by_seed(RECORDS, 20, seeds=list(range(10)))
        for _ in range(9):
            next(outputs)
        outputs.close()
        box = self.box(tmp_path, share=1.0)
        with pytest.raises(WorkerError) as caught:
            list(box.runs_by_seed(RECORDS, 20, seeds=list(range(10))))
        assert caught.value.fields["worker"] == "w1"

    def test_a_box_without_repeatable_rows_accuses_no_worker(self, tmp_path):
        rng = np.random.default_rng(5)

        def restless(dataset, rows, *, seed):
            return dataset.take(rng.integers(len(dataset), size=rows))

        with pytest.raises(NotRepeatableError):
            list(self.box(tmp_path, here=restless).runs_by_seed(RECORDS, 20, seeds=[1, 2]))

    def test_a_failure_is_not_believed_but_made_again_here(self, tmp_path):
        def failed(content):
            answer = malformed(tmp_path)["not failed"](content)[0]
            return [answer[:-1] + b"\x01"]

        with lying_cluster(tmp_path, failed) as job:
            box = cluster_box(HONEST, job)
            assert next(box.runs_by_seed(RECORDS, 50, seeds=[1])).digest() == (
                box_of(HONEST)(RECORDS, 50, seed=1).digest()
            )
            assert box.performers == {}
            with pytest.raises(BlackBoxError):
                replace(box, here=_failing)(RECORDS, 50, seed=1)

    def test_the_audit_names_the_runs_that_move_its_results(self):
        """A run far from the others in step 2 has the most extreme numbers of its side, among others."""
        wild = run_seed(PLAN.seed, AuditStep.TEST, Side.LOW, 4)
        box = _Weighing(box_of(COPIES), wild)
        audit(box, RECORDS, PLAN)
        assert len(box.order) == 5, "each side that was run; here nothing can be planted"
        assert all(len(seeds) == 10 for seeds in box.order)
        assert [seeds[0] for seeds in box.order if wild in seeds] == [wild]

    @pytest.mark.parametrize("path", ["../out", "/etc/out", "a/../../out"])
    def test_a_hostile_controller_names_no_file_outside_a_programs_folder(self, path):
        command = ("python", f"./{path}")
        recipe = ProgramRecipe("", "", command, {}, (), "", Runtime(), Environment(), files={path: b""})
        with pytest.raises(InvalidInputError, match="outside"):
            received(recipe)

    @pytest.mark.parametrize("order", [b"", b"\xff" * 9, RunOrder(recipe="{").SerializeToString()])
    def test_a_worker_survives_orders_that_are_none(self, order):
        assert RunAnswer.FromString(Performer()(order)).WhichOneof("outcome") == "failed"


class _Weighing:
    """A box with one wild run; keeps the seeds of each side, the farthest run first."""

    def __init__(self, box, wild):
        self.box, self.wild, self.order = box, wild, []

    def __call__(self, dataset, rows, *, seed):
        if seed == self.wild:
            return dataset.take(np.zeros(rows, dtype=int))
        return self.box(dataset, rows, seed=seed)

    def weigh(self, seeds, values):
        assert values.shape[0] == len(seeds)
        self.order.append([seeds[place] for place in np.argsort(-repetition._distances(values))])


def _failing(*_, **__):
    raise BlackBoxError(problem="it raised an error")


class _Sampler:
    """Draws as ``random.SystemRandom`` does, but the same at each run of the tests."""

    def __init__(self, seed):
        self._rng, self.calls = np.random.default_rng(seed), 0

    def sample(self, values, number):
        self.calls += 1
        return [values[place] for place in self._rng.permutation(len(values))[:number]]


PAIRS = list(combinations(("sex", "health", "work"), 2))
COPYING = """
from gencard.wire.black_box import black_box

@black_box
def copy(table, rows, *, rng):
    return table.dataset.take(rng.integers(len(table), size=rows))

copy.main()
"""


@pytest.fixture
def served(tmp_path_factory):
    """A house with a copying program, not yet started."""
    house = build(tmp_path_factory.mktemp("served"), survey(500))
    house.raise_caps()
    house.edit({"generators": '["ipf", "copies"]'})
    folder = house.folder / "programs" / "copies"
    folder.mkdir(parents=True)
    (folder / "box.py").write_text(COPYING)
    with house.settings_file.open("a") as settings:
        settings.write('\n[[black_boxes]]\nname = "copies"\nkind = "program"\n')
        settings.write('folder = "programs/copies"\ncommand = ["python", "./box.py"]\n')
    house.review("copies")
    yield house
    house.stop()


def begun(analyst, *, under=""):
    """The operation of an audit of the copying program, and its card."""
    terms = {"purpose": "a test", "rows": 500, "audit": AuditTerms(runs=10)}
    name = under or analyst.propose("survey", PAIRS, generator="copies", **terms).accept().name
    connection = analyst._connection
    request = audit_pb2.RunAuditRequest(card=name, request_id=request_id())
    return name, connection.call(connection.audit.RunAudit, request).name


def worker_command(house, *words):
    return CliRunner().invoke(app, ["worker", *words, "--config", str(house.settings_file)])


@needs_sandbox
def test_s68_a_lying_worker_ends_the_audit_costs_nothing_and_stays_refused(served, tmp_path):
    """End to end: honest rows for a copying box, which turned the signed verdict before."""
    lie = OtherBox(replace(HONEST, cliques=tuple(PAIRS)))
    with lying_cluster(tmp_path / "cluster", lie, runs=4) as job:
        with served.settings_file.open("a") as settings:
            workers = toml_text(dict(job.workers))
            settings.write(f'\n[cluster]\nworkers = {workers}\nfolder = "{job.folder}"\n')
        served.start()
        with served.analyst() as ana:
            card, operation = begun(ana)
            assert eventually(lambda: operation_of(ana, operation).done, seconds=120)
            status = operation_of(ana, operation).error
            assert "'liar'" in status.message
            assert "other rows" in status.message
            before = len(lie.orders)
            assert before == 10, "all answers of the first side, and no more"
            assert refused_workers(served) == ["liar"]
            _, operation = begun(ana, under=card)
            audit, report = ended_audit(served, ana, operation)
            assert len(lie.orders) == before, "a refused worker is given nothing"
        assert audit.verdict == audit_pb2.VERDICT_LEAKAGE
        assert "workers" not in json.loads(report)
        served.stop()
        assert worker_command(served, "admit", "other").exit_code
        assert worker_command(served, "admit", "liar", "--steward", "sam").exit_code == 0
        assert refused_workers(served) == []
        with controller_state(served.settings_file) as opened, opened.database.reading() as tx:
            events = [event_of(entry.body) for entry in opened.log.entries(tx)]
        actions = [event.action for event in events if event.resource == "workers/liar"]
        assert actions == ["refuse-worker", "admit-worker"]


def refused_workers(house):
    return json.loads(worker_command(house, "refused", "--json").stdout)
