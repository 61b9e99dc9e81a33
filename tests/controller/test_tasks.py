"""Tasks of jobs, without a process around them; and their ends as a worker reports them."""

import io
import resource
import subprocess
import sys
import tempfile
from dataclasses import fields, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gencard.boxes.reference import Honest, ReferenceKind, ReferenceRecipe
from gencard.controller.jobs import black_boxes, tasks, worker
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.jobs.process import (
    Crashed,
    Done,
    Failed,
    Reported,
    packed,
    read_frame,
    received,
    unpacked,
)
from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.records.catalogue import DatasetEntry
from gencard.controller.records.schema_file import PublicSchema
from gencard.controller.records.vault import Vault
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import AuditReport, Verdict
from gencard.core.audit.run import audit
from gencard.core.audit.wording import report_to_json_object
from gencard.core.card.budget import Price
from gencard.core.card.terms import AuditTerms, CardTerms, Proposal
from gencard.core.coding import Attribute, Coding, Edges, Labels, StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.errors import (
    BlackBoxError,
    DatasetChangedError,
    DatasetUnavailableError,
    InvalidInputError,
    JobLimitError,
    StorageError,
    TooManyRecordsError,
    UndeclaredLevelError,
)
from gencard.core.generators import model_file
from gencard.core.generators.contract import synthesise
from gencard.core.generators.family import ipf
from gencard.core.policy import Policy
from gencard.core.statistics.measure import measure_dataset
from gencard.wire.psi import psi_document, psi_of_document
from tests.wire import samples

SALT = b"salt"
CODING = Coding(
    (
        Attribute("sex", Labels(("f", "m"))),
        Attribute("age", Edges((0.0, 18.0, 65.0, 120.0), missing=True)),
        Attribute("marital", Labels(("single", "married", "widowed"))),
    ),
    (StructuralZeros(("age", "marital"), ((0, 1), (0, 2))),),
)
SINGLES = tuple((name,) for name in CODING.domain.attributes)
PAIRS = tuple(combinations(CODING.domain.attributes, 2))
TERMS = Proposal("datasets/survey", "to see", PAIRS, "ipf", 100)
POLICY = Policy(3, 1000, 10, 1000, ("ipf",), Price(statistics=100))
WRITE = Descriptions(SALT, model_cells=1000, most_records=100)


@pytest.fixture
def dataset_entry(tmp_path: Path, request: pytest.FixtureRequest) -> DatasetEntry:
    rng = np.random.default_rng(1)
    age = rng.choice([5.0, 30.0, 70.0, np.nan], size=90)
    marital = np.where(age == 5, "single", rng.choice(["single", "married", "widowed"], size=90))
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], size=90), "age": age, "marital": marital})
    if getattr(request, "param", "file") == "folder":
        path = tmp_path / "records"
        path.mkdir()
        frame[:40].to_parquet(path / "0.parquet")
        frame[40:].to_parquet(path / "1.parquet")
    else:
        path = tmp_path / "records.csv"
        frame.to_csv(path, index=False)
    schema = PublicSchema("t", "d", "b", True, CODING)
    version = Vault(path, CODING).version(SALT)
    return DatasetEntry("datasets/survey", schema, POLICY, path, version, version)


def records(dataset_entry: DatasetEntry) -> Dataset:
    return Vault(dataset_entry.data, CODING).dataset(CODING.domain.attributes, most_records=90)


def run(task, job):
    """The job as it goes over the pipe, and its result as it comes back."""
    told = []
    result = task.run(unpacked(packed(Done(), job))[1], lambda *what: told.append(what))
    assert all(0 <= share <= 1 for _, share in told)
    return received(task, packed(Done(), result))[1]


FILE_AND_FOLDER = pytest.mark.parametrize("dataset_entry", ["file", "folder"], indirect=True)


