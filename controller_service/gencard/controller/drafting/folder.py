"""Drafts of a dataset, and of the folder of a new controller with its keys and certificates."""

import math
import os
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import ROUND_CEILING, Decimal
from math import comb
from pathlib import Path
from types import MappingProxyType

from gencard.controller.base.disk import check_new, whole_folder
from gencard.controller.base.files import Table, toml_text
from gencard.controller.base.listening import listened_on
from gencard.controller.drafting.schema_draft import (
    DraftedAttribute,
    SchemaDraft,
    draft_schema,
    left_out_words,
)
from gencard.controller.drafting.units import NO_WEIGHT
from gencard.controller.people.enrolment import PEOPLE, PROJECT, health_check, make_people
from gencard.controller.people.keys import (
    KeyPair,
    issue,
    new_authority,
    new_signing_key,
    public_pem,
    write_new,
)
from gencard.controller.records.declarations import SCALE_KEYS
from gencard.controller.records.file_format import FileFormat
from gencard.controller.records.schema_file import PublicSchema, table_of_schema
from gencard.controller.records.table_address import TableAddress, name_of
from gencard.controller.settings import Limits
from gencard.core.coding import Edges
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError, StorageError
from gencard.core.generators.registry import BY_CONSTRUCTION
from gencard.core.statistics.linear import fine_cells
from gencard.core.statistics.noise import epsilon_of
from gencard.wire.keys import Identity, Role

