"""Workers of a cluster perform runs of audits, the same to the byte; strangers are not listened to."""

import os
import pickle
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

from gencard.controller.cluster.executor import (
    ClusterAccess,
    ClusterExecutor,
    cluster_box,
    connected,
    examined,
    perform,
)
from gencard.controller.cluster.orders import Bounds, OrderBook
from gencard.controller.jobs.synthesis import box_of
from gencard.controller.people.certificates import issue, issue_member, new_authority, write_new
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.sandbox.recipes import carried, in_sandbox, program_recipe
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.run import audit
from gencard.core.card.terms import AuditTerms
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import ClusterError
from tests.system.clusters import Cluster, processes_below
from tests.system.raw_calls import eventually
from tests.system.sandboxes import needs_sandbox

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
