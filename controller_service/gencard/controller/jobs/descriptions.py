"""Descriptions of jobs as JSON, in the form that ``tasks`` documents."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isnan, nan
from pathlib import Path
from typing import Any

from gencard.controller.jobs.tasks import Job
from gencard.controller.records.catalogue import DatasetEntry
from gencard.controller.records.schema_file import table_of_schema
from gencard.controller.records.tables.address import TableAddress
from gencard.controller.sandbox.recipes import PROGRAM
from gencard.core.audit.plan import AuditPlan
from gencard.core.card.mechanism import AS_COUNTED, Privacy, Transform
from gencard.core.card.terms import CardTerms, Proposal
from gencard.core.coding import Coding, Edges, Labels, StructuralZeros
from gencard.core.derived_cells import computed_for, zeros_for
from gencard.core.domain import Clique
from gencard.core.evaluation.evaluation import Evaluation, Need
from gencard.core.output_checks.populations import Rounded
from gencard.core.statistics.linear import LinearStatistic, statistics_of
from gencard.core.typed_json import PLAIN
from gencard.wire.box_request import Values
from gencard.wire.documents.answer_document import Question
from gencard.wire.documents.card_document import privacy_document, transform_document


@dataclass(frozen=True, slots=True)
class EndedQuestion:
    """Question of an earlier run, and how its condition is read.

    Args:
        rules: Version of the output rules under which it ended; "" if its condition means the same now.
    """

    question: Question
    rules: str = ""


@dataclass(frozen=True, slots=True)
class Descriptions:
    """Writes the descriptions of jobs.

    Args:
        salt: Secret of the digests of records.
        model_cells: Most cells of a model.
        most_records: Most records that a job holds in memory.
        cluster: Where runs of audits are performed; empty for the process of the job.
    """

    salt: bytes = field(repr=False)
    model_cells: int
    most_records: int = 2_000_000
    cluster: Mapping[str, Any] = field(default_factory=dict)

    @property
    def workers(self) -> Mapping[str, str]:
        """Address of each worker of the cluster, by its name."""
        workers: Mapping[str, str] = self.cluster.get("workers", {})
        return workers

    def measure(self, dataset_entry: DatasetEntry, version: str, terms: Proposal) -> Job:
        """The version is the card's: records that have changed since are not measured."""
        return {
            "records": self._records(dataset_entry, version),
            "cliques": [list(clique) for clique in terms.marginals],
            "privacy": privacy_document(terms.privacy),
            "weights": list(terms.weights),
            "transform": transform_document(terms.transform),
            "linear": PLAIN.write(
                tuple(statistics_of(terms.moments, dataset_entry.schema.coding)),
                tuple[LinearStatistic, ...],
            ),
        }

    def synthesise(
        self,
        dataset_entry: DatasetEntry,
        *,
        psi: bytes,
        card: CardTerms,
        rows: int,
        seed: int,
        rows_file: Path,
    ) -> Job:
        """Nothing of the dataset but what cannot occur in it; psi is all that the job knows."""
        coding = dataset_entry.schema.coding
        return {
            "psi": psi.decode(),
            "generator": card.terms.generator,
            "zeros": _zeros(zeros_for(card, coding)),
            "computed": _computed(card, coding),
            "rows": rows,
            "seed": seed,
            "max_cells": self.model_cells,
            "rows_file": str(rows_file),
        }

    def audit(
        self,
        dataset_entry: DatasetEntry,
        version: str,
        recipe: Mapping[str, Any],
        plan: AuditPlan,
        versions: Sequence[tuple[str, str]],
        *,
        journal: Path,
        workers: Mapping[str, str] | None = None,
    ) -> Job:
        """What its runs leave lies in ``journal``, and is not made again.

        Args:
            workers: Address of each worker of the cluster that may perform runs, by its name.
        """
        return {
            "records": self._records(dataset_entry, version),
            "recipe": whole_recipe(recipe, dataset_entry, self.model_cells),
            "plan": PLAIN.write(plan),
            "versions": [list(pair) for pair in versions],
            "most_records": self.most_records,
            "journal": str(journal),
            **({"cluster": {**self.cluster, "workers": dict(workers)}} if workers else {}),
        }

    def compare(
        self,
        dataset_entry: DatasetEntry,
        version: str,
        measures: Sequence[Evaluation],
        rows: Mapping[str, Any],
    ) -> Job:
        """Records and holdout are named only where a measure looks at them.

        Args:
            rows: What the job says of the rows: their file, psi, Phi, seed.
        """
        needs = {need for measure in measures for need in measure.needs}
        described: Job = {
            **rows,
            "forbidden": [list(clique) for clique in dataset_entry.policy.forbidden],
            "largest_order": dataset_entry.policy.largest_order,
            "measures": [measure.name for measure in measures],
            "schema": table_of_schema(dataset_entry.schema),
            "declared": asdict(dataset_entry.declared),
            "most_records": self.most_records,
        }
        if Need.RECORDS in needs:
            described["records"] = self._records(dataset_entry, version)
        if Need.HOLDOUT in needs and dataset_entry.holdout is not None:
            other = replace(dataset_entry, data=dataset_entry.holdout.data)
            described["holdout"] = self._records(other, dataset_entry.holdout.version)
        return described

    def answer(
        self,
        dataset_entry: DatasetEntry,
        version: str,
        question: Question,
        *,
        privacy: Privacy | None,
        numbers: int,
        before: Mapping[str, Sequence[EndedQuestion | Clique | Rounded]],
        seed: int,
    ) -> Job:
        """One checked run, which is judged beside what was told of the same records.

        Args:
            before: Questions of other runs: "earlier" of those that are answered or may be, and
                "refused", of which only the populations are remembered. Marginals that cards have
                "released" exactly, and "rounded" ones.
        """
        return {
            "records": self._records(dataset_entry, version),
            **asdict(question),
            "numbers": numbers,
            "limits": PLAIN.write(dataset_entry.policy.analyses.rules),
            "privacy": None if privacy is None else privacy_document(privacy),
            **{name: list(map(_plain, outputs)) for name, outputs in before.items()},
            "most_records": self.most_records,
            "seed": seed,
        }

    def keep(
        self,
        dataset_entry: DatasetEntry,
        version: str,
        recipe: Mapping[str, Any],
        *,
        rows: int,
        folder: Path,
    ) -> Job:
        """What the run leaves goes into ``folder``; rows, where it leaves rows, are so many."""
        return {
            "records": self._records(dataset_entry, version),
            "recipe": whole_recipe(recipe, dataset_entry, self.model_cells),
            "rows": rows,
            "folder": str(folder),
            "most_records": self.most_records,
        }

    def draw(
        self,
        recipe: Mapping[str, Any],
        dataset_entry: DatasetEntry,
        *,
        card: CardTerms,
        rows: int,
        folder: Path,
        rows_file: Path,
    ) -> Job:
        """Rows over the card's attributes, of what a run left in ``folder``."""
        domain = dataset_entry.domain.covered_by(card.terms.cliques)
        return {
            "recipe": whole_recipe(recipe, dataset_entry, self.model_cells),
            "attributes": list(domain.attributes),
            "sizes": list(domain.sizes),
            "computed": _computed(card, dataset_entry.schema.coding),
            "rows": rows,
            "folder": str(folder),
            "rows_file": str(rows_file),
        }

    def thin_out(
        self, dataset_entry: DatasetEntry, version: str, *, drawn: Path, rows: int, rows_file: Path
    ) -> Job:
        """Records and drawn rows, of which those without replicated uniques are left."""
        return {
            "records": self._records(dataset_entry, version),
            "drawn": str(drawn),
            "rows": rows,
            "rows_file": str(rows_file),
            "most_records": self.most_records,
        }

    def look(
        self,
        dataset_entry: DatasetEntry,
        cliques: Sequence[Clique],
        own: Sequence[Clique] = (),
        transform: Transform = AS_COUNTED,
    ) -> Job:
        """Describe a look at the risk of tables of the present records.

        Args:
            own: Tables of the card itself, which its checks may refuse.
            transform: Checks and rounding of the card.
        """
        return {
            "records": self._records(dataset_entry, dataset_entry.version),
            "cliques": [list(clique) for clique in cliques],
            "most_records": self.most_records,
            "own": [list(clique) for clique in own],
            "transform": transform_document(transform),
        }

    def run_black_box(
        self,
        dataset_entry: DatasetEntry,
        recipe: Mapping[str, Any],
        *,
        upload: Path,
        rows: int,
        seed: int,
        rows_file: Path,
    ) -> Job:
        """The upload is a rows file over the attributes that the card names."""
        return {
            "recipe": whole_recipe(recipe, dataset_entry, self.model_cells),
            "upload": str(upload),
            "rows": rows,
            "seed": seed,
            "rows_file": str(rows_file),
            "errors_file": str(rows_file.with_name("errors")),
        }

    def program(
        self,
        dataset_entry: DatasetEntry,
        version: str,
        program: Mapping[str, Any],
        *,
        rows_file: Path,
        drawing_seed: int,
        terms: Proposal,
    ) -> dict[str, Job]:
        """A program's two jobs, by task: on the rows of a release, and on the same attributes' records.

        Args:
            program: Recipe, agreed outputs, most numbers, seed.
            drawing_seed: Of numbers inside intervals, where the program gets stored ones.
        """
        program = {**program, "stored": list(terms.analyses.columns)}
        schema = table_of_schema(dataset_entry.schema)
        attributes = dataset_entry.domain.covered_by(terms.cliques).attributes
        return {
            "rehearse": {
                **program,
                "rows_file": str(rows_file),
                "drawing_seed": drawing_seed,
                "schema": schema,
            },
            "run_once": {
                **program,
                "records": self._records(dataset_entry, version),
                "attributes": list(attributes),
                "most_records": self.most_records,
            },
        }

    def _records(self, dataset_entry: DatasetEntry, version: str) -> Job:
        place = dataset_entry.data
        described: Job = {
            "data": str(place),
            "format": asdict(dataset_entry.format),
            "schema": table_of_schema(dataset_entry.schema),
            "version": version,
            "salt": self.salt.hex(),
        }
        if isinstance(place, TableAddress):  # read for each job: the password may be another by now
            described["table"], described["secret"] = True, place.secret()
        return described