class TestMeasure:
    @FILE_AND_FOLDER
    def test_it_gives_psi_of_the_records(self, dataset_entry):
        psi = run(tasks.MEASURE, WRITE.measure(dataset_entry, dataset_entry.version, TERMS)).psi
        assert psi == psi_document(measure_dataset(records(dataset_entry), PAIRS))
        assert psi_of_document(psi).cliques == PAIRS

    def test_another_version_is_refused(self, dataset_entry):
        job = WRITE.measure(dataset_entry, dataset_entry.version, TERMS)
        dataset_entry.data.write_text("sex,age,marital\nf,30,single\n")
        with pytest.raises(DatasetChangedError):
            run(tasks.MEASURE, job)

    def test_records_that_change_meanwhile_are_refused(self, dataset_entry, monkeypatch):
        count = Vault.count

        def count_and_change(self, cliques):
            tables = count(self, cliques)
            dataset_entry.data.write_text("sex,age,marital\nf,30,single\n")
            return tables

        monkeypatch.setattr(Vault, "count", count_and_change)
        with pytest.raises(DatasetChangedError):
            run(tasks.MEASURE, WRITE.measure(dataset_entry, dataset_entry.version, TERMS))

    def test_records_that_vanish_meanwhile_are_refused(self, dataset_entry, monkeypatch):
        count = Vault.count

        def count_and_remove(self, cliques):
            dataset_entry.data.unlink()
            return count(self, cliques)

        monkeypatch.setattr(Vault, "count", count_and_remove)
        with pytest.raises(DatasetUnavailableError):
            run(tasks.MEASURE, WRITE.measure(dataset_entry, dataset_entry.version, TERMS))

    def test_the_salt_is_not_shown(self):
        assert "salt" not in repr(WRITE)

    def test_a_job_does_not_show_salt_and_password(self, dataset_entry):
        job = WRITE.measure(dataset_entry, dataset_entry.version, TERMS)
        shown = repr(
            replace(job, records=replace(job.records, salt=b"of-the-digests", secret="of-the-table"))
        )
        assert "of-the-" not in shown


class TestSynthesise:
    def card(self, generator: str = "ipf") -> CardTerms:
        terms = Proposal("datasets/t", "to see", PAIRS, generator, 500)
        return replace(samples.CARD, terms=terms)

    def job(self, dataset_entry: DatasetEntry, folder: Path, **changes) -> tasks.SynthesisJob:
        psi = psi_document(measure_dataset(records(dataset_entry), PAIRS))
        arguments = {
            "psi": psi,
            "card": self.card(),
            "rows": 500,
            "seed": 7,
            "rows_file": folder / "rows",
        }
        return WRITE.synthesise(dataset_entry, **arguments | changes)

    def test_rows_are_those_of_a_replay(self, dataset_entry, tmp_path):
        digest = run(tasks.SYNTHESISE, self.job(dataset_entry, tmp_path)).digest
        made = RowsFile(tmp_path / "rows").dataset()
        psi = measure_dataset(records(dataset_entry), PAIRS)
        replayed = synthesise(ipf(CODING.structural_zeros), psi, psi.domain, 500, 7)
        assert made.digest() == digest == replayed.digest()

    def test_a_kept_fit_gives_the_same_rows_and_psi_is_not_fitted_again(self, dataset_entry, tmp_path):
        first = run(tasks.SYNTHESISE, self.job(dataset_entry, tmp_path, keep=True))
        assert run(tasks.SYNTHESISE, self.job(dataset_entry, tmp_path)).fit == b""
        again = self.job(dataset_entry, tmp_path, fit=first.fit, psi=b"no psi")
        assert run(tasks.SYNTHESISE, again) == replace(first, fit=b"")

    def test_a_fit_that_is_too_large_is_not_kept(self, dataset_entry, tmp_path, monkeypatch):
        monkeypatch.setattr(model_file, "MOST_BYTES_OF_FIT", 100)
        made = run(tasks.SYNTHESISE, self.job(dataset_entry, tmp_path, keep=True))
        assert made.digest
        assert made.fit == b""

    def test_what_cannot_occur_does_not(self, dataset_entry, tmp_path):
        psi = psi_document(
            measure_dataset(records(dataset_entry), [(name,) for name in CODING.domain.attributes])
        )
        run(tasks.SYNTHESISE, self.job(dataset_entry, tmp_path, psi=psi))
        made = RowsFile(tmp_path / "rows").dataset()
        assert not np.any((made.column("age") == 0) & (made.column("marital") > 0))

    def test_zeros_of_other_attributes_do_not_matter(self, dataset_entry, tmp_path):
        psi = psi_document(measure_dataset(records(dataset_entry), [("sex", "age")]))
        run(tasks.SYNTHESISE, self.job(dataset_entry, tmp_path, psi=psi))
        assert RowsFile(tmp_path / "rows").dataset().domain.attributes == ("sex", "age")

    def test_an_unknown_generator_is_refused(self, dataset_entry, tmp_path):
        with pytest.raises(InvalidInputError):
            run(tasks.SYNTHESISE, self.job(dataset_entry, tmp_path, card=self.card("none")))

    def test_it_knows_psi_and_nothing_else_of_the_records(self, dataset_entry, tmp_path):
        job = self.job(dataset_entry, tmp_path)
        names = {"psi", "generator", "zeros", "computed", "rows", "seed", "max_cells", "rows_file"}
        names |= {"fit", "keep", "generator_digest"}  # a fit to psi, and the version that made it
        assert {one.name for one in fields(job)} == names
        assert str(dataset_entry.data).encode() not in packed(Done(), job)


