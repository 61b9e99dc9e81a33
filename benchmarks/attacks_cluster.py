"""Attacks of lines C11 and C12: whoever holds the key of a worker against the controller and its audits.

Each attacker is a worker with a valid certificate, over TLS on loopback, that answers the orders of a
real audit of a box which copies its records. The audit repeats runs as a controller does. A lie succeeds
if the audit ends in "no evidence"; it makes the same rows as a box that uses only Phi.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import numpy as np

from benchmarks.attack import Attack, Outcome
from gencard.boxes.reference import ReferenceKind, ReferenceRecipe
from gencard.controller.base.listening import worker_host
from gencard.controller.jobs.black_boxes import JournaledBox, RepeatedBox
from gencard.controller.jobs.cluster.executor import cluster_box, examined
from gencard.controller.jobs.tasks import ClusterPart
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import Verdict, WorkerRuns
from gencard.core.audit.run import audit
from gencard.core.card.terms import AuditTerms
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import WorkerError
from gencard.v1 import worker_pb2, worker_pb2_grpc
from tests.system.clusters import Cluster, write_member
from tests.system.lying_workers import (
    Lie,
    OtherBox,
    Replay,
    Truth,
    lying_cluster,
    lying_worker,
    malformed,
)

_DOMAIN = Domain.of(dict.fromkeys("abcd", 3))
_RECORDS = Dataset(_DOMAIN, np.random.default_rng(1).integers(3, size=(300, 4)))
_CLIQUES = tuple(combinations(_DOMAIN.attributes, 2))
_HONEST = ReferenceRecipe(ReferenceKind.HONEST, "ipf", _CLIQUES, max_cells=10**6)
_COPIES = replace(_HONEST, kind=ReferenceKind.COPIES_ROWS, share=1.0)
_RUNS = 10
_REPEATED = 0.1
_SIDES = 5
"""Sides of an audit in which nothing can be planted, as here; 7 otherwise."""


@contextmanager
def _folder() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        yield Path(name)


def _verdict(part: ClusterPart, folder: Path, seed: int) -> Verdict:
    box = cluster_box(_COPIES, replace(part, repeated=_REPEATED))
    (folder / "journal").mkdir()
    journal = JournaledBox(box, folder / "journal", lambda seed: box.performers.get(seed, ""))
    plan = AuditPlan(_CLIQUES, 300, seed, AuditTerms(_RUNS, 3, "0.05"))
    return audit(RepeatedBox(journal, box.here, _REPEATED), _RECORDS, plan).verdict


def _lied(lies: list[Callable[[Path], Lie]]) -> Outcome:
    """Audits, each by a worker with another lie: how many end in "no evidence"."""
    passed, found, leakage = 0, 0, 0
    for seed, lie in enumerate(lies):
        with _folder() as folder, lying_cluster(folder / "cluster", lie(folder)) as job:
            try:
                verdict = _verdict(job, folder, seed)
            except WorkerError:
                found += 1
            else:
                passed += verdict is Verdict.NO_EVIDENCE
                leakage += verdict is Verdict.LEAKAGE
    return Outcome(passed, len(lies), f"{found} name the worker, {leakage} find the leak")


def _code(_quick: bool) -> Outcome:
    """Answers that are pickled, or of another form: accepted, or executed on the controller."""
    executed, accepted, names = 0, 0, list(malformed(Path()))
    for name in names:
        with _folder() as folder, lying_cluster(folder / "c", malformed(folder)[name]) as job:
            try:
                next(cluster_box(_HONEST, job).runs_by_seed(_RECORDS, 50, seeds=[1]))
                accepted += 1
            except WorkerError:
                pass
            executed += (folder / "whole").exists() or (folder / "inside").exists()
    return Outcome(executed + accepted, len(names), f"{len(names) - accepted} name the worker")


def _honest_rows(quick: bool) -> Outcome:
    return _lied([lambda _: OtherBox(_HONEST)] * (3 if quick else 20))


def _one_answer(quick: bool) -> Outcome:
    lies: list[Callable[[Path], Lie]] = [lambda _: Replay(bound=False), lambda _: Replay(bound=True)]
    return _lied(lies * (2 if quick else 10))


def _other_audit(quick: bool) -> Outcome:
    """Answers to the same run, of the same box and dataset, in another audit."""
    accepted, tries = 0, 2 if quick else 10
    for _ in range(tries):
        truth = Truth()
        with _folder() as folder, lying_cluster(folder / "one", truth) as job:
            next(cluster_box(_HONEST, job).runs_by_seed(_RECORDS, 50, seeds=[1]))
        answer = truth.answer(truth.orders[0].SerializeToString())
        with _folder() as folder, lying_cluster(folder / "two", lambda _: [answer]) as job:  # noqa: B023 - used in the loop
            try:
                next(cluster_box(_HONEST, job).runs_by_seed(_RECORDS, 50, seeds=[1]))
                accepted += 1
            except WorkerError:
                pass
    return Outcome(accepted, tries, f"{tries - accepted} name the worker")


def _false_runs(false: int) -> Callable[[bool], Outcome]:
    """Honest rows in so many runs of each side, the others as the box makes them."""

    def run(quick: bool) -> Outcome:
        lie = _HONEST
        return _lied(
            [lambda _: OtherBox(lie, lambda order: order % _RUNS < false)] * (3 if quick else 20)
        )

    return run


def _unfound(false: int) -> float:
    """Probability that the draws on all sides find none of the false runs."""
    return (1.0 - WorkerRuns(0, 0, 1, 1).probability(false, _RUNS)) ** _SIDES


def _other_members(_quick: bool) -> Outcome:
    """A worker's key opens another worker, or answers in its name."""
    answered, tries = 0, 0
    with _folder() as folder, Cluster(folder / "c") as cluster:
        thief = write_member(folder / "thief", cluster.authority, "thief")
        pair = [(thief / file).read_bytes() for file in ("key.pem", "certificate.pem")]
        with lying_worker(folder, cluster.authority, Truth(), name="w1") as address:
            # the server of the tests lets every client in that TLS lets in
            credentials = grpc.ssl_channel_credentials(cluster.authority.certificate_pem, *pair)
            options = [("grpc.ssl_target_name_override", worker_host("w1"))]
            with grpc.secure_channel(address, credentials, options) as channel:
                tries += 1
                stub = worker_pb2_grpc.WorkerServiceStub(channel)
                try:
                    stub.DescribeWorker(worker_pb2.DescribeWorkerRequest(), timeout=5)
                    answered += 1
                except grpc.RpcError:
                    pass
        with lying_worker(folder, cluster.authority, Truth(), name="w2") as address:
            tries += 1
            answered += examined({"w1": address}, cluster.files)["w1"] is not None
    return Outcome(answered, tries, "TLS refuses the connection")


ATTACKS: tuple[Attack, ...] = (
    Attack("C11", "an answer runs code, or is taken in another form", "1 of 1", 0.0, 10, _code),
    Attack(
        "C11", "a worker's key opens another worker, or takes its name", "1 of 1", 0.0, 2, _other_members
    ),
    Attack("C12", "honest rows for a copying box", "1 of 1", 0.0, 3, _honest_rows),
    Attack("C12", "one answer for all runs", "1 of 1", 0.0, 4, _one_answer),
    Attack("C12", "answers of another audit", "not tried", 0.0, 2, _other_audit),
    *(
        Attack(
            "C12",
            f"honest rows in {false} of {_RUNS} runs of each side",
            "not tried",
            _unfound(false),
            3,
            _false_runs(false),
        )
        for false in (1, 3, 7)
    ),
)
