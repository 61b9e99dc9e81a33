"""People of a demonstration, whose keys the controller makes: for trying Gencard on one machine.

Whoever makes a key can sign with it. So what these people sign proves nothing against this controller.
"""

from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gencard.controller.people.certificates import KeyPair, private_pem, write_new
from gencard.controller.people.enrolment import enrol
from gencard.wire.documents.enrolment import request_document, request_of_document
from gencard.wire.signatures.identity import Role

PROJECT = "pilot"
PEOPLE = {"ana": Role.ANALYST, "aud": Role.AUDITOR, "sam": Role.STEWARD}


def make_demo_people(folder: Path, authority: KeyPair, *, address: str, now: datetime) -> None:
    """Enrol ana, aud and sam, and leave the keys of each in ``people/NAME``.

    Raises:
        InvalidInputError: Somebody of this name is enrolled.
        StorageError, OSError: The files cannot be written.
    """
    for name, role in PEOPLE.items():
        person = folder / "people" / name
        tls = KeyPair(authority.certificate, ec.generate_private_key(ec.SECP256R1()))
        signing_key = Ed25519PrivateKey.generate()
        request = request_of_document(request_document(tls.key, signing_key, name=name))
        answer = enrol(folder, request, authority, role=role, project=PROJECT, address=address, now=now)
        write_new(person / "key.pem", tls.key_pem)
        write_new(person / "signing_key.pem", private_pem(signing_key))
        for file, content in answer.files().items():
            write_new(person / file, content, private=False)


def demo_people(folder: Path) -> tuple[str, ...]:
    """Names of the people whose private keys lie in the controller's folder."""
    return tuple(sorted(file.parent.name for file in (folder / "people").glob("*/signing_key.pem")))
