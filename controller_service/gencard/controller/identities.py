"""Who is enrolled: one TOML file for each person, with the key that person signs with."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gencard.controller.certificates import public_pem
from gencard.controller.keys import public_key
from gencard.controller.toml_file import Section, read_table, toml_text, validated
from gencard.core.errors import InvalidInputError
from gencard.wire.identity import Identity


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A person and the public half of the key that this person signs cards with."""

    identity: Identity
    signing_key: Ed25519PublicKey


class _IdentityTable(Section):
    uri: str
    signing_key: str


def read_identities(folder: Path) -> Mapping[str, Enrolled]:
    """Everybody enrolled in a folder, by URI.

    Raises:
        InvalidInputError: A file is malformed, or two files enrol the same URI.
        UnauthenticatedError: A URI is not that of an identity.
    """
    enrolled = [_enrolled(path) for path in sorted(folder.glob("*.toml"))]
    people = {entry.identity.uri: entry for entry in enrolled}
    if len(people) != len(enrolled):
        raise InvalidInputError(field=folder.name, problem="two files enrol the same identity")
    return people


def identity_text(enrolled: Enrolled) -> str:
    """The person's file."""
    pem = public_pem(enrolled.signing_key).decode()
    return f"uri = {toml_text(enrolled.identity.uri)}\nsigning_key = {toml_text(pem)}\n"


def _enrolled(path: Path) -> Enrolled:
    table = validated(_IdentityTable, read_table(path))
    return Enrolled(Identity.of(table.uri), public_key(table.signing_key, f"{path.name}.signing_key"))
