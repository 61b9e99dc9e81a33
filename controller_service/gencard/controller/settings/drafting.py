"""The folder of a new controller: settings, a schema to review, its own keys and certificates."""

import math
import os
import re
import secrets
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import ROUND_CEILING, Decimal
from itertools import combinations
from pathlib import Path

from gencard.controller.people.certificates import (
    KeyPair,
    issue,
    new_authority,
    new_signing_key,
    public_pem,
    write_new,
)
from gencard.controller.people.enrolment import PEOPLE, make_demo_people
from gencard.controller.people.identities import health_check
from gencard.controller.records.file_format import FileFormat
from gencard.controller.records.schema_draft import DraftedAttribute, SchemaDraft, draft_schema
from gencard.controller.records.schema_file import schema_text
from gencard.controller.settings.files import check_new, toml_text, whole_folder
from gencard.core.domain import Clique
from gencard.core.errors import StorageError
from gencard.core.generators.registry import BY_CONSTRUCTION
from gencard.core.noise.accounting import epsilon_of
from gencard.core.statistics.closure import dimension
from gencard.wire.signatures.identity import Identity, Role

TRUST_DOMAIN = "gencard.local"
ADDRESS = "localhost:7443"
CARD_RHO, ANALYST_RHO, PROJECT_RHO, DATASET_RHO = map(Decimal, ("0.05", "0.1", "0.25", "0.5"))
"""Drafted budgets: of a card that asks for none, one analyst, one project, and everybody, for ever.

A card of ``CARD_RHO`` over all pairs of a survey of a few thousand records is useful;
docs/controllers.md has figures. Ten of them fit in the dataset's cap.
"""

DELTA = Decimal("0.000001")
"""Where rho is told as epsilon. Nothing is spent by it."""

HOSTS = ("localhost", "127.0.0.1", "::1")

_SETTINGS = """\
# Settings of the Gencard controller. Relative paths start at this folder; GENCARD_SERVER__ADDRESS
# in the environment stands above address in [server], and so on.

[server]
address = {address}
certificate = "server/certificate.pem"
key = "server/key.pem"
authority = "authority/certificate.pem"  # who may connect: people with a certificate of this authority

[state]
folder = "state"                         # database, releases, work in progress

[identity]
trust_domain = {trust_domain}
uri = {uri}

[signing]
card_key = "signing/card_key.pem"        # signs cards, receipts and verdicts
log_key = "signing/log_key.pem"          # signs checkpoints of the log
version_salt = "signing/version_salt"    # makes digests of records impossible to guess
identities = "identities"                # one file for each person enrolled

[limits]                                 # hard bounds, for everybody
marginal_cells = 1_000_000
model_cells = 50_000_000
rows = 10_000_000
runs = 100
cpu_seconds = 1_800                      # for one job
memory_mib = 4_096                       # for one job
workers = 2                              # jobs at a time; one person has all but one at most
open_proposals = 50                      # of one analyst
cards = 1_000                            # of one analyst, ended ones included
releases = 5_000                         # of all cards of one analyst
release_mib = 32_768                     # of all releases of one analyst, in MiB
keep_days = 90                           # then proposals that nobody agreed to are deleted; 0: never
reserve_mib = 256                        # free space, in MiB, that is kept for ledger and log
# Operations end at ticks of a grid, so that their time says little of records: more seconds than the
# longest step takes hide all of it. See docs/threat-model.md.
# tick_seconds = 10

[[datasets]]
name = {name}
data = {data}
{format}schema = "schema.toml"
# For measures of cards, see docs/controllers.md: other people of the same population, keys and a target.
# holdout = "others.csv"
# measures = {{ keys = ["sex", "region"], target = "health" }}

[datasets.policy]                        # what a proposal may ask for: review me
# Counts are given with noise alone. Exact counts need one line, in place of this one:
#   mechanisms = ["exact", "gaussian"]
# Before that, `gencard-controller check` says, to you alone, how many cells of 1 record and of fewer
# than 10 the pairs of these records have: an exact count of such a cell is a fact about those people.
mechanisms = ["gaussian"]
# The budget of a card that asks for none, as zero-concentrated differential privacy. rho = {card_rho} is
# epsilon = {card_epsilon} at delta = {delta}. Over all pairs of this schema each count is then off by
# about {stddev} records (standard deviation), fewer pairs get less noise. See docs/controllers.md.
noise = {{ mechanism = "gaussian", neighbouring = "add-remove", rho = "{card_rho}", delta = "{delta}" }}
largest_order = 2
largest_marginal_cells = 10_000
most_marginals = {pairs}
most_rows = 100_000
most_per_card = {{ statistics = {dimension}, rho = {most_rho} }}  # statistics: of exact counts
forbidden = []                           # such as [["age", "occupation"]]: never together
generators = {generators}
automatic = true                         # false: a steward looks at each proposal first
valid_days = 90
# Checks and rounding of exact counts. See docs/controllers.md.
# transform = {{ threshold = 10, freedom = 10, dominance_count = 2, dominance_percent = 90, \
remainder_percent = 10, rounding = 5 }}
# Measures go with exact counts alone; each number costs one statistic. See docs/controllers.md.
# measures = ["dcr", "clones"]
# without_uniques = true

# Most that may ever be spent: review me. What everybody together may learn from noisy counts is
# rho = {dataset_rho}, which is epsilon = {dataset_epsilon} at delta = {delta}. Exact counts of
# all pairs fit in once.
[datasets.caps]
dataset = {{ statistics = {dimension}, rho = {dataset_rho} }}
project = {{ statistics = {dimension}, rho = {project_rho} }}
analyst = {{ statistics = {dimension}, rho = {most_rho} }}

[[black_boxes]]
name = "honest"
kind = "honest"
description = "Measures what the card says, fits IPF, draws rows."

# Black boxes that auditors and analysts may run on datasets that they made up; none unless named here.
# No such run goes on while a job is at records. See docs/controllers.md.
# [lending]
# black_boxes = ["honest"]

# Black boxes that read records, in a sandbox; a policy's generators may name them. See
# docs/controllers.md.
# [[black_boxes]]
# name = "trees"
# kind = "built_in"
# box = "synthpop"
"""

