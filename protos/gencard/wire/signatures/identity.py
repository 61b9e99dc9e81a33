"""Identity of a person: the one URI in a certificate, and nothing else."""

import re
from dataclasses import dataclass, field
from enum import StrEnum

from cryptography import x509

from gencard.core.errors import UnauthenticatedError

_URI = re.compile(r"spiffe://([a-z0-9.-]{1,100})/([a-z0-9-]{1,63})/([a-z]{1,20})/([a-z0-9._-]{1,63})")

_UNREADABLE = (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)
"""Errors beside ValueError that ``cryptography`` raises for a certificate's alternative names."""


class Role(StrEnum):
    """Role of the holder of a certificate, which decides what calls are permitted."""

    ANALYST = "analyst"
    AUDITOR = "auditor"
    STEWARD = "steward"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Identity:
    """A holder of a certificate: ``spiffe://{trust domain}/{project}/{role}/{name}``.

    >>> Identity.of("spiffe://gencard.local/health/analyst/ana").role
    <Role.ANALYST: 'analyst'>
    """

    trust_domain: str
    project: str
    role: Role
    name: str
    uri: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        uri = f"spiffe://{self.trust_domain}/{self.project}/{self.role}/{self.name}"
        object.__setattr__(self, "uri", uri)

    @classmethod
    def of(cls, uri: str) -> "Identity":
        """Raises UnauthenticatedError where the URI is not of this form."""
        match = _URI.fullmatch(uri)
        if not match or match[3] not in set(Role):
            raise UnauthenticatedError()
        return cls(match[1], match[2], Role(match[3]), match[4])

    @classmethod
    def of_certificate(cls, certificate: x509.Certificate) -> "Identity":
        """The identity in a certificate whose alternative names are exactly one URI.

        The names are read from the certificate itself. gRPC's ``peer_uri`` property is a C string, which
        ends at the first NUL: it presents ``.../steward/sam\\0...`` as ``.../steward/sam``.

        Raises:
            UnauthenticatedError: The certificate has no alternative names, malformed ones, two of
                them, one of another kind, or one that is not an identity's URI.
        """
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, TypeError, *_UNREADABLE):
            names = x509.SubjectAlternativeName([])
        uris = [name.value for name in names if isinstance(name, x509.UniformResourceIdentifier)]
        if len(uris) != 1 or len(list(names)) != 1:
            raise UnauthenticatedError()
        return cls.of(uris[0])


def short_name(uri: str) -> str:
    """Project, role and name in a URI.

    >>> short_name("spiffe://house.example/service/steward/sam")
    'service/steward/sam'
    """
    return uri.removeprefix("spiffe://").partition("/")[2] or uri