# A dataset: its table of the settings, with policy and caps, and its schema file.

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
    """Return a dataset's table, with policy and caps; ``exact`` offers exact counts and sums, too."""
    coding = drafted.schema.coding
    domain, with_step = coding.domain, coding.with_step
    pairs = max(comb(len(domain.attributes), 2), 1)
    # a card of all columns has a histogram and a total of each number, too, of as many as it has pairs
    marginals = min(pairs, max(most_statistics - 2 * len(with_step), most_statistics // 3, 1))
    statistics = _dimension_of_pairs(domain)
    if exact:  # also the numbers' histograms, sums and products, by levels of one attribute
        numbers = len(with_step)
        sums = numbers * (1 + sum(domain.sizes)) + numbers * (numbers + 1) // 2
        # sums also of the records that have another number
        statistics += sum(fine_cells(coding, name) for name in with_step) + 2 * sums
    of_person = max(drafted.schema.most_records, 1)
    card_epsilon, dataset_epsilon = (
        epsilon_of(rho, DELTA).quantize(Decimal("0.1"), ROUND_CEILING) for rho in (CARD_RHO, DATASET_RHO)
    )
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
        statistics=statistics,
        covered=", histograms and sums by one attribute" if exact and with_step else "",
        card_rho=CARD_RHO,
        card_epsilon=card_epsilon,
        delta=f"{DELTA:e}",
        stddev=round(of_person * math.sqrt(marginals / (2 * float(CARD_RHO)))),
        most_rho=ANALYST_RHO,
        project_rho=PROJECT_RHO,
        dataset_rho=DATASET_RHO,
        dataset_epsilon=dataset_epsilon,
    )


def _dimension_of_pairs(domain: Domain) -> int:
    """Return the price of all pairs in statistics, without a list of them: there may be millions.

    >>> _dimension_of_pairs(Domain.of({"activity": 10, "occupation": 10, "sex": 2}))
    119
    """
    own = [size - 1 for size in domain.sizes]
    return 1 + sum(own) + (sum(own) ** 2 - sum(size**2 for size in own)) // 2


def drafted_schema_text(drafted: SchemaDraft) -> str:
    """Return the text of the schema file, with comments on each attribute and each omitted column."""
    questions = [
        f"Does {unit.column!r} say whose a record is ({unit.why})? If so, leave the attribute out, and "
        f"write before the attributes: person = {toml_text(unit.column)} and most_records = "
        f"{unit.most_records}, or another number of records of one person that count."
        for unit in drafted.units
    ]
    questions += [
        f"Is {column!r} a weight? It is not used as one: statistics count records. If it is, say so: "
        f"description = {toml_text(NO_WEIGHT)}"
        for column in drafted.weights
    ]
    comments = [*_REVIEW, *questions, *(left_out_words(one.name) + one.note for one in drafted.left_out)]
    notes = {one.name: one.note for one in drafted.attributes if one.note}
    text = "".join(f"# {line}".rstrip() + "\n" for line in comments) + "\n"
    scales = {
        one.name: one.scale.keys(dates=one.coding.dates)
        for one in drafted.attributes
        if one.scale is not None and isinstance(one.coding, Edges)
    }
    return text + schema_text(drafted.schema, notes, drafted.remark, scales)


_MARKS = ("delimiter", "quote", "escape", "comment", "header", "skip")
"""Fields stated for every CSV file, so that no detection decides how records are counted."""


def _format_text(file_format: FileFormat) -> str:
    """Return the format of a file as a line of TOML: all marks of a CSV file, and unusual values."""
    usual, stated = asdict(FileFormat()), asdict(file_format) | {"escape": file_format.escape_mark}
    names = [*_MARKS] if file_format.delimiter else ["skip"] if file_format.skip else []
    names += [name for name, value in stated.items() if value != usual[name] and name not in _MARKS]
    parts = [f"{name} = {toml_text(stated[name])}" for name in names]
    return f"format = {{ {', '.join(parts)} }}\n" if parts else ""


def schema_text(
    schema: PublicSchema,
    notes: Mapping[str, str] = MappingProxyType({}),
    remark: str = "",
    scales: Mapping[str, Table] = MappingProxyType({}),
) -> str:
    """Return the schema as TOML; ``scales`` has edges, points and cells as they are declared."""
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


# The folder: settings, a schema to review, its own keys and certificates.

TRUST_DOMAIN = "gencard.local"
_URI = Identity(TRUST_DOMAIN, "service", Role.CONTROLLER, "controller").uri
ADDRESS = "localhost:7443"
HOSTS = ("localhost", "127.0.0.1", "::1")

_SETTINGS = """\
# Settings of the Gencard controller; docs/reference.md lists all of them. Relative paths start at this
# folder. Environment variables take precedence: GENCARD_SERVER__ADDRESS replaces address in [server].

[server]
address = {address}
certificate = "server/certificate.pem"
key = "server/key.pem"
authority = "authority/certificate.pem"  # issues the certificates of callers

[state]
folder = "state"                         # database, releases, unfinished work

[identity]
trust_domain = {trust_domain}
uri = {uri}

[signing]
card_key = "signing/card_key.pem"        # signs cards, receipts and verdicts
log_key = "signing/log_key.pem"          # signs checkpoints of the log
version_salt = "signing/version_salt"    # secret for digests of records
identities = "identities"                # one file for each person enrolled

[limits]                                 # a proposal over a limit is refused
marginal_cells = 1_000_000
model_cells = 50_000_000
rows = 10_000_000
runs = 100
cpu_seconds = 1_800                      # CPU time of one job
memory_mib = 4_096                       # address space of one job
workers = 2                              # jobs at the same time; one person uses all but one at most
open_proposals = 50                      # of one analyst
cards = 1_000                            # of one analyst, ended ones included
releases = 5_000                         # of one analyst, of all cards
release_mib = 32_768                     # size of all releases of one analyst
keep_days = 90                           # proposals that were never agreed are then deleted; 0: never
reserve_mib = 256                        # free disk space that is kept for ledger and log
# Operations report progress and their end only at intervals of this length, so that durations reveal
# little about records. An interval longer than the longest step hides durations completely. See
# docs/threat-model.md.
# tick_seconds = 10

{dataset}
[[black_boxes]]
name = "honest"
kind = "honest"
description = "Measures the statistics of the card, fits IPF, draws rows."

# Black boxes that auditors and analysts may run on datasets of their own; by default none. No such run
# is active while a job reads records. See docs/controllers.md.
# [lending]
# black_boxes = ["honest"]

# Black boxes read records, in a sandbox. To let cards use one, add its name to generators in the policy.
# See docs/controllers.md.
# [[black_boxes]]
# name = "trees"
# kind = "built_in"
# box = "synthpop"
"""


@dataclass(frozen=True, slots=True)
class Draft:
    """Drafted folder of a new controller; ``people`` are folders of people whose keys it made."""

    folder: Path
    settings: Path
    schema: Path
    people: tuple[Path, ...]
    drafted: SchemaDraft

    @property
    def columns(self) -> tuple[DraftedAttribute, ...]:
        """Drafted attribute of each column, or the reason why the column was left out."""
        return self.drafted.attributes


def draft(  # noqa: PLR0913 - what a steward may want to say of a new controller
    folder: Path,
    data: Path | TableAddress,
    *,
    now: datetime,
    demo_people: bool = False,
    people: Mapping[str, Role] = MappingProxyType({}),
    project: str = PROJECT,
    address: str = ADDRESS,
    authority_key: Path | None = None,
    sheet: str = "",
    skip: int = 0,
    exact: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    settled: Callable[[SchemaDraft], SchemaDraft] = lambda drafted: drafted,
) -> Draft:
    """Make the folder of a new controller that offers one file or table of records: all, or nothing.

    Args:
        demo_people: Make keys for ana, aud and sam, too. The controller could sign in their names.
        address: ``host:port`` of the service, for its settings and certificate, and for people.
        authority_key: A new file for the authority's private key; by default in the folder.
        sheet, skip: As in ``draft_schema``.
        settled: Answers the questions of the draft about persons and weights.

    Raises:
        InvalidInputError: The folder or ``authority_key`` is not empty, the file of records is of no
            known kind, the name of a person or project is invalid, or the address is not of the form
            host:port.
        EmptyDatasetError, DatasetUnavailableError: There are no records to read.
        StorageError: The folder or ``authority_key`` cannot be written.
    """
    check_new(folder)
    hosts = _hosts(address)
    everybody = {**(PEOPLE if demo_people else {}), **people}
    name = re.sub(r"[^a-z0-9_-]+", "-", name_of(data).lower()).strip("-_")[:60]
    drafted = settled(
        draft_schema(data, name_of(data), today=now.date(), sheet=sheet, skip=skip, progress=progress)
    )
    try:
        with whole_folder(folder) as draft_folder:
            authority = new_authority(TRUST_DOMAIN, now)
            _write_credentials(draft_folder, authority, now, hosts)
            make_people(draft_folder, authority, everybody, project, address=address, now=now)
            dataset = dataset_text(
                name if name[:1].isalpha() else f"data-{name}".rstrip("-"),
                data,
                "schema.toml",
                drafted,
                most_statistics=Limits().marginals,  # the drafted settings state no other
                exact=exact,
            )
            _write_texts(draft_folder, dataset, drafted, address)
            write_new(authority_key or draft_folder / "authority" / "key.pem", authority.key_pem)
    except OSError:
        raise StorageError() from None
    return Draft(
        folder,
        folder / "controller.toml",
        folder / "schema.toml",
        tuple(folder / "people" / person for person in everybody),
        drafted,
    )


def _hosts(address: str) -> tuple[str, ...]:
    """Hosts in the server's certificate: this machine's own names, and the host of the address."""
    host = listened_on(address, field="address").rpartition(":")[0].strip("[]")
    if not host.isascii() or not host.isprintable() or " " in host:
        problem = "names a host with other letters than a certificate may have"
        advice = "Write the host's name or address in ASCII, such as data.example.org:7443."
        raise InvalidInputError(field="address", problem=problem, advice=advice)
    own = () if host in ("0.0.0.0", "::") else (host,)  # noqa: S104 - listened on, never connected to
    return tuple(dict.fromkeys((*HOSTS, *own)))


def _write_credentials(folder: Path, authority: KeyPair, now: datetime, hosts: tuple[str, ...]) -> None:
    write_new(folder / "authority" / "certificate.pem", authority.certificate_pem, private=False)
    issue(authority, _URI, now, hosts=hosts).write(folder / "server")
    issue(authority, health_check(TRUST_DOMAIN).uri, now).write(folder / "health")
    write_new(folder / "health" / "authority.pem", authority.certificate_pem, private=False)
    for name in ("card_key", "log_key"):
        key = new_signing_key(folder / "signing" / f"{name}.pem")
        write_new(folder / "signing" / f"{name}.pub", public_pem(key), private=False)
    write_new(folder / "signing" / "version_salt", secrets.token_hex(32).encode())
    os.mkdir(folder / "identities", 0o700)


def _write_texts(folder: Path, dataset: str, drafted: SchemaDraft, address: str) -> None:
    settings = _SETTINGS.format(
        address=toml_text(address),
        trust_domain=toml_text(TRUST_DOMAIN),
        uri=toml_text(_URI),
        dataset=dataset,
    )
    write_new(folder / "schema.toml", drafted_schema_text(drafted).encode(), private=False)
    write_new(folder / "controller.toml", settings.encode())
    os.mkdir(folder / "state", 0o700)
