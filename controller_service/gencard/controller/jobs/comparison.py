"""The tasks that look at what would leave beside the records: evaluations, unique rows, risk of psi."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gencard.controller.jobs import tasks
from gencard.controller.jobs.measurement import judged, opened, records_over
from gencard.controller.jobs.synthesis import RowsFile, left_in
from gencard.core.card.sums import Histogram, cell_names
from gencard.core.coding import Coding, Edges
from gencard.core.dataset import Dataset, NumbersOf
from gencard.core.domain import Clique
from gencard.core.scale import Places
from gencard.core.statistics.numbers import places_of
from gencard.core.types import FloatArray, IntArray, Progress
from gencard.measures.evaluation.evaluation import Material, finding_to_json_object
from gencard.measures.evaluation.registry import evaluate, evaluation_named
from gencard.measures.privacy.disclosure import unique_free
from gencard.measures.privacy.psi_risk import (
    FailingTable,
    failing_counts,
    failing_table,
    failing_tables,
    long_tails,
    psi_risk,
    small_cells,
)
from gencard.run.levels import Numbers
from gencard.wire.psi import psi_of_document


def compare(job: tasks.CompareJob, progress: Progress) -> tasks.CompareResult:
    """Rows, psi and records -> findings, rounded; their numbers depend on records.

    An evaluation that is not possible at these records gives null, without a reason.
    """
    progress("read", 0.0)
    rows = RowsFile(job.rows_file).dataset()
    attributes, coding, psi = rows.domain.attributes, job.schema.coding, psi_of_document(job.psi)
    original, holdout = (
        None if records is None else _read(records, attributes) for records in (job.records, job.holdout)
    )
    material = Material(
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
        finding = evaluate(evaluation_named(name), material)
        document = None if finding is None else finding_to_json_object(finding.rounded(material))
        findings.append(tasks.FindingDocument(name, document))
    return tasks.CompareResult(tuple(findings))


def thin_out(job: tasks.ThinOutJob, progress: Progress) -> tasks.RowsResult:
    """Write drawn rows without replicated uniques to a file; their number is not disclosed."""
    progress("uniques", 0.0)
    rows = RowsFile(job.drawn).dataset()
    original = _read(job.records, rows.domain.attributes)
    return left_in(job.rows_file, unique_free(original, rows, job.rows))


def look(job: tasks.RiskJob, progress: Progress) -> tasks.RiskResult:
    """Records and cliques -> the risk of their exact tables, for stewards alone."""
    coding = job.records.schema.coding
    records = records_over(job.cliques, job.records)
    failing = failing_tables(records, job.own, job.transform, coding)
    risk = psi_risk(records, job.cliques, progress=progress)
    names = tuple(dict.fromkeys((*job.histograms, *job.with_step)))
    fine: dict[str, IntArray] = {}  # counts of the fine cells of attributes with a step
    if names:
        with opened(job.records) as source:
            fine = dict(zip(names, source.summed((), names).fine_counts(), strict=True))
    histograms = (small_cells((name,), fine[name], risk.threshold) for name in job.histograms)
    own = () if job.numbers is None else _failing_numbers(job.numbers, fine, coding)
    tails = long_tails(coding, {name: fine[name] for name in job.with_step}, len(records), job.influence)
    failing = (*failing, *own)
    return tasks.RiskResult(replace(risk, failing=failing, histograms=tuple(histograms), tails=tails))


def _failing_numbers(
    job: tasks.MeasureJob, fine: Mapping[str, IntArray], coding: Coding
) -> Iterator[FailingTable]:
    """Histograms and sums of a card because of which its measurement would be refused."""
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


def _numbers(job: tasks.CompareJob, rows: Dataset, places: Mapping[str, Places]) -> NumbersOf:
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


def _read(records: tasks.RecordsSource, attributes: Clique) -> Dataset:
    with opened(records) as source:
        return source.dataset(attributes, most_records=records.most_records)
