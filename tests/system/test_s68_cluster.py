"""S68: workers of a cluster perform runs of audits, the same to the byte; strangers are refused."""

import json
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations

import grpc
import numpy as np
import pytest
from cryptography import x509
from typer.testing import CliRunner

from gencard.boxes.reference import ReferenceKind, ReferenceRecipe
from gencard.client.connection.connection import cancel
from gencard.controller.base.files import toml_text
from gencard.controller.base.listening import worker_host
from gencard.controller.jobs import process
from gencard.controller.jobs.cluster import executor as connections_module
from gencard.controller.jobs.cluster.executor import WorkerLostError, cluster_box, connections, examined
from gencard.controller.jobs.cluster.orders import OrderBook
from gencard.controller.jobs.synthesis import box_of
from gencard.controller.people.keys import issue, new_authority
from gencard.controller.sandbox.boxes import carried, program_recipe
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.shell.main import app
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.run import audit
from gencard.core.card.terms import AuditTerms
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import ClusterError, InvalidInputError
from gencard.v1 import audit_pb2, worker_pb2, worker_pb2_grpc
from gencard.wire.dsse import VERDICT, opened, predicate_of
from tests.system import held_worker
from tests.system.clusters import Cluster, processes_below, write_member
from tests.system.house import House, build, request_id, survey
from tests.system.prepared_audits import ended_audit, operation_of
from tests.system.raw_calls import enrolled, eventually, known_seeds
from tests.system.sandboxes import needs_sandbox
from tests.system.stewards import Steward

pytestmark = needs_sandbox

DOMAIN = Domain.of(dict.fromkeys("abcd", 3))
RECORDS = Dataset(DOMAIN, np.random.default_rng(1).integers(3, size=(300, 4)))
CLIQUES = tuple(combinations(DOMAIN.attributes, 2))
HONEST = ReferenceRecipe(ReferenceKind.HONEST, "ipf", CLIQUES, max_cells=10**6)
PLAN = AuditPlan(CLIQUES, 300, 7, AuditTerms(6, 3, "0.05"))
SLEEPS = """
import time
from gencard.wire.black_box import black_box

@black_box
def sleep(table, rows, *, rng):
    time.sleep(300)

sleep.main()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.add(2)
        yield cluster


def recipe_of(folder, text):
    """A program for the cluster's sandboxes."""
    folder.mkdir()
    (folder / "box.py").write_text(text)
    limits = SandboxLimits(memory_mib=1_024, wall_seconds=400)
    recipe = program_recipe(folder, ("python", "./box.py"), {})
    return replace(recipe, limits=limits, cliques=CLIQUES)


def test_s68_the_report_is_that_of_this_machine_also_where_a_worker_is_killed_in_the_middle(cluster):
    here = audit(box_of(HONEST), RECORDS, PLAN)
    cluster.add(1)
    killed = cluster.workers[-1]

    def kill(stage, _fraction):
        if stage.startswith("test, run 20"):
            killed.send_signal(signal.SIGKILL)

    assert all(one.fits for one in examined(cluster.addresses, cluster.files).values())
    assert audit(cluster_box(HONEST, cluster.job()), RECORDS, PLAN, progress=kill) == here
    assert killed.wait(5) == -signal.SIGKILL
    del cluster.addresses[list(cluster.addresses)[-1]]


def test_s68_a_program_of_an_author_runs_in_a_sandbox_there_and_cancelling_ends_it_in_two_seconds(
    cluster, tmp_path
):
    box = cluster_box(recipe_of(tmp_path / "sleeps", SLEEPS), cluster.job())
    before = performing(cluster)
    with connections(cluster.addresses, cluster.files) as opened:
        order = box.book.order(RECORDS, 5, 1)
        connection = opened[0]
        with ThreadPoolExecutor(1) as waiting:
            call = waiting.submit(connection.perform, order, 300.0)
            assert eventually(lambda: performing(cluster) >= before + 3, 60)
            time.sleep(1)
            begun = time.monotonic()
            connection.cancel()
            assert eventually(lambda: performing(cluster) <= before, 10)
            assert time.monotonic() - begun < 2
            with pytest.raises(WorkerLostError):
                call.result()


