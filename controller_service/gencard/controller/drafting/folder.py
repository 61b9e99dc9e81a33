"""The folder of a new controller: settings, a schema to review, its own keys and certificates."""

import os
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from gencard.controller.base.disk import check_new, whole_folder
from gencard.controller.base.files import toml_text
from gencard.controller.base.listening import listened_on
from gencard.controller.drafting.dataset_draft import dataset_text, drafted_schema_text
from gencard.controller.drafting.schema_draft import DraftedAttribute, SchemaDraft, draft_schema
from gencard.controller.people.certificates import (
    KeyPair,
    issue,
    new_authority,
    new_signing_key,
    public_pem,
    write_new,
)
from gencard.controller.people.enrolment import PEOPLE, PROJECT, health_check, make_people
from gencard.controller.records.tables.address import TableAddress, name_of
from gencard.controller.settings.settings import Limits
from gencard.core.errors import InvalidInputError, StorageError
from gencard.wire.keys import Identity, Role

TRUST_DOMAIN = "gencard.local"
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
    """Drafted folder of a new controller.

    Args:
        people: Folders of the demonstration's people; empty unless the steward asked for them.
        drafted: Schema, format of the file, and open questions.
    """

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
        people: Further people to make keys for, with their roles.
        project: Project of all people.
        address: ``host:port`` of the service, for its settings and certificate, and for people.
        authority_key: A new file for the authority's private key; by default in the folder.
        sheet, skip: As in ``draft_schema``.
        exact: Offer exact counts, histograms and sums, too.
        progress: Called with the name of each column before it is read.
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
    drafted = settled(
        draft_schema(data, name_of(data), today=now.date(), sheet=sheet, skip=skip, progress=progress)
    )
    try:
        with whole_folder(folder) as draft_folder:
            authority = new_authority(TRUST_DOMAIN, now)
            _write_credentials(draft_folder, authority, now, hosts)
            make_people(draft_folder, authority, everybody, project, address=address, now=now)
            dataset = dataset_text(
                _resource_name(name_of(data)),
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
        tuple(folder / "people" / name for name in everybody),
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
    """Make the controller's certificates and keys, and a client's for its health check."""
    write_new(folder / "authority" / "certificate.pem", authority.certificate_pem, private=False)
    issue(authority, controller_uri(), now, hosts=hosts).write(folder / "server")
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
        uri=toml_text(controller_uri()),
        dataset=dataset,
    )
    write_new(folder / "schema.toml", drafted_schema_text(drafted).encode(), private=False)
    write_new(folder / "controller.toml", settings.encode())
    os.mkdir(folder / "state", 0o700)


def controller_uri() -> str:
    """Return the controller's own identity."""
    return Identity(TRUST_DOMAIN, "service", Role.CONTROLLER, "controller").uri


def _resource_name(stem: str) -> str:
    name = re.sub(r"[^a-z0-9_-]+", "-", stem.lower()).strip("-_")[:60]
    return name if name[:1].isalpha() else f"data-{name}".rstrip("-")