_REVIEW = (
    "Review me: labels and edges were drafted from the records. Everybody will see them.",
    "",
    "An attribute has labels or edges; edges = [0, 18, 65] are the levels [0, 18) and [18, 65].",
    'dates = ["2019-01-01", "2020-12-31"] are intervals of dates; age_at = "2020-01-01" beside edges',
    'turns dates of birth into ages. Beside them it may say description = "...", ordered = true for',
    "labels in an order, integer = true for whole numbers, missing = true (empty values are a level of",
    'their own) or missing = ["NA", "-9"] (these, too), and other = "other", a label for all values',
    "that are not declared.",
    "A value that is none of an attribute's levels stops everything: widen edges, add labels.",
    "An attribute that is commented as drafted shows everybody something of the records: declare public",
    "classes where there are any. What looks like a name, an identifier or free text was left out.",
)


@dataclass(frozen=True, slots=True)
class Draft:
    """What was drafted.

    Args:
        people: Folders of the demonstration's people; none unless they were wanted.
        columns: What was drafted for each column, or why it was left out.
        format: How the file of records is written.
    """

    folder: Path
    settings: Path
    schema: Path
    people: tuple[Path, ...]
    columns: tuple[DraftedAttribute, ...]
    format: FileFormat


def draft(
    folder: Path,
    data: Path,
    *,
    now: datetime,
    demo_people: bool = False,
    authority_key: Path | None = None,
) -> Draft:
    """Make the folder of a new controller that offers one file of records. All of it, or nothing.

    Args:
        demo_people: Make keys for ana, aud and sam, too. The controller could sign in their names.
        authority_key: A new file for the authority's private key; in the folder where not given.

    Raises:
        InvalidInputError: The folder or ``authority_key`` holds something already, or the file of
            records is of no known kind.
        EmptyDatasetError, DatasetUnavailableError: There are no records to look at.
        StorageError: The folder or ``authority_key`` cannot be written.
    """
    check_new(folder)
    drafted = draft_schema(data, data.stem, today=now.date())
    try:
        with whole_folder(folder) as made:
            authority = new_authority(TRUST_DOMAIN, now)
            _write_credentials(made, authority, now)
            if demo_people:
                make_demo_people(made, authority, address=ADDRESS, now=now)
            _write_texts(made, data.absolute(), drafted)
            write_new(authority_key or made / "authority" / "key.pem", authority.key_pem)
    except OSError:
        raise StorageError() from None
    people = tuple(folder / "people" / name for name in PEOPLE) if demo_people else ()
    return Draft(
        folder,
        folder / "controller.toml",
        folder / "schema.toml",
        people,
        drafted.attributes,
        drafted.format,
    )


