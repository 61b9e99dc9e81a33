"""Requests of jobs, written from datasets, cards and settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan, nan
from pathlib import Path

from gencard.boxes.reference import ReferenceRecipe
from gencard.controller.jobs import tasks
from gencard.controller.records.catalogue import DatasetEntry
from gencard.controller.records.table_address import TableAddress, secret_of
from gencard.controller.sandbox.analyses import AnalysisRecipe
from gencard.controller.sandbox.boxes import Recipe
from gencard.core.audit.plan import AuditPlan
from gencard.core.card.privacy import AS_COUNTED, Privacy
from gencard.core.card.terms import CardTerms, Proposal
from gencard.core.coding import Coding, Edges
from gencard.core.derived_cells import computed_for, zeros_for
from gencard.core.domain import Clique
from gencard.core.program_outputs import Outputs
from gencard.core.statistics.linear import statistics_of
from gencard.measures.evaluation.evaluation import AllowedTogether, Evaluation, Need
from gencard.wire.black_box import Values
from gencard.wire.documents import Question


@dataclass(frozen=True, slots=True)
class Descriptions:
    """Writes the requests of jobs; the salt is the secret of the digests of records."""

    salt: bytes = field(repr=False)
    model_cells: int
    most_records: int = 2_000_000
    cluster: tasks.ClusterPart | None = None

    @property
    def workers(self) -> Mapping[str, str]:
        return self.cluster.workers if self.cluster else {}

    def measure(
        self,
        entry: DatasetEntry,
        version: str,
        terms: Proposal,
        before: tasks.Before = tasks.NOTHING_BEFORE,
    ) -> tasks.MeasureJob:
        """Describe a measurement of the card's version: records that changed since are not measured."""
        judged = bool(terms.sums) and not terms.privacy.noisy
        linear = tuple(statistics_of(terms.moments, entry.schema.coding))
        records, weights = self.records(entry, version), tuple(terms.weights)
        rules, beside = (entry.policy.sum_rules, before) if judged else (None, tasks.NOTHING_BEFORE)
        own = (terms.transform, terms.histograms, terms.sums)
        return tasks.MeasureJob(
            records, terms.marginals, linear, terms.privacy, weights, *own, rules, beside
        )

    def synthesise(
        self,
        entry: DatasetEntry,
        *,
        psi: bytes,
        card: CardTerms,
        rows: int,
        seed: int,
        rows_file: Path,
        fit: bytes = b"",
        keep: bool = False,
    ) -> tasks.SynthesisJob:
        """Describe a fit to psi; of the dataset, only the cells that cannot occur are named."""
        coding, generator = entry.schema.coding, card.terms.generator
        digest = card.generator_digest
        zeros, computed = tuple(zeros_for(card, coding)), computed_for(card, coding)
        cells = self.model_cells
        return tasks.SynthesisJob(
            psi, generator, zeros, computed, rows, seed, cells, rows_file, fit, keep, digest
        )

    def audit(
        self,
        entry: DatasetEntry,
        version: str,
        recipe: Recipe,
        plan: AuditPlan,
        versions: Sequence[tuple[str, str]],
        *,
        journal: Path,
        workers: Mapping[str, str] | None = None,
    ) -> tasks.AuditJob:
        """Describe an audit; its runs are kept in ``journal``, and none of them is made again."""
        cluster = replace(self.cluster, workers=dict(workers)) if self.cluster and workers else None
        records, whole = self.records(entry, version), self.whole(recipe, entry)
        return tasks.AuditJob(records, whole, plan, tuple(versions), journal, cluster)

    def compare(
        self,
        entry: DatasetEntry,
        measures: Sequence[Evaluation],
        *,
        rows_file: Path,
        psi: bytes,
        card: CardTerms,
        seed: int,
    ) -> tasks.CompareJob:
        """Records and holdout are named only if an evaluation reads them."""
        needs = {need for measure in measures for need in measure.needs}
        policy, holdout = entry.policy, entry.holdout
        records = other = None
        if Need.RECORDS in needs:
            records = self.records(entry, card.version)
        if Need.HOLDOUT in needs and holdout is not None:
            other = self.records(replace(entry, data=holdout.data), holdout.version)
        names, cliques = tuple(measure.name for measure in measures), card.terms.marginals
        order = policy.measuring(noisy=False).largest_order
        together = AllowedTogether(tuple(policy.forbidden), order)
        facts = (entry.schema, entry.declared, together)
        return tasks.CompareJob(
            rows_file, names, psi, cliques, *facts, seed, records, other, card.derivations
        )

    def answer(
        self,
        entry: DatasetEntry,
        version: str,
        question: Question,
        *,
        privacy: Privacy | None,
        numbers: int,
        before: tasks.Before,
    ) -> tasks.AnswerJob:
        """Describe one checked run, which is judged with all earlier disclosures of the same records."""
        records, rules = self.records(entry, version), entry.run_rules
        stored = entry.policy.analyses.stored
        return tasks.AnswerJob(records, question, privacy, numbers, before, rules, stored)

    def look(
        self,
        entry: DatasetEntry,
        cliques: Sequence[Clique],
        own: Proposal | None = None,
        *,
        histograms: Clique = (),
        before: tasks.Before = tasks.NOTHING_BEFORE,
        with_step: Clique = (),
    ) -> tasks.RiskJob:
        """Describe a look at the risk of tables of the present records; see ``RiskJob``."""
        version, limit = entry.version, entry.run_rules.influence
        records, marginals = self.records(entry, version), own.marginals if own else ()
        transform = AS_COUNTED if own is None else own.transform
        has_numbers = own is not None and own.numbers
        numbers = self.measure(entry, version, own, before) if own and has_numbers else None
        return tasks.RiskJob(
            records, tuple(cliques), marginals, transform, histograms, numbers, with_step, limit
        )

    def run_black_box(
        self, entry: DatasetEntry, recipe: Recipe, *, upload: Path, rows: int, seed: int, rows_file: Path
    ) -> tasks.BlackBoxJob:
        """Describe a lent run; the upload is a rows file over the attributes that the card names."""
        whole, errors_file = self.whole(recipe, entry), rows_file.with_name("errors")
        return tasks.BlackBoxJob(whole, upload, rows, seed, rows_file, errors_file)

    def program(
        self,
        entry: DatasetEntry,
        version: str,
        recipe: AnalysisRecipe,
        *,
        terms: Proposal,
        agreed: Outputs,
        seed: int,
        rows_file: Path,
        drawing_seed: int,
    ) -> tuple[tasks.RehearsalJob, tasks.ProgramJob]:
        """Return a program's two jobs: on the rows of a release, and on the same attributes' records."""
        analyses, domain = terms.analyses, entry.domain
        program = tasks.ProgramPart(
            recipe, agreed, analyses.program_numbers, seed, tuple(analyses.columns)
        )
        attributes = domain.covered_by(terms.cliques).attributes
        return (
            tasks.RehearsalJob(program, rows_file, entry.schema, drawing_seed),
            tasks.ProgramJob(program, self.records(entry, version), attributes),
        )

    def records(self, entry: DatasetEntry, version: str) -> tasks.RecordsSource:
        """Describe the records, of which a job reads this version or none."""
        place = entry.data
        secret = secret_of(place)  # read for each job: the password may be another by now
        where = (str(place), isinstance(place, TableAddress), entry.format, entry.schema)
        return tasks.RecordsSource(*where, version, self.salt, self.most_records, secret)

    def whole(self, recipe: Recipe, entry: DatasetEntry) -> Recipe:
        """Return the recipe with numbers for a sandbox, else with structural zeros and a bound."""
        coding = entry.schema.coding
        if isinstance(recipe, ReferenceRecipe):
            return replace(recipe, zeros=coding.structural_zeros, max_cells=self.model_cells)
        values = {
            name: tuple(None if isnan(value) else value for value in row)
            for name, row in values_of(coding).items()
        }
        return replace(recipe, values=values)


def values_of(coding: Coding) -> Values:
    """Middles of intervals, ordered whole numbers themselves, and the ranks of other ordered labels.

    NaN stands for missing; attributes without order are not there.
    """
    values: dict[str, tuple[float, ...]] = {}
    for name, levels in ((one.name, one.coding) for one in coding.attributes):
        missing = (nan,) * levels.missing
        if isinstance(levels, Edges):
            values[name] = (*levels.midpoints, *missing)
        elif levels.ordered:
            numbers = map(float, levels.labels if levels.integer else range(len(levels.labels)))
            values[name] = (*numbers, *missing)
    return values
