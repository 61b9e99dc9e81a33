"""The tasks of a worker process, and the JSON that describes a job of each.

A task is a name: nothing here opens a record, and the function behind the name is loaded where it
runs. The descriptions:

    records     {"data": path or address of a table, with "table": true and "secret": its password,
                 where it is a table's,
                 "schema": schema as in its TOML file, "version": hex, "salt": hex}
    recipe      {"kind": "honest" | "adds_marginal" | "copies_rows", "generator": name,
                 "cliques": [[attribute, ...], ...], "max_cells": int, "zeros": zeros,
                 "extra": [attribute, ...] (adds_marginal), "share": decimal (copies_rows),
                 "linear": linear, where there is any}
                or what ``sandbox.recipes`` says, with "cliques", "linear" and
                 "values": {attribute: [number of each code, null for missing], ...}
    linear      linear statistics, as ``core.statistics.linear_json`` writes them
    zeros       [{"clique": [attribute, ...], "cells": [[code, ...], ...]}, ...]

    measure         {"records": records, "cliques": [[attribute, ...], ...], "privacy": as on a card,
                     "weights": [int, ...], "transform": as on a card, "linear": linear}
                    -> {"psi": psi's document}
    synthesise      {"psi": psi's document, "generator": name, "zeros": zeros, "max_cells": int,
                     "computed": {attribute: as ``core.derivation.Derivation``, ...},
                     "rows": int, "seed": int, "rows_file": path to be written}
                    -> {"digest": hex, of the rows}
    audit           {"records": records, "recipe": recipe, "plan": plan, "versions": [[name, version]],
                     "most_records": int, "journal": path of a folder,
                     "cluster": {"workers": {name: address, ...}, "folder": path, "repeated": share,
                                 "cpu_seconds": int, "memory_mib": int}, where runs are for workers}
                    -> {"report": report's JSON object}
    compare         {"rows_file": path, "measures": [name, ...], "psi": psi's document,
                     "cliques": [[attribute, ...], ...], "schema": schema as in its TOML file,
                     "declared": as ``core.evaluation.material.Declared``, "seed": int,
                     "forbidden": [[attribute, ...], ...], "largest_order": int,
                     "records": records, where any measure reads them, "holdout": records, where any
                     measure reads it, "most_records": int}
                    -> {"measures": [{"name": measure, "found": object or null}, ...]}
    answer          {"records": records, "kind": kind, "formula": text, "where": text,
                     "missing": "level" or "drop", "options": JSON text, "numbers": int,
                     "privacy": as on a card, or null,
                     "earlier": [{"kind", "formula", "where", "missing", "options": of a run,
                                  "rules": version under which it ended, where that matters}, ...],
                     "refused": [as "earlier"], of runs that were refused,
                     "released": [[attribute, ...], ...], of exact counts that anybody was told,
                     "rounded": [as ``core.output_checks.populations.Rounded``, ...], of rounded ones,
                     "limits": as ``core.output_checks.rules.Rules``, where they are not the usual ones,
                     "most_records": int, "seed": int}
                    -> {"answer": the answer's JSON object or null, "reasons": [code, ...]: one code
                        for all refusals that depend on the records,
                        "rules": version of the output rules, "review": whether a person must look,
                        "marks": [{"part", "colour", "rules"}, ...], for a steward alone}
    keep            {"records": records, "recipe": recipe, "rows": int, "folder": path to be written in,
                     "most_records": int}
                    -> {}
    draw            {"recipe": recipe, "attributes": [name, ...], "sizes": [int, ...], "rows": int,
                     "computed": as above, "folder": path where "keep" wrote,
                     "rows_file": path to be written}
                    -> {"digest": hex, of the rows}
    thin_out        {"records": records, "drawn": path of a rows file, "rows": int,
                     "rows_file": path to be written, "most_records": int}
                    -> {"digest": hex, of the rows}
    look            {"records": records, "cliques": [[attribute, ...], ...], "most_records": int,
                     "own": [[attribute, ...], ...], of the card itself, "transform": of its counts}
                    -> {"risk": as ``core.psi_risk.risk.PsiRisk``}, for stewards alone
    rehearse        {"recipe": see ``sandbox.analyses``, "rows_file": path, "schema": schema as in its
                     TOML file, "agreed": outputs, "most_numbers": int, "seed": int,
                     "stored": [attribute, ...], "drawing_seed": int}
                    -> outputs, as ``core.program_outputs`` writes them
    run_once        {"recipe": as above, "records": records, "attributes": [name, ...],
                     "agreed": outputs, "most_numbers": int, "seed": int, "most_records": int,
                     "stored": [attribute, ...]}
                    -> outputs
    run_black_box   {"recipe": recipe, "upload": path of a rows file, "rows": int, "seed": int,
                     "rows_file": path to be written,
                     "errors_file": path where a program that fails leaves what it wrote}
                    -> {"digest": hex, of the rows}
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from gencard.core.domain import Clique
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.typed_json import PLAIN
from gencard.core.types import Progress, ignore_progress

Job = dict[str, Any]


def continue_at_once() -> None:
    """Do not delay the end of a job."""


@dataclass(frozen=True, slots=True)
class Task:
    """A function that a worker knows by name, and the module of ``jobs`` that holds it.

    Args:
        steps: Of progress that an analyst is told, where the job is at records; None for all there are.
        at_records: Whether the job reads records, or runs a black box on what a fit has kept of them.
        lent: Whether the job runs a black box on a caller's own dataset. A lent job must not run at the
            same time as a job at records: a program can measure what others do to the machine.
    """

    name: str
    module: str
    steps: int | None = None
    at_records: bool = False
    lent: bool = False

    def function(self) -> Callable[[Job, Progress], Job]:
        """The function, with all that it needs to run."""
        module = import_module(f"gencard.controller.jobs.{self.module}")
        function: Callable[[Job, Progress], Job] = getattr(module, self.name)
        return function

    def __call__(
        self,
        job: Job,
        *,
        owner: str = "",  # noqa: ARG002  # whose turn it is, for executors that take turns
        series: str = "",  # noqa: ARG002  # jobs that may share a process, where there are processes
        progress: Progress = ignore_progress,
        hold: Callable[[], None] = continue_at_once,
    ) -> Job:
        """Do the job here, and ``hold`` its end back, however it ends.

        For executors whose workers are not processes of this service.
        """
        try:
            return self.function()(job, progress)
        finally:
            hold()


MEASURE = Task("measure", "measurement", steps=1, at_records=True)
SYNTHESISE = Task("synthesise", "synthesis")
AUDIT = Task("audit", "auditing", steps=10, at_records=True)
COMPARE = Task("compare", "comparison", steps=1, at_records=True)
THIN_OUT = Task("thin_out", "comparison", steps=1, at_records=True)
RUN_BLACK_BOX = Task("run_black_box", "synthesis", lent=True)
ANSWER = Task("answer", "answering", steps=1, at_records=True)
KEEP = Task("keep", "releasing", steps=10, at_records=True)
DRAW = Task("draw", "releasing", at_records=True)
LOOK = Task("look", "comparison", at_records=True)
REHEARSE = Task("rehearse", "programs", lent=True)
RUN_ONCE = Task("run_once", "programs", steps=1, at_records=True)

_OF_RELEASES = (MEASURE, SYNTHESISE, KEEP, DRAW, THIN_OUT)
_OF_QUESTIONS = (AUDIT, COMPARE, LOOK, ANSWER, RUN_BLACK_BOX, REHEARSE, RUN_ONCE)
TASKS = {task.name: task for task in (*_OF_RELEASES, *_OF_QUESTIONS)}
"""Everything that a worker can be asked to do."""

KEPT_FIT, KEPT_ROWS = "fit", "rows"
"""Files that ``keep`` leaves in its folder: one of them."""


def linear_of(description: Job) -> list[LinearStatistic]:
    """The linear statistics of a job, recipe or plan."""
    linear = description.get("linear", [])
    return list(PLAIN.read(tuple[LinearStatistic, ...], linear, field="linear"))


def cliques_of(cliques: Sequence[Sequence[str]]) -> tuple[Clique, ...]:
    return tuple(tuple(clique) for clique in cliques)
