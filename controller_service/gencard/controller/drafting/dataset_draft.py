"""A dataset as it is drafted: its table of the settings, with policy and caps, and its schema file."""

import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from decimal import ROUND_CEILING, Decimal
from math import comb
from pathlib import Path
from types import MappingProxyType

from gencard.controller.base.files import Table, toml_text
from gencard.controller.drafting.schema_draft import SchemaDraft, left_out_words
from gencard.controller.drafting.units import NO_WEIGHT, Unit
from gencard.controller.records.declared_scale import SCALE_KEYS
from gencard.controller.records.file_format import FileFormat
from gencard.controller.records.schema_file import PublicSchema, table_of_schema
from gencard.controller.records.tables.address import TableAddress
from gencard.core.coding import Coding, Edges
from gencard.core.domain import Domain
from gencard.core.generators.registry import BY_CONSTRUCTION
from gencard.core.statistics.noise import epsilon_of
from gencard.core.statistics.unit_sums import fine_cells

CARD_RHO, ANALYST_RHO, PROJECT_RHO, DATASET_RHO = map(Decimal, ("0.05", "0.1", "0.25", "0.5"))
"""Drafted budgets: default of a card, and totals of one analyst, one project and the dataset.

A card of ``CARD_RHO`` over all pairs of a survey of a few thousand records is useful;
docs/controllers.md has figures. Ten of them fit in the dataset's cap.
"""

DELTA = Decimal("0.000001")
"""Delta at which rho is shown as epsilon; it spends no budget."""

LEAST_MARGINALS = 45
"""Marginals and sums of a card that every draft permits: enough for a regression by eight terms."""

_DATASET = """\
[[datasets]]
name = {name}
data = {data}
{format}schema = {schema}
# For evaluations: records of other people of the same population, keys and a target. See
# docs/controllers.md.
# holdout = "others.csv"
# measures = {{ keys = ["sex", "region"], target = "health" }}

[datasets.policy]                        # review this: what a card may contain
{mechanisms}# Budget of a card for which the analyst requests none (zCDP). rho = {card_rho} is
# epsilon = {card_epsilon} at delta = {delta}. If a card has {all_pairs} pairs of this schema, the noise
# of each count has a standard deviation of about {stddev} records; with fewer pairs it has less. See
# docs/controllers.md.
noise = {{ mechanism = "gaussian", neighbouring = "add-remove", rho = "{card_rho}", delta = "{delta}" }}
largest_order = 4                        # attributes in one marginal or sum
largest_order_exact = {order}                  # the same of exact ones, and of runs without noise
largest_marginal_cells = 10_000
most_marginals = {marginals}
most_rows = 100_000
most_per_card = {{ statistics = {statistics}, rho = {most_rho} }}  # statistics: for exact counts
{numbers}forbidden = []                           # sets never combined, as in [["age", "occupation"]]
generators = {generators}
automatic = true                         # false: a steward decides on each proposal
valid_days = 90
# Checks and rounding of exact counts. See docs/controllers.md.
# transform = {{ threshold = 10, freedom = 10, dominance_count = 2, dominance_percent = 90, \
remainder_percent = 10, rounding = 5 }}
# Evaluations need exact counts; each number costs one statistic. See docs/controllers.md.
# measures = ["dcr", "clones"]
# without_uniques = true
# Runs on the records, by default none. Checked runs are analyses whose answers pass output rules; they
# are exact, or have noise with a budget of their own, as the counts of the card. Reviewed runs are
# programs of analysts, and a steward reviews every answer; release = "steward" asks for this in checked
# runs too. libraries names packages of Python, R, and packages of R such as R-survival; columns names
# attributes whose numbers programs receive as recorded, all others by levels. See docs/controllers.md.
# analyses = {{ kinds = ["linear", "logistic", "crosstab"], checked_runs = 5, numbers = 100, \
threshold = 10, rounding = 5, influence = 1, release = "policy", stored = true, \
reviewed_runs = 0, libraries = [], program_numbers = 500{columns} }}

# Review this: budgets, the most that may ever be spent. All noise on the dataset together may spend
# rho = {dataset_rho}, which is epsilon = {dataset_epsilon} at delta = {delta}. statistics covers exact
# counts of all pairs{covered}, once.
[datasets.caps]
dataset = {{ statistics = {statistics}, rho = {dataset_rho} }}
project = {{ statistics = {statistics}, rho = {project_rho} }}
analyst = {{ statistics = {statistics}, rho = {most_rho} }}
"""