def whole_recipe(recipe: Mapping[str, Any], dataset_entry: DatasetEntry, model_cells: int) -> Job:
    """The recipe of a black box, whole: numbers for what runs in a sandbox, else zeros and a bound."""
    if recipe["kind"] == PROGRAM:
        values = values_of(dataset_entry.schema.coding)
        return {**recipe, "values": {name: list(map(_written, row)) for name, row in values.items()}}
    zeros = _zeros(dataset_entry.schema.coding.structural_zeros)
    return {**recipe, "zeros": zeros, "max_cells": model_cells}


def _zeros(zeros: Iterable[StructuralZeros]) -> list[Job]:
    return [
        {"clique": list(entry.clique), "cells": [list(cell) for cell in entry.cells]} for entry in zeros
    ]


def _computed(card: CardTerms, coding: Coding) -> Job:
    return {name: PLAIN.write(how) for name, how in computed_for(card, coding).items()}


def _written(value: float) -> float | None:
    """JSON has no NaN."""
    return None if isnan(value) else value


def values_of(coding: Coding) -> Values:
    """Middles of intervals, ordered whole numbers themselves, and the ranks of other ordered labels.

    NaN stands for missing; attributes without order are not there.
    """
    values_by_name = {entry.name: _values(entry.coding) for entry in coding.attributes}
    return {name: values for name, values in values_by_name.items() if values}


def _values(coding: Edges | Labels) -> tuple[float, ...]:
    missing = (nan,) * coding.missing
    if isinstance(coding, Edges):
        return (*coding.midpoints, *missing)
    if not coding.ordered:
        return ()
    labels = map(float, coding.labels) if coding.integer else map(float, range(len(coding.labels)))
    return (*labels, *missing)


def _plain(output: EndedQuestion | Clique | Rounded) -> object:
    """Return an output as JSON with every field: readers of a question require all of them."""
    if isinstance(output, EndedQuestion):
        return asdict(output.question) | ({"rules": output.rules} if output.rules else {})
    return list(output) if isinstance(output, tuple) else asdict(output)
