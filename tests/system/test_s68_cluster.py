"""S68: workers of a cluster perform runs of audits, the same to the byte; strangers are refused."""

import json
import os
import pickle
import shutil
import signal
import socket
import ssl
import struct
import time
from concurrent.futures import CancelledError
from contextlib import closing
from datetime import UTC, datetime
from itertools import combinations

import numpy as np
import pytest
from cryptography import x509
from typer.testing import CliRunner

from gencard.client.connection.connection import cancel
from gencard.controller.cluster import executor
from gencard.controller.cluster.executor import (
    ClusterAccess,
    ClusterExecutor,
    cluster_box,
    connected,
    examined,
    perform,
)
from gencard.controller.cluster.orders import Bounds, OrderBook
from gencard.controller.jobs import process
from gencard.controller.jobs.synthesis import box_of
from gencard.controller.people.certificates import issue, issue_member, new_authority, write_new
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.sandbox.recipes import carried, in_sandbox, program_recipe
from gencard.controller.shell.main import app
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.run import audit
from gencard.core.card.terms import AuditTerms
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import ClusterError, InvalidInputError
from gencard.v1 import audit_pb2
from tests.system import held_worker
from tests.system.clusters import Cluster, processes_below, write_member
from tests.system.house import House, build, request_id, survey
from tests.system.prepared_audits import ended_audit, operation_of
from tests.system.raw_calls import enrolled, eventually, known_seeds
from tests.system.sandboxes import needs_sandbox
from tests.system.stewards import Steward

pytest.importorskip("distributed")
pytestmark = needs_sandbox

DOMAIN = Domain.of(dict.fromkeys("abcd", 3))
RECORDS = Dataset(DOMAIN, np.random.default_rng(1).integers(3, size=(300, 4)))
CLIQUES = tuple(combinations(DOMAIN.attributes, 2))
HONEST = {
    "kind": "honest",
    "generator": "ipf",
    "cliques": [list(clique) for clique in CLIQUES],
    "zeros": [],
    "max_cells": 10**6,
}
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
    recipe = in_sandbox(program_recipe(folder, ("python", "./box.py"), {}), limits, Isolation.NAMESPACES)
    return {**recipe, "cliques": [list(clique) for clique in CLIQUES], "values": {}}


def test_s68_the_report_is_that_of_this_machine_also_where_a_worker_is_killed_in_the_middle(cluster):
    here = audit(box_of(HONEST), RECORDS, PLAN)
    cluster.add(1)
    killed = cluster.workers[-1]

    def kill(stage, _fraction):
        if stage.startswith("test, run 20"):
            killed.send_signal(signal.SIGKILL)

    assert examined(cluster.scheduler, cluster.files) == (3, 0)
    assert audit(cluster_box(HONEST, cluster.job()), RECORDS, PLAN, progress=kill) == here
    assert killed.wait(5) == -signal.SIGKILL


def test_s68_a_program_of_an_author_runs_in_a_sandbox_there_and_cancelling_ends_it_in_two_seconds(
    cluster, tmp_path
):
    recipe = recipe_of(tmp_path / "sleeps", SLEEPS)
    executor = ClusterExecutor(ClusterAccess(cluster.scheduler, cluster.files))
    order = OrderBook("job", carried(recipe), Bounds(60, 4_096)).order(RECORDS, 5, 1)

    def children():
        return sum(
            len(processes_below(worker.pid)) for worker in cluster.workers if worker.poll() is None
        )

    before = children()
    future = executor.submit(perform, order)
    assert eventually(lambda: children() >= before + 3, 60)
    time.sleep(1)
    begun = time.monotonic()
    future.cancel()
    assert eventually(lambda: children() <= before, 10)
    assert time.monotonic() - begun < 2
    with pytest.raises(CancelledError):
        future.result()
    executor.shutdown()


def test_s68_a_worker_of_another_version_is_given_nothing(cluster, monkeypatch):
    monkeypatch.setattr("gencard.controller.cluster.executor.code_digest", lambda: "another")
    monkeypatch.setattr("gencard.controller.cluster.executor.PATIENCE", 2.0)
    assert examined(cluster.scheduler, cluster.files)[0] == 0
    with pytest.raises(ClusterError, match="version"):
        cluster_box(HONEST, cluster.job())(RECORDS, 10, seed=1)


@pytest.mark.parametrize("change", [{"digest": "0" * 64}, {"isolation": "processes"}])
def test_s68_workers_refuse_a_box_of_another_digest_and_an_open_sandbox(cluster, tmp_path, change):
    recipe = {**carried(recipe_of(tmp_path / "box", SLEEPS)), **change}
    executor = ClusterExecutor(ClusterAccess(cluster.scheduler, cluster.files))
    order = OrderBook("job", recipe, Bounds(60, 4_096)).order(RECORDS, 5, 1)
    with pytest.raises(ClusterError, match="black box"):
        executor.answer(order, executor.submit(perform, order))
    executor.shutdown()