def _without_digests(report: AuditReport) -> dict[str, object]:
    return {name: value for name, value in report_to_json_object(report).items() if name != "pairs"}


class TestAudit:
    PLAN = AuditPlan(cliques=PAIRS, rows=90, seed=2**64 - 1, terms=AuditTerms(runs=6, order=3))

    def job(self, dataset_entry: DatasetEntry, **changes) -> tasks.AuditJob:
        recipe = replace(ReferenceRecipe(ReferenceKind.HONEST, "ipf", PAIRS), **changes)
        versions = (("gencard", "1"),)
        journal = Path(tempfile.mkdtemp(dir=dataset_entry.data.parent))
        return WRITE.audit(
            dataset_entry, dataset_entry.version, recipe, self.PLAN, versions, journal=journal
        )

    @FILE_AND_FOLDER
    def test_the_report_is_that_of_an_audit_of_the_records(self, dataset_entry):
        report = run(tasks.AUDIT, self.job(dataset_entry)).report
        box = Honest(ipf(CODING.structural_zeros), PAIRS)
        expected = audit(box, records(dataset_entry), self.PLAN, versions=(("gencard", "1"),))
        assert _without_digests(report) == _without_digests(expected)
        for proof in report.pairs:  # keyed: another report of the same audit has other digests
            assert proof.original == proof.low == proof.high
        assert report.records == 90
        assert report.versions == (("gencard", "1"),)

    def test_a_box_that_knows_too_much_is_built_as_described(self, dataset_entry):
        kind = ReferenceKind.ADDS_MARGINAL
        job = self.job(dataset_entry, kind=kind, extra=CODING.domain.attributes)
        report = run(tasks.AUDIT, job).report
        assert report.verdict is Verdict.LEAKAGE

    @FILE_AND_FOLDER
    def test_more_records_than_the_bound_are_refused(self, dataset_entry):
        job = self.job(dataset_entry)
        few = replace(job, records=replace(job.records, most_records=89))
        with pytest.raises(TooManyRecordsError, match="more than 89 records"):
            run(tasks.AUDIT, few)

    def test_s34_however_a_box_fails_it_is_told_in_the_same_words(self, dataset_entry, monkeypatch):
        def failing(error):
            def box(dataset, rows, *, seed):
                raise error

            return box

        ends = [BlackBoxError(problem="its answer is longer"), JobLimitError(what="memory"), KeyError(0)]
        told = set()
        for end in ends:
            monkeypatch.setattr(black_boxes, "box_of", lambda _, end=end: failing(end))
            with pytest.raises(BlackBoxError) as caught:
                run(tasks.AUDIT, self.job(dataset_entry))
            told.add(str(caught.value))
        assert len(told) == 1

    def test_another_version_is_refused(self, dataset_entry):
        job = self.job(dataset_entry)
        dataset_entry.data.write_text("sex,age,marital\nf,30,single\n")
        with pytest.raises(DatasetChangedError):
            run(tasks.AUDIT, job)


def test_s34_jobs_at_records_and_lent_jobs_are_marked():
    """By these marks the executor keeps the two kinds apart."""
    at_records = {task.name for task in tasks.TASKS.values() if task.at_records}
    lent = {task.name for task in tasks.TASKS.values() if task.lent}
    assert at_records == {
            "measure", "audit", "compare", "thin_out", "keep", "draw", "look", "answer", "run_once"
        }  # fmt: skip
    assert lent == {"run_black_box", "rehearse"}