def test_s68_a_worker_of_another_version_is_given_nothing(cluster, monkeypatch):
    monkeypatch.setattr("gencard.controller.jobs.cluster.executor.code_digest", lambda: "another")
    monkeypatch.setattr("gencard.controller.jobs.cluster.executor.PATIENCE", 2.0)
    assert not any(one.fits for one in examined(cluster.addresses, cluster.files).values())
    with pytest.raises(ClusterError, match="version"):
        cluster_box(HONEST, cluster.job())(RECORDS, 10, seed=1)


@pytest.mark.parametrize("change", [{"digest": "0" * 64}, {"isolation": Isolation.PROCESSES}])
def test_s68_workers_refuse_a_box_of_another_digest_and_an_open_sandbox(cluster, tmp_path, change):
    recipe = recipe_of(tmp_path / "box", SLEEPS)
    book = OrderBook("job", replace(carried(recipe), **change), 60, 4_096)
    box = replace(cluster_box(recipe, cluster.job()), book=book)
    with pytest.raises(ClusterError, match="black box"):
        box(RECORDS, 5, seed=1)


def members_files(folder, authority):
    """Files of strangers: none, of an authority of their own, an analyst's; and of another worker."""
    now, people = datetime.now(UTC), new_authority("house.example", datetime.now(UTC))
    own = new_authority("cluster.house.example", now)
    write_member(folder / "foreign", own, "controller")
    write_member(folder / "worker", authority, "worker-9")
    issue(people, "spiffe://house.example/health/analyst/ana", now).write(folder / "analyst")
    # a certificate of the cluster's authority for a client, as only the controller's is
    uri = "spiffe://cluster.house.example/health/controller/worker-9"
    issue(authority, uri, now).write(folder / "client")
    return None, *(folder / name for name in ("foreign", "analyst", "worker", "client"))


def described(address, name, authority, own):
    """The status of a call with these files, or the answer's number of runs."""
    files = [(own / file).read_bytes() for file in ("key.pem", "certificate.pem")] if own else []
    credentials = grpc.ssl_channel_credentials(authority.certificate_pem, *files)
    options = [("grpc.ssl_target_name_override", worker_host(name))]
    with grpc.secure_channel(address, credentials, options) as channel:
        stub = worker_pb2_grpc.WorkerServiceStub(channel)
        try:
            return stub.DescribeWorker(worker_pb2.DescribeWorkerRequest(), timeout=5).runs
        except grpc.RpcError as error:
            return error.code()


def test_s68_only_the_controller_is_listened_to_and_no_other_worker(cluster, tmp_path):
    name, address = next(iter(cluster.addresses.items()))
    refusals = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.PERMISSION_DENIED}
    for own in members_files(tmp_path, cluster.authority):
        assert described(address, name, cluster.authority, own) in refusals, own
    assert described(address, name, cluster.authority, cluster.files) == 1


def test_s68_a_worker_answers_under_its_own_name_only(cluster):
    """The key of one worker does not let its holder take the place of another."""
    (one, address), (other, _) = list(cluster.addresses.items())[:2]
    assert examined({one: address}, cluster.files)[one].fits
    assert examined({other: address}, cluster.files) == {other: None}


PAIRS = list(combinations(("sex", "health", "work"), 2))
BEYOND = 15
"""Runs of 42 after which a held audit waits."""
BOX = """
import time
from gencard.wire.black_box import black_box

@black_box
def resample(table, rows, *, rng):
    time.sleep({seconds})
    return table.dataset.take(rng.integers(len(table), size=rows))

resample.main()
"""
SECONDS = {"resample": 0, "sleeper": 300}
"""Time for which one run of a box sleeps, by the name of the box."""


@pytest.fixture(scope="module")
def hold(tmp_path_factory):
    """Audits wait beyond ``BEYOND`` runs for as long as it is there."""
    return tmp_path_factory.mktemp("hold") / "hold"