_REVIEW = (
    "Review this: labels and edges were drafted from the records, and everybody will see them.",
    "",
    "An attribute has labels or edges. edges = [0, 18, 65] are the levels [0, 18) and [18, 65];",
    'dates = ["2019-01-01", "2020-12-31"] are intervals of dates. With edges, age_at = "2020-01-01"',
    "turns dates of birth into ages. Each attribute may also have: description; ordered = true for",
    "labels in an order; integer = true for whole numbers; missing = true, which makes empty values a",
    'level, or missing = ["NA", "-9"], which adds these values to it; other = "other", a label for all',
    "values that are not declared.",
    "A value outside an attribute's levels is an error: widen the edges, or add labels.",
    "An attribute with the comment 'drafted' reveals something about the records to everybody: use",
    "public classes where they exist. Names, identifiers and free text were left out as far as they",
    "were recognised.",
)


_NUMBERS = """\
# Of numbers with a step: counts by fine cells, and sums by groups. See docs/controllers.md.
histograms = "{offer}"
sums = "{offer}"
"""

_NOISE_ONLY = """\
# Counts are released only with noise. To offer exact counts too, change the line below to
#   mechanisms = ["exact", "gaussian"]
# First run `gencard-controller check`: it shows, to you only, how many cells of 1 record and of fewer
# than 10 the pairs of these records have. An exact count of such a cell is a fact about those people.
mechanisms = ["gaussian"]
"""

_EXACT_TOO = """\
# Exact counts are offered, too (`init --exact`). `gencard-controller check` shows, to you only, how many
# cells of 1 record and of fewer than 10 the pairs of these records have. An exact count of such a cell
# is a fact about those people.
mechanisms = ["exact", "gaussian"]
"""


