"""A run beside all that was released of the same records before: answers, and exact statistics."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from gencard.controller.answers.run_question import RunQuestion, attributes_of
from gencard.controller.jobs.recipes import cliques_of
from gencard.controller.jobs.tasks import Job
from gencard.core.answers.margins import RecordMargins
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import GencardError
from gencard.core.output_checks import facts
from gencard.core.output_checks.differencing import differences, nearly_natural
from gencard.core.output_checks.inference import (
    MOST_CELLS,
    Facts,
    Lattice,
    lattice_size,
    tells_small_cells,
)
from gencard.core.output_checks.populations import EVERYBODY, Output
from gencard.core.output_checks.rules import Rules


@dataclass(frozen=True, slots=True)
class Earlier:
    """What was released before, or may be: runs that go on, exact statistics that cards name.

    Args:
        coding: The schema.
        cliques: Marginals of everybody, exactly.
    """

    coding: Coding
    runs: tuple[RunQuestion, ...]
    cliques: tuple[Clique, ...]

    @classmethod
    def of(cls, job: Job, coding: Coding) -> "Earlier":
        """As a job names it."""
        runs = (RunQuestion.of({"options": "", **run}, coding) for run in job["earlier"])
        return cls(coding, tuple(runs), tuple(cliques_of(job.get("released", ()))))

    def attributes_with(self, run: RunQuestion) -> Clique:
        """All attributes that must be read to judge a run."""
        runs = (run, *self.runs)
        cliques = (clique for one in runs for clique in one.output.cliques)
        named = (
            name for one in runs for name in (*attributes_of(one.question.formula), *one.attributes)
        )
        return tuple(dict.fromkeys(chain(named, *cliques, *self.cliques)))

    def differs_by_few(self, run: RunQuestion, dataset: Dataset, threshold: int) -> bool:
        """Whether the population is that of an earlier output, or of a natural group, but for a few."""
        if run.where is not None and nearly_natural(run.where, dataset, threshold):
            return True
        outputs = [*(one.output for one in self.runs), Output((EVERYBODY,), self.cliques)]
        return differences(run.output, outputs, dataset, threshold)

    def leaves_too_little(self, run: RunQuestion, dataset: Dataset, rules: Rules) -> bool:
        """Whether an answer that is released, too, would leave too little open about a small cell.

        Looked at are all attributes together, or those of the run alone, where their cells are few.
        """
        for names in self._together(run):
            attributes = self.coding.domain.canonical(names)
            if lattice_size(self.coding.domain, attributes) <= MOST_CELLS:
                lattice = Lattice.of(dataset, attributes, self.coding.structural_zeros)
                parts = [
                    facts.counted([one for one in self.cliques if names.issuperset(one)], lattice),
                    *(_facts(one, lattice, rules) for one in self.runs if one.attributes <= names),
                ]
                before = Facts.together(parts, len(lattice.counts))
                return tells_small_cells(_facts(run, lattice, rules), before, lattice, rules.checks)
        return False

    def _together(self, run: RunQuestion) -> Iterator[frozenset[str]]:
        """Sets of attributes, the widest first."""
        others = chain.from_iterable(one.attributes for one in self.runs)
        yield run.attributes.union(others, chain.from_iterable(self.cliques))
        yield run.attributes


def _facts(run: RunQuestion, lattice: Lattice, rules: Rules) -> Facts:
    """What an answer tells of the cells."""
    kept = run.output.kept(lattice.cells)
    margins = RecordMargins.of(lattice.cells, (lattice.counts * kept).astype(np.float64))
    try:
        question = run.at(margins)
    except GencardError:  # it has no answer at these records
        question = run.question
    return facts.facts_of_answer(question, kept, margins, lattice, rules)
