"""Opening the records for tasks, and the tasks that measure psi and judge what would leave beside it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.jobs.tasks import (
    Before,
    CompareJob,
    CompareResult,
    FindingDocument,
    MeasureJob,
    MeasureResult,
    RecordsSource,
    RiskJob,
    RiskResult,
    RowsResult,
    ThinOutJob,
)
from gencard.controller.records.source import RecordSource, check_values
from gencard.controller.records.tables.address import TableAddress
from gencard.controller.records.vault import open_source
from gencard.core.card.privacy import AS_COUNTED, Noise, Privacy, Transform
from gencard.core.card.sums import Histogram, Sum, cell_names
from gencard.core.coding import Coding, Edges
from gencard.core.dataset import Dataset, NumbersOf
from gencard.core.domain import Clique
from gencard.core.errors import MeasurementRefusedError
from gencard.core.scale import Places
from gencard.core.statistics import measure as door
from gencard.core.statistics.linear import Statistic
from gencard.core.statistics.places import places_of
from gencard.core.statistics.psi import Psi
from gencard.core.types import FloatArray, IntArray, Progress
from gencard.run.levels import Numbers
from gencard.wire.documents.psi_document import psi_document, psi_of_document

if TYPE_CHECKING:
    from gencard.analysis.output_checks.card_sums import JudgedSum
    from gencard.controller.earlier import Earlier
    from gencard.measures.psi_risk.risk import FailingTable


def measure(job: MeasureJob, progress: Progress) -> MeasureResult:
    """Records -> psi; they are the version named before and after, or nothing leaves.

    Raises:
        MeasurementRefusedError: Exact counts fail a check of the card, or exact sums a rule.
    """
    progress("measure", 0.0)
    psi = measured(
        job.records,
        [*job.cliques, *job.linear, *map(Histogram, job.histograms), *job.sums],
        job.privacy,
        weights=job.weights,
        transform=job.transform,
    )
    if any(one.verdict.broken for one in judged(job)):
        raise MeasurementRefusedError
    return MeasureResult(psi_document(psi))


def earlier_of(before: Before, coding: Coding) -> "Earlier":
    from gencard.controller.earlier import Earlier  # noqa: PLC0415
    from gencard.controller.run_question import Population, RunQuestion  # noqa: PLC0415

    return Earlier(
        coding,
        tuple(RunQuestion.of(one.question, coding, one.rules) for one in before.earlier),
        before.released,
        tuple(Population.of(one.question, coding, one.rules) for one in before.refused),
        before.rounded,
        before.histograms,
        before.sums,
    )


def judged(job: MeasureJob) -> "tuple[JudgedSum, ...]":
    """Judge exact sums of a card on the records; empty if there are none."""
    if job.rules is None:
        return ()
    # These load pandas and scipy, for which most measurements need not wait.
    from gencard.analysis.output_checks.card_sums import NumberedRecords, judged_sums  # noqa: PLC0415

    records, coding = job.records, job.records.schema.coding
    earlier = earlier_of(job.before, coding)
    attributes = coding.domain.canonical(earlier.attributes_with_sums(job.sums, job.cliques))
    numbers = tuple(dict.fromkeys(name for one in job.sums for name in one.of))
    with opened(records) as source:
        most = records.most_records
        dataset, values, persons = source.read_owned(attributes, numbers, most_records=most)
    of_person = records.schema.most_records if persons is not None else 1
    numbered = NumberedRecords(coding, dataset, values, persons, of_person)
    beside = earlier.beside_sums(job.sums, numbered, job.cliques, job.histograms)
    return judged_sums(job.sums, numbered, job.rules, job.transform, beside)


def measured(
    records: RecordsSource,
    statistics: Sequence[Statistic | Histogram | Sum],
    privacy: Privacy,
    *,
    weights: Sequence[int] = (),
    transform: Transform = AS_COUNTED,
) -> Psi:
    """Return statistics of the records that a job describes, of the version that the job names."""
    with opened(records) as source:
        return door.measure(
            source,
            statistics,
            source.coding.domain,
            privacy,
            noise=_noise() if privacy.noisy else None,
            weights=weights,
            transform=transform,
            zeros=source.coding.structural_zeros,
        )


def _noise() -> Noise:
    """Import OpenDP only if noise is drawn, because the import is slow."""
    from gencard.controller.noise import OpenDpNoise  # noqa: PLC0415 - see above

    return OpenDpNoise()


def records_over(cliques: Iterable[Clique], records: RecordsSource) -> Dataset:
    return records_as_stored(cliques, (), records)[0]


def records_as_stored(
    cliques: Iterable[Clique], uncoded: Clique, records: RecordsSource
) -> tuple[Dataset, dict[str, FloatArray]]:
    """Return the records over the attributes of some cliques, and some numbers without their coding."""
    with opened(records) as source:
        check_values(source, uncoded)
        attributes = source.coding.domain.covered_by(cliques).attributes
        return source.read(attributes, uncoded, most_records=records.most_records)


@contextmanager
def opened(records: RecordsSource) -> Iterator[RecordSource]:
    """Open the records that a job describes; results are valid only once the context has ended.

    Raises:
        DatasetChangedError: The records are not the version that the job names, before or after.
    """
    schema, persons = records.schema, records.schema.persons(records.salt)
    place = TableAddress(records.data) if records.is_table else Path(records.data)
    with open_source(place, schema, records.format, persons, secret=records.secret) as source:
        source.confirm(records.version, records.salt)
        yield source
        source.confirm(records.version, records.salt)


# Evaluations, unique rows, the risk of psi. Each task loads its own measures, so that tasks that only
# open the records start without them.


def compare(job: CompareJob, progress: Progress) -> CompareResult:
    """Rows, psi and records -> findings, rounded; their numbers depend on records.

    An evaluation that is not possible at these records gives null, without a reason.
    """
    from gencard.measures.evaluation import evaluation, registry  # noqa: PLC0415

    progress("read", 0.0)
    rows = RowsFile(job.rows_file).dataset()
    attributes, coding, psi = rows.domain.attributes, job.schema.coding, psi_of_document(job.psi)
    original, holdout = (
        None if records is None else _read(records, attributes) for records in (job.records, job.holdout)
    )
    material = evaluation.Material(
        synthetic=rows,
        coding=coding.over(attributes),
        cliques=job.cliques,
        declared=job.declared,
        seed=job.seed,
        original=original,
        holdout=holdout,
        psi=psi,
        numbers=_numbers(job, rows, places_of(psi, coding)),
        together=job.together,
        schema=coding,
    )
    findings = []
    for place, name in enumerate(job.measures):
        progress(name, place / len(job.measures))
        finding = registry.evaluate(registry.evaluation_named(name), material)
        document = (
            None if finding is None else evaluation.finding_to_json_object(finding.rounded(material))
        )
        findings.append(FindingDocument(name, document))
    return CompareResult(tuple(findings))


def thin_out(job: ThinOutJob, progress: Progress) -> RowsResult:
    """Write drawn rows without replicated uniques to a file; their number is not disclosed."""
    from gencard.measures.privacy.uniques import unique_free  # noqa: PLC0415

    progress("uniques", 0.0)
    rows = RowsFile(job.drawn).dataset()
    original = _read(job.records, rows.domain.attributes)
    unique_free_rows = unique_free(original, rows, job.rows)
    RowsFile(job.rows_file).write(unique_free_rows)
    return RowsResult(unique_free_rows.digest())


def look(job: RiskJob, progress: Progress) -> RiskResult:
    """Records and cliques -> the risk of their exact tables, for stewards alone."""
    from gencard.measures.psi_risk import risk as measures  # noqa: PLC0415

    coding = job.records.schema.coding
    records = records_over(job.cliques, job.records)
    failing = measures.failing_tables(records, job.own, job.transform, coding)
    risk = measures.psi_risk(records, job.cliques, progress=progress)
    names = tuple(dict.fromkeys((*job.histograms, *job.with_step)))
    fine: dict[str, IntArray] = {}  # counts of the fine cells of attributes with a step
    if names:
        with opened(job.records) as source:
            fine = dict(zip(names, source.summed((), names).fine_counts(), strict=True))
    histograms = (measures.small_cells((name,), fine[name], risk.threshold) for name in job.histograms)
    own = () if job.numbers is None else _failing_numbers(job.numbers, fine, coding)
    tails = measures.long_tails(
        coding, {name: fine[name] for name in job.with_step}, len(records), job.influence
    )
    failing = (*failing, *own)
    return RiskResult(replace(risk, failing=failing, histograms=tuple(histograms), tails=tails))


def _failing_numbers(
    job: MeasureJob, fine: Mapping[str, IntArray], coding: Coding
) -> "Iterator[FailingTable]":
    """Histograms and sums of a card because of which its measurement would be refused."""
    from gencard.measures.psi_risk.risk import failing_counts, failing_table  # noqa: PLC0415

    for name in job.histograms:
        words = str(Histogram(name))
        cells = [cell_names(coding, name)]
        if table := failing_counts((name,), fine[name], job.transform, cells, statistic=words):
            yield table
    for one in judged(job):
        if one.verdict.broken:
            by = one.sum.by
            names = [coding.attribute(name).coding.level_names for name in by]
            rules = tuple(map(str, one.verdict.broken))
            yield failing_table(by, rules, one.fails, one.counts, names, str(one.sum))


def _numbers(job: CompareJob, rows: Dataset, places: Mapping[str, Places]) -> NumbersOf:
    """Numbers of rows as a release has them, drawn with the seed of the evaluations."""
    coding = job.schema.coding

    def numbers(name: str) -> FloatArray | None:
        edges = coding.attribute(name).coding
        if not isinstance(edges, Edges):
            return None
        stream = (
            Numbers.of_rows(job.seed, rows, coding, places)
            if job.derivations
            else Numbers(job.seed, places=places)
        )
        return stream.of(name, edges, rows.column(name))

    return numbers


def _read(records: RecordsSource, attributes: Clique) -> Dataset:
    with opened(records) as source:
        return source.dataset(attributes, most_records=records.most_records)