def _write_credentials(folder: Path, authority: KeyPair, now: datetime) -> None:
    """The controller's own certificates and keys, and a client's for its health check."""
    write_new(folder / "authority" / "certificate.pem", authority.certificate_pem, private=False)
    issue(authority, controller_uri(), now, hosts=HOSTS).write(folder / "server")
    issue(authority, health_check(TRUST_DOMAIN).uri, now).write(folder / "health")
    write_new(folder / "health" / "authority.pem", authority.certificate_pem, private=False)
    for name in ("card_key", "log_key"):
        key = new_signing_key(folder / "signing" / f"{name}.pem")
        write_new(folder / "signing" / f"{name}.pub", public_pem(key), private=False)
    write_new(folder / "signing" / "version_salt", secrets.token_hex(32).encode())
    os.mkdir(folder / "identities", 0o700)


def _write_texts(folder: Path, data: Path, drafted: SchemaDraft) -> None:
    comments = [*_REVIEW, *(f"Left out: {one.name!r}: {one.note}" for one in drafted.left_out)]
    notes = {one.name: one.note for one in drafted.attributes if one.note}
    text = "".join(f"# {line}".rstrip() + "\n" for line in comments) + "\n"
    text += schema_text(drafted.schema, notes, drafted.remark)
    write_new(folder / "schema.toml", text.encode(), private=False)
    write_new(folder / "controller.toml", _settings_text(data, drafted).encode())
    os.mkdir(folder / "state", 0o700)


def _format_text(file_format: FileFormat) -> str:
    """What differs from a plain CSV file, as a line of TOML; empty where nothing does."""
    usual, stated = asdict(FileFormat()), asdict(file_format)
    parts = [f"{name} = {toml_text(value)}" for name, value in stated.items() if value != usual[name]]
    return f"format = {{ {', '.join(parts)} }}\n" if parts else ""


def _settings_text(data: Path, drafted: SchemaDraft) -> str:
    domain = drafted.schema.coding.domain
    pairs: list[Clique] = [*combinations(domain.attributes, 2)] or [domain.attributes]
    return _SETTINGS.format(
        address=toml_text(ADDRESS),
        trust_domain=toml_text(TRUST_DOMAIN),
        uri=toml_text(controller_uri()),
        name=toml_text(_resource_name(data.stem)),
        data=toml_text(str(data)),
        format=_format_text(drafted.format),
        generators=toml_text(BY_CONSTRUCTION),
        pairs=len(pairs),
        dimension=dimension(domain, pairs),
        card_rho=CARD_RHO,
        card_epsilon=_epsilon_text(CARD_RHO),
        delta=f"{DELTA:e}",
        stddev=round(math.sqrt(len(pairs) / (2 * float(CARD_RHO)))),
        most_rho=ANALYST_RHO,
        project_rho=PROJECT_RHO,
        dataset_rho=DATASET_RHO,
        dataset_epsilon=_epsilon_text(DATASET_RHO),
    )


def _epsilon_text(rho: Decimal) -> str:
    """The epsilon that a rho comes to at ``DELTA``, rounded up to one decimal."""
    return str(epsilon_of(rho, DELTA).quantize(Decimal("0.1"), ROUND_CEILING))


def controller_uri() -> str:
    """The controller's own identity."""
    return Identity(TRUST_DOMAIN, "service", Role.CONTROLLER, "controller").uri


def _resource_name(stem: str) -> str:
    name = re.sub(r"[^a-z0-9_-]+", "-", stem.lower()).strip("-_")[:60]
    return name if name[:1].isalpha() else f"data-{name}".rstrip("-")
