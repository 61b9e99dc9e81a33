"""New people: a folder of credentials for each, and the file that enrols them."""

import shutil
from datetime import datetime
from pathlib import Path

from gencard.controller.certificates import (
    issue,
    new_signing_key,
    public_pem,
    read_authority,
    trust_domain_of,
    write_new,
)
from gencard.controller.identities import Enrolled, identity_text
from gencard.controller.toml_file import toml_text
from gencard.core.errors import InvalidInputError, StorageError, UnauthenticatedError
from gencard.wire.identity import Identity, Role

_TO_EVERYBODY = {
    "authority.pem": "authority/certificate.pem",
    "controller_card_key.pub": "signing/card_key.pub",
    "log_key.pub": "signing/log_key.pub",
}


def enrol(folder: Path, name: str, role: Role, project: str, *, address: str, now: datetime) -> Path:
    """Give a person a certificate and a signing key, and enrol both.

    Args:
        folder: The controller's folder, as ``draft`` made it.
        name: Of a-z, 0-9, ``.``, ``_`` and ``-``; used once.
        role: What the certificate lets the person do.
        project: Of a-z, 0-9 and ``-``; its people share one budget.
        address: Where the person finds the controller, ``host:port``.
        now: The certificate's life begins here.

    Returns:
        ``people/{name}``, to be handed over: ``certificate.pem``, ``key.pem``, ``signing_key.pem``,
        ``authority.pem``, ``controller_card_key.pub``, ``log_key.pub`` and ``connection.toml``.
        ``signing_key.pub`` is for whoever checks what the person signed.

    Raises:
        InvalidInputError: The name is taken or malformed, or the authority cannot be used.
        StorageError: The files cannot be written; none is left.
    """
    authority = read_authority(folder / "authority")
    identity = _checked(Identity(trust_domain_of(authority), project, role, name))
    person, entry = folder / "people" / name, folder / "identities" / f"{name}.toml"
    if person.exists() or entry.exists():
        raise InvalidInputError(field="name", problem="is taken, and nothing is overwritten")
    try:
        issue(authority, identity.uri, now).write(person)
        enrolled = Enrolled(identity, new_signing_key(person / "signing_key.pem"))
        _write_public(folder, person, address)
        public = public_pem(enrolled.signing_key)
        write_new(person / "signing_key.pub", public, private=False)
        write_new(entry, identity_text(enrolled).encode(), private=False)
        return person
    except OSError:
        shutil.rmtree(person, ignore_errors=True)
        entry.unlink(missing_ok=True)
    raise StorageError()


def _write_public(folder: Path, person: Path, address: str) -> None:
    """What everybody is given."""
    for copy, original in _TO_EVERYBODY.items():
        write_new(person / copy, (folder / original).read_bytes(), private=False)
    where = f"address = {toml_text(address)}\n"
    write_new(person / "connection.toml", where.encode(), private=False)


def _checked(identity: Identity) -> Identity:
    """The identity, where its URI reads back as itself."""
    try:
        same = Identity.of(identity.uri) == identity
    except UnauthenticatedError:
        same = False
    if not same or identity.name.startswith("."):
        raise InvalidInputError(
            field="name", problem="is made of a-z, 0-9, dot, _ and -; a project of a-z, 0-9 and -"
        )
    return identity