@pytest.fixture(scope="module")
def house(tmp_path_factory, hold):
    """A controller with programs of authors, not yet started, and without a cluster."""
    with known_seeds(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_COMMAND", held_worker.command(hold, BEYOND))
        built = build(tmp_path_factory.mktemp("served"), survey(500))
        built.raise_caps()
        built.edit({"generators": '["ipf", "resample", "sleeper"]'})
        for name, seconds in SECONDS.items():
            folder = built.folder / "programs" / name
            folder.mkdir(parents=True)
            (folder / "box.py").write_text(BOX.format(seconds=seconds))
            with built.settings_file.open("a") as settings:
                settings.write(
                    f'\n[[black_boxes]]\nname = "{name}"\nkind = "program"\n'
                    f'folder = "programs/{name}"\ncommand = ["python", "./box.py"]\n'
                )
        built.review(*SECONDS)
        yield built
        built.stop()


@pytest.fixture(scope="module")
def alone(house):
    """The report of an audit without a cluster; afterwards the controller has one."""
    house.start()
    with house.analyst() as ana:
        _, report = ended_audit(house, ana, begun(ana, "resample").name)
    Steward(house.controller.controller_state).clear("datasets/survey", "resample", "For a first try.")
    house.stop()
    return report


def cluster_table(addresses, folder):
    """The table of the settings."""
    workers = toml_text(dict(addresses))
    return f'\n[cluster]\nworkers = {workers}\nfolder = "{folder}"\n'


@pytest.fixture(scope="module")
def clustered(house, alone, cluster):
    cluster.add(1)  # killed in a test
    with house.settings_file.open("a") as settings:
        settings.write(cluster_table(cluster.addresses, cluster.files))
    return house.start()


def begun(analyst, box):
    """The operation of an audit of a box, under a new card."""
    terms = {"purpose": "a test", "rows": 500, "audit": AuditTerms(runs=6)}
    card = analyst.propose("survey", PAIRS, generator=box, **terms).accept()
    connection = analyst._connection
    request = audit_pb2.RunAuditRequest(card=card.name, request_id=request_id())
    return connection.call(connection.audit.RunAudit, request)


def runs_kept(house):
    return len(list(house.settings().state.journals.glob("*/*.run")))


def performing(cluster):
    """Processes that the workers have started: those of runs, and what is in their sandboxes."""
    alive = (worker for worker in cluster.workers if worker.poll() is None)
    return sum(len(processes_below(worker.pid)) for worker in alive)


def test_s68_an_audit_by_workers_of_which_one_is_killed_has_the_report_of_one_without_a_cluster(
    clustered, alone, cluster, hold
):
    killed = cluster.workers[-1]
    hold.touch()
    with clustered.analyst(enrolled(clustered, "bob", project="other")) as bob:
        operation = begun(bob, "resample")
        assert eventually(lambda: runs_kept(clustered) >= BEYOND)
        assert processes_below(killed.pid), "it performed none of the runs"
        killed.send_signal(signal.SIGKILL)
        hold.unlink()
        verdict, report = ended_audit(clustered, bob, operation.name)
    whole, of_one = json.loads(report), json.loads(alone)
    workers = whole.pop("workers")
    assert workers["performed"] == 50
    assert 5 <= workers["repeated"] <= 14
    words = [document.pop(name) for document in (whole, of_one) for name in ("wording", "summary")]
    assert "Workers" in words[0]
    assert whole == of_one
    assert killed.wait(5) == -signal.SIGKILL
    signed = predicate_of(opened(verdict.attestation)[0], VERDICT)
    assert signed["workers"] == {
        "drawnOfEachSide": "1",
        "weighedOfEachSide": "1",
        "foundByDrawing": {"1": "0.100", "2": "0.200", "5": "0.500", "10": "1.000"},
    }
    assert "Workers made the runs" in signed["wording"]


def test_s68_an_audit_that_is_cancelled_ends_on_the_workers_in_two_seconds(clustered, cluster):
    before = performing(cluster)
    with clustered.analyst(enrolled(clustered, "cyd", project="third")) as cyd:
        operation = begun(cyd, "sleeper")
        assert eventually(lambda: performing(cluster) >= before + 4), "no run began"
        time.sleep(0.5)
        begin = time.monotonic()
        cancel(cyd._connection, operation.name)
        assert eventually(lambda: performing(cluster) <= before)
        assert time.monotonic() - begin < 2
        assert eventually(lambda: operation_of(cyd, operation.name).done)


def run(house, *words):
    return CliRunner().invoke(app, [*words, "--config", str(house.settings_file)])


def found(house):
    """Return what `doctor` reports of the cluster."""
    (finding,) = (
        one for one in json.loads(run(house, "doctor", "--json").stdout) if one["check"] == "cluster"
    )
    return finding["state"], finding["text"], finding["advice"]


def test_doctor_names_workers_that_are_silent_or_of_another_version(clustered, cluster, monkeypatch):
    state, text, advice = found(clustered)
    silent = list(cluster.addresses)[-1]
    assert (state, text) == ("warning", f"2 workers can be used; silent: {silent}")
    assert "worker start" in advice
    monkeypatch.setattr(connections_module, "code_digest", lambda: "another")
    state, text, advice = found(clustered)
    assert state == "broken"
    assert text.startswith("0 workers can be used")
    assert "of another version: worker-0, worker-1" in text
    assert "this controller's version" in advice


def test_doctor_says_that_no_worker_knows_the_certificate(clustered, cluster, tmp_path):
    stranger = write_member(
        tmp_path / "foreign", new_authority("cluster.house.example", datetime.now(UTC)), "controller"
    )
    text = clustered.settings_file.read_text()
    clustered.settings_file.write_text(text.replace(str(cluster.files), str(stranger)))
    state, said, advice = found(clustered)
    clustered.settings_file.write_text(text)
    assert state == "broken"
    assert said.startswith("0 workers can be used; silent: worker-0, worker-1")
    assert "compare the certificates" in advice


def test_settings_with_a_scheduler_are_read_with_a_notice(house, tmp_path):
    own = House(tmp_path / "controller")
    shutil.copytree(house.folder, own.folder, ignore=shutil.ignore_patterns("state", "programs"))
    text = own.settings_file.read_text().partition("\n[cluster]")[0]
    old = '\n[cluster]\nscheduler = "tls://10.0.0.5:8786"\nfolder = "cluster/controller"\n'
    own.settings_file.write_text(text + old)
    assert own.settings().cluster.scheduler
    state, text, advice = found(own)
    assert (state, text) == ("warning", "no worker is named")
    assert "cluster.workers" in advice
    for words in (
        ("scheduler", "--files", "x", "--host", "10.0.0.5"),
        ("start", "--files", "x", "--scheduler", "tls://a:1"),
    ):
        refused = CliRunner().invoke(app, ["worker", *words])
        assert isinstance(refused.exception, InvalidInputError), refused.output
        assert "cluster.workers" in str(refused.exception)


def test_worker_certificate_makes_an_authority_once_and_members_that_trust_each_other(house, tmp_path):
    """In a controller that has no cluster yet; the authority of the people certifies no member."""
    own = House(tmp_path / "controller")
    shutil.copytree(house.folder, own.folder, ignore=shutil.ignore_patterns("state", "programs"))
    text = own.settings_file.read_text()
    own.settings_file.write_text(text.partition("\n[cluster]")[0])
    folder = own.folder / "cluster"
    made = run(own, "worker", "certificate", "one", "--to", str(tmp_path / "one"))
    assert made.exit_code == 0, made.output
    assert f"--files {tmp_path / 'one'}" in made.stdout.replace("\n", " ")
    before = contents(folder)
    assert run(own, "worker", "certificate", "two", "--to", str(tmp_path / "two")).exit_code == 0
    assert contents(folder) == before, "authority and the controller's own certificate stay"
    assert {path.stat().st_mode & 0o077 for path in tmp_path.glob("*/key.pem")} == {0}
    assert (tmp_path / "one" / "key.pem").read_bytes() != (tmp_path / "two" / "key.pem").read_bytes()
    authority = x509.load_pem_x509_certificate((folder / "authority" / "certificate.pem").read_bytes())
    for member in (folder / "controller", tmp_path / "one", tmp_path / "two"):
        certificate = x509.load_pem_x509_certificate((member / "certificate.pem").read_bytes())
        certificate.verify_directly_issued_by(authority)
        assert not (member / "authority.key").exists()
    for words in (("one", "--to", str(tmp_path / "one")), ("No Name",), ("controller",)):
        refused = run(own, "worker", "certificate", *words)
        assert isinstance(refused.exception, InvalidInputError)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*.pem")}
