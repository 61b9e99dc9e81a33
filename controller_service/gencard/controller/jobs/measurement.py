"""The task that measures psi, and opening the records for the tasks that need them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gencard.controller.jobs.tasks import Before, MeasureJob, MeasureResult, RecordsSource
from gencard.controller.records.source import NOT_COVERED
from gencard.controller.records.table_address import TableAddress
from gencard.controller.records.vault import RecordSource, open_source
from gencard.core.card.privacy import AS_COUNTED, Noise, Privacy, Transform
from gencard.core.card.sums import Histogram, Sum
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import MeasurementRefusedError, RecordsProtectedError
from gencard.core.statistics import measure as door
from gencard.core.statistics.linear import Statistic
from gencard.core.statistics.psi import Psi
from gencard.core.types import FloatArray, Progress
from gencard.wire.psi import psi_document

if TYPE_CHECKING:
    from gencard.analysis.output_checks.card_sums import JudgedSum
    from gencard.controller.earlier import Earlier


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

    runs = tuple(RunQuestion.of(one.question, coding, one.rules) for one in before.earlier)
    refused = tuple(Population.of(one.question, coding, one.rules) for one in before.refused)
    numbers = (before.rounded, before.histograms, before.sums)
    return Earlier(coding, runs, before.released, refused, *numbers)


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
    noise = _noise() if privacy.noisy else None
    with opened(records) as source:
        return door.measure(
            source,
            statistics,
            source.coding.domain,
            privacy,
            noise=noise,
            weights=weights,
            transform=transform,
            zeros=source.coding.structural_zeros,
        )


def records_over(cliques: Iterable[Clique], records: RecordsSource) -> Dataset:
    return records_as_stored(cliques, (), records)[0]


def records_as_stored(
    cliques: Iterable[Clique], uncoded: Clique, records: RecordsSource
) -> tuple[Dataset, dict[str, FloatArray]]:
    """Return the records over the attributes of some cliques, and some numbers without their coding."""
    with opened(records) as source:
        if not source.covers_values and not {*uncoded} <= {*source.coding.with_step}:
            raise RecordsProtectedError(what="The numbers as stored", why=NOT_COVERED)
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


def _noise() -> Noise:
    from gencard.controller.noise import OpenDpNoise  # noqa: PLC0415 - the import of OpenDP is slow

    return OpenDpNoise()