class TestRunBlackBox:
    def box(self, dataset_entry: DatasetEntry, folder: Path, **recipe) -> Dataset:
        RowsFile(folder / "upload").write(records(dataset_entry))
        job = WRITE.run_black_box(
            dataset_entry,
            replace(ReferenceRecipe(ReferenceKind.HONEST, "ipf", SINGLES), **recipe),
            upload=folder / "upload",
            rows=200,
            seed=3,
            rows_file=folder / "made",
        )
        digest = run(tasks.RUN_BLACK_BOX, job).digest
        made = RowsFile(folder / "made").dataset()
        assert made.digest() == digest
        return made

    @pytest.mark.parametrize(
        "recipe",
        [
            {},
            {"kind": ReferenceKind.ADDS_MARGINAL, "extra": ("sex", "age", "marital")},
            {"kind": ReferenceKind.COPIES_ROWS, "share": 0.5},
        ],
    )
    def test_each_kind_gives_rows_over_the_same_domain(self, dataset_entry, tmp_path, recipe):
        made = self.box(dataset_entry, tmp_path, **recipe)
        assert made.domain == CODING.domain
        assert len(made) == 200

    def test_s30_the_order_of_rows_is_the_controllers_own(self, dataset_entry, tmp_path):
        one, two = (self.box(dataset_entry, tmp_path) for _ in range(2))
        assert one.digest() != two.digest()
        assert sorted(map(tuple, one.codes.tolist())) == sorted(map(tuple, two.codes.tolist()))

    def test_a_box_that_leaves_the_domain_is_refused(self, dataset_entry, tmp_path):
        with pytest.raises(BlackBoxError):
            self.box(dataset_entry, tmp_path, cliques=(("sex",),))

    @pytest.mark.parametrize("kind", [ReferenceKind.ADDS_MARGINAL, ReferenceKind.COPIES_ROWS])
    def test_a_kind_without_its_own_field_is_refused(self, kind):
        with pytest.raises(InvalidInputError):
            ReferenceRecipe(kind, "ipf", SINGLES)

    def test_a_missing_upload_is_a_storage_error(self, dataset_entry, tmp_path):
        recipe, absent = ReferenceRecipe(ReferenceKind.HONEST, "ipf", SINGLES), tmp_path / "absent"
        with pytest.raises(StorageError):
            run(tasks.RUN_BLACK_BOX, tasks.BlackBoxJob(recipe, absent, 1, 1, absent, absent))


class TestEnds:
    def ended(self, work):
        """Return the end of the work in a worker, and the progress that it writes."""
        channel = io.BytesIO()
        ending = worker.ended(work, worker.Reporter(channel))
        channel.seek(0)
        return ending, list(iter(lambda: read_frame(channel), None))

    def test_a_result(self):
        assert self.ended(lambda progress: {"x": 1}) == ((Done(), {"x": 1}), [])

    def test_a_typed_error_is_reason_and_fields(self):
        def refuse(progress):
            raise UndeclaredLevelError(attribute="sex")

        ending, _ = self.ended(refuse)
        assert ending == (Failed("UNDECLARED_LEVEL", {"attribute": "sex"}), None)

    def test_want_of_memory_is_a_limit(self):
        ending, _ = self.ended(lambda progress: np.empty(2**50))
        assert ending == (Failed("JOB_LIMIT", {"what": "memory"}), None)

    def test_anything_else_is_a_class_and_a_place(self):
        (ending, _), _ = self.ended(lambda progress: {}["CANARY"])
        assert isinstance(ending, Crashed)
        assert ending.kind == "KeyError"
        assert ending.where.startswith("test_tasks.py:")
        assert b"CANARY" not in packed(ending)

    def test_progress_is_reported_in_hundredths(self):
        def count(progress):
            for step in range(100_000):
                progress("count", step / 100_000)
            progress("done", 1.0)

        _, frames = self.ended(count)
        replies = [received(tasks.KEEP, frame)[0] for frame in frames]
        assert len(replies) == 101
        assert replies[0] == Reported("count", 0.0)
        assert replies[-1] == Reported("done", 1.0)


_FULL_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from gencard.controller.jobs.synthesis import RowsFile
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import StorageError
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
dataset = Dataset(Domain.of({"a": 2}), np.zeros((100_000, 1), dtype=np.uint8))
try:
    RowsFile(Path(sys.argv[1]) / "rows").write(dataset)
except StorageError:
    print("refused")
"""


def test_a_disk_without_room_is_a_storage_error_and_leaves_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stdout == "refused\n"
    assert list(tmp_path.iterdir()) == []


def test_limits_are_set_for_good():
    code = (
        "from gencard.controller.jobs.worker import limit; import resource;"
        "limit(7, 2048); print([resource.getrlimit(kind) for kind in "
        "(resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_CORE)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([(7, 12), (2048 << 20, 2048 << 20), (0, 0)])
    assert resource.getrlimit(resource.RLIMIT_CPU) != (7, 12)
