"""S68: audits of a served controller whose runs are performed in sandboxes on workers of a cluster."""

import json
import shutil
import signal
import sys
import time
from datetime import UTC, datetime
from itertools import combinations

import pytest
from cryptography import x509
from typer.testing import CliRunner

from gencard.client.connection.connection import cancel
from gencard.controller.cluster import executor
from gencard.controller.jobs import process
from gencard.controller.people.certificates import new_authority
from gencard.controller.shell.main import app
from gencard.core.card.terms import AuditTerms
from gencard.core.errors import InvalidInputError
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
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.add(2)
        yield cluster


@pytest.fixture(scope="module")
def hold(tmp_path_factory):
    """Audits wait beyond ``BEYOND`` runs for as long as it is there."""
    return tmp_path_factory.mktemp("hold") / "hold"


@pytest.fixture(scope="module")
def house(tmp_path_factory, hold):
    """A controller with programs of authors, not yet started, and without a cluster."""
    worker = (sys.executable, "-I", held_worker.__file__, str(hold), str(BEYOND))
    with known_seeds(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_COMMAND", worker)
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