class Command:
    """Unpickled, it leaves a folder."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def certificates(folder, authority):
    """What strangers have: none, one of an authority of their own, and an analyst's."""
    now, people = datetime.now(UTC), new_authority("house.example", datetime.now(UTC))
    own = new_authority("cluster.house.example", now)
    member = "spiffe://cluster.house.example/health/controller/worker-0"
    issue_member(own, member, now).write(folder / "foreign")
    issue(people, "spiffe://house.example/health/analyst/ana", now).write(folder / "analyst")
    write_new(folder / "authority.pem", authority.certificate_pem, private=False)
    return None, folder / "foreign", folder / "analyst"


def answer_to(address, content, authority, own):
    """What a member answers to bytes; nothing where it does not listen to this certificate."""
    context = ssl.create_default_context(cafile=str(authority))
    context.check_hostname = False
    if own:
        context.load_cert_chain(own / "certificate.pem", own / "key.pem")
    host, port = address.removeprefix("tls://").rsplit(":", 1)
    with closing(socket.create_connection((host, int(port)), 10)) as plain:
        try:
            with context.wrap_socket(plain) as secured:
                secured.sendall(content)
                return secured.recv(1 << 16)
        except OSError:
            return b""


def test_s68_nobody_without_a_certificate_of_the_cluster_is_listened_to(cluster, tmp_path):
    client = connected(ClusterAccess(cluster.scheduler, cluster.files))
    addresses = [cluster.scheduler, *client.scheduler_info(n_workers=-1)["workers"]]
    client.close()
    frames = [pickle.dumps({"op": "run", "function": pickle.dumps(Command(tmp_path / "made"))})]
    content = struct.pack(f"<{len(frames) + 2}Q", len(frames[0]) + 16, 1, len(frames[0])) + frames[0]
    for own in certificates(tmp_path, cluster.authority):
        for address in addresses:
            assert answer_to(address, content, tmp_path / "authority.pem", own) == b""
    member = answer_to(addresses[0], b"", tmp_path / "authority.pem", cluster.files)
    assert member, "a member is answered"
    assert not (tmp_path / "made").exists()


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
"""How long one run of a box sleeps, by its name."""


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


@pytest.fixture(scope="module")
def clustered(house, alone, cluster):
    with house.settings_file.open("a") as settings:
        settings.write(f'\n[cluster]\nscheduler = "{cluster.scheduler}"\nfolder = "{cluster.files}"\n')
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
    cluster.add(1)
    killed = cluster.workers[-1]
    hold.touch()
    with clustered.analyst(enrolled(clustered, "bob", project="other")) as bob:
        operation = begun(bob, "resample")
        assert eventually(lambda: runs_kept(clustered) >= BEYOND)
        assert processes_below(killed.pid), "it performed none of the runs"
        killed.send_signal(signal.SIGKILL)
        hold.unlink()
        assert ended_audit(clustered, bob, operation.name)[1] == alone
    assert killed.wait(5) == -signal.SIGKILL


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
    """What `doctor` says of the cluster."""
    (finding,) = (
        one for one in json.loads(run(house, "doctor", "--json").stdout) if one["check"] == "cluster"
    )
    return finding["state"], finding["text"], finding["advice"]


def test_doctor_counts_the_workers_and_tells_those_of_another_version(clustered, monkeypatch):
    state, text, _ = found(clustered)
    assert (state, text) == ("ok", "2 workers; 0 of another version")
    monkeypatch.setattr(executor, "code_digest", lambda: "another")
    state, text, advice = found(clustered)
    assert (state, text) == ("broken", "no worker; 2 of another version")
    assert "with this controller's version" in advice


def test_doctor_says_that_a_scheduler_is_gone_or_does_not_know_the_certificate(
    clustered, cluster, tmp_path, monkeypatch
):
    monkeypatch.setattr(executor, "_CONNECT", 2.0)
    stranger = write_member(
        tmp_path / "foreign", new_authority("cluster.house.example", datetime.now(UTC)), "controller"
    )
    text = clustered.settings_file.read_text()
    for place, other in ((str(cluster.files), str(stranger)), (cluster.scheduler, "tls://127.0.0.1:9")):
        clustered.settings_file.write_text(text.replace(place, other))
        state, said, advice = found(clustered)
        assert state == "broken"
        assert "cannot be reached with this certificate" in said
        assert advice
    clustered.settings_file.write_text(text)


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
    for words in (("one", "--to", str(tmp_path / "one")), ("No Name",)):
        refused = run(own, "worker", "certificate", *words)
        assert isinstance(refused.exception, InvalidInputError)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*.pem")}
