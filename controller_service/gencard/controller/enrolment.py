"""New people: a folder of credentials for each, and the file that enrols them."""

import shutil
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gencard.controller.certificates import (
    issue,
    new_signing_key,
    public_pem,
    read_authority,
    trust_domain_of,
    write_new,
)
from gencard.controller.identities import Enrolled, enrolled_in, identity_text
from gencard.controller.private_file import write_whole
from gencard.controller.toml_file import toml_text
from gencard.core.errors import InvalidInputError, StorageError, UnauthenticatedError
from gencard.wire.identity import Identity, Role

_TO_EVERYBODY = {
    "authority.pem": "authority/certificate.pem",
    "controller_card_key.pub": "signing/card_key.pub",
    "log_key.pub": "signing/log_key.pub",
}


def enrol(
    folder: Path,
    name: str,
    role: Role,
    project: str,
    *,
    address: str,
    now: datetime,
    again: bool = False,
) -> Path:
    """Give a person a certificate and a signing key, and enrol both.

    Args:
        folder: The controller's folder, as ``draft`` made it.
        name: Of a-z, 0-9, ``.``, ``_`` and ``-``; used once.
        role: What the certificate lets the person do.
        project: Of a-z, 0-9 and ``-``; its people share one budget.
        address: Where the person finds the controller, ``host:port``.
        now: The certificate's life begins here.
        again: The person is enrolled and gets new keys; what the present signing key signed stays good.

    Returns:
        ``people/{name}``, to be handed over: ``certificate.pem``, ``key.pem``, ``signing_key.pem``,
        ``authority.pem``, ``controller_card_key.pub``, ``log_key.pub`` and ``connection.toml``.
        ``signing_key.pub`` is for whoever checks what the person signed, ``earlier_keys.pub`` for
        what was signed with keys that this person had before.

    Raises:
        InvalidInputError: The name is taken (or, ``again``, not enrolled as this person) or malformed,
            or the authority cannot be used.
        StorageError: The files cannot be written; none is left.
    """
    authority = read_authority(folder / "authority")
    identity = _checked(Identity(trust_domain_of(authority), project, role, name))
    person, entry = folder / "people" / name, folder / "identities" / f"{name}.toml"
    earlier = _keys_of(entry, identity) if again else ()
    if person.exists() or (entry.exists() and not again):
        raise InvalidInputError(field="name", problem="is taken, and nothing is overwritten")
    try:
        issue(authority, identity.uri, now).write(person)
        enrolled = Enrolled(identity, new_signing_key(person / "signing_key.pem"), earlier)
        _write_public(folder, person, address)
        _write_keys(person, enrolled)
        entry.parent.mkdir(mode=0o700, exist_ok=True)
        write_whole(entry, [identity_text(enrolled).encode()])
        return person
    except (OSError, StorageError):
        shutil.rmtree(person, ignore_errors=True)
    raise StorageError()


def _keys_of(entry: Path, identity: Identity) -> tuple[Ed25519PublicKey, ...]:
    """All keys of an enrolled person so far, oldest first; raises InvalidInputError for others."""
    enrolled = enrolled_in(entry) if entry.is_file() else None
    if enrolled is None or enrolled.identity != identity:
        raise InvalidInputError(field="name", problem="is not enrolled in this project and role")
    return (*enrolled.earlier, enrolled.signing_key)


def _write_keys(person: Path, enrolled: Enrolled) -> None:
    """The public halves: of the key that signs, and of those that did before."""
    write_new(person / "signing_key.pub", public_pem(enrolled.signing_key), private=False)
    if enrolled.earlier:
        pems = b"".join(map(public_pem, enrolled.earlier))
        write_new(person / "earlier_keys.pub", pems, private=False)


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