def dataset_text(
    name: str,
    data: Path | TableAddress,
    schema: str,
    drafted: SchemaDraft,
    *,
    most_statistics: int,
    exact: bool = False,
) -> str:
    """Return a dataset's table, with policy and caps for as many pairs as a card may have.

    Args:
        schema: Name of its schema file.
        most_statistics: Limit of the statistics of a card, ``limits.marginals``.
        exact: Offer exact counts, too, and of numbers exact histograms and sums by groups.
    """
    coding = drafted.schema.coding
    domain, with_step = coding.domain, coding.with_step
    pairs = max(comb(len(domain.attributes), 2), 1)
    # a card of all columns has a histogram and a total of each number, too, of as many as it has pairs
    marginals = min(pairs, max(most_statistics - 2 * len(with_step), most_statistics // 3, 1))
    of_person = max(drafted.schema.most_records, 1)
    return _DATASET.format(
        name=toml_text(name),
        data=toml_text(os.path.abspath(data) if isinstance(data, Path) else data.text),
        schema=toml_text(schema),
        format=_format_text(drafted.format),
        generators=toml_text(BY_CONSTRUCTION),
        all_pairs="all" if marginals == pairs else f"{marginals:,} of the {pairs:,}",
        marginals=max(marginals, LEAST_MARGINALS),
        mechanisms=_EXACT_TOO if exact else _NOISE_ONLY,
        numbers=_NUMBERS.format(offer="exact" if exact else "noise") if with_step else "",
        columns=f", columns = {toml_text(with_step)}" if with_step else "",
        order=4 if exact else 2,
        statistics=_dimension_of_pairs(domain) + (_statistics_of_numbers(coding) if exact else 0),
        covered=", histograms and sums by one attribute" if exact and with_step else "",
        card_rho=CARD_RHO,
        card_epsilon=_epsilon_text(CARD_RHO),
        delta=f"{DELTA:e}",
        stddev=round(of_person * math.sqrt(marginals / (2 * float(CARD_RHO)))),
        most_rho=ANALYST_RHO,
        project_rho=PROJECT_RHO,
        dataset_rho=DATASET_RHO,
        dataset_epsilon=_epsilon_text(DATASET_RHO),
    )


def _statistics_of_numbers(coding: Coding) -> int:
    """Return the price of the numbers' histograms, sums and products, by levels of one attribute."""
    numbers, levels = coding.with_step, sum(coding.domain.sizes)
    histograms = sum(fine_cells(coding, name) for name in numbers)
    sums = len(numbers) * (1 + levels) + len(numbers) * (len(numbers) + 1) // 2
    return histograms + 2 * sums  # also of the records that have another number


def _dimension_of_pairs(domain: Domain) -> int:
    """Return the price of all pairs in statistics, without a list of them: there may be millions.

    >>> _dimension_of_pairs(Domain.of({"activity": 10, "occupation": 10, "sex": 2}))
    119
    """
    own = [size - 1 for size in domain.sizes]
    return 1 + sum(own) + (sum(own) ** 2 - sum(size**2 for size in own)) // 2


def drafted_schema_text(drafted: SchemaDraft) -> str:
    """Return the text of the schema file, with comments on each attribute and each omitted column."""
    questions = [*map(unit_words, drafted.units), *map(weight_words, drafted.weights)]
    comments = [*_REVIEW, *questions, *(left_out_words(one.name) + one.note for one in drafted.left_out)]
    notes = {one.name: one.note for one in drafted.attributes if one.note}
    text = "".join(f"# {line}".rstrip() + "\n" for line in comments) + "\n"
    scales = {
        one.name: one.scale.keys(dates=one.coding.dates)
        for one in drafted.attributes
        if one.scale is not None and isinstance(one.coding, Edges)
    }
    return text + schema_text(drafted.schema, notes, drafted.remark, scales)


def unit_words(unit: Unit) -> str:
    """Return a comment of the schema file that asks whether a column identifies persons."""
    return (
        f"Does {unit.column!r} say whose a record is ({unit.why})? If so, leave the attribute out, and "
        f"write before the attributes: person = {toml_text(unit.column)} and most_records = "
        f"{unit.most_records}, or another number of records of one person that count."
    )


def weight_words(column: str) -> str:
    """Ask whether a column is a weight, in a comment of the schema file."""
    return (
        f"Is {column!r} a weight? It is not used as one: statistics count records. If it is, say so: "
        f"description = {toml_text(NO_WEIGHT)}"
    )


_MARKS = ("delimiter", "quote", "escape", "comment", "header", "skip")
"""Fields stated for every CSV file, so that no detection decides how records are counted."""


def _format_text(file_format: FileFormat) -> str:
    """Return the format of a file as a line of TOML: all marks of a CSV file, and unusual values."""
    usual, stated = asdict(FileFormat()), asdict(file_format) | {"escape": file_format.escape_mark}
    names = [*_MARKS] if file_format.delimiter else ["skip"] if file_format.skip else []
    names += [name for name, value in stated.items() if value != usual[name] and name not in _MARKS]
    parts = [f"{name} = {toml_text(stated[name])}" for name in names]
    return f"format = {{ {', '.join(parts)} }}\n" if parts else ""


def _epsilon_text(rho: Decimal) -> str:
    """Return the epsilon of a rho at ``DELTA``, rounded up to one decimal."""
    return str(epsilon_of(rho, DELTA).quantize(Decimal("0.1"), ROUND_CEILING))


def schema_text(
    schema: PublicSchema,
    notes: Mapping[str, str] = MappingProxyType({}),
    remark: str = "",
    scales: Mapping[str, Table] = MappingProxyType({}),
) -> str:
    """Return the schema as TOML.

    Args:
        notes: Comments on attributes.
        remark: A comment on the whole.
        scales: Attribute -> edges, points and cells in the words of their declaration.
    """
    table = table_of_schema(schema)
    for entry in table["attributes"]:
        if entry["name"] in scales:
            others = {key: value for key, value in entry.items() if key not in SCALE_KEYS}
            entry.clear()
            entry.update({"name": others["name"]} | scales[others["name"]] | others)
    parts = [_lines({name: value for name, value in table.items() if not isinstance(value, list)})]
    parts[0] += f"# {remark}\n" if remark else ""
    for name in ("attributes", "structural_zeros"):
        for entry in table.get(name, ()):
            note = notes.get(entry.get("name", ""))
            parts.append(f"[[{name}]]{f'  # {note}' if note else ''}\n{_lines(entry)}")
    return "\n".join(parts)


def _lines(table: Table) -> str:
    return "".join(f"{name} = {toml_text(value)}\n" for name, value in table.items())
