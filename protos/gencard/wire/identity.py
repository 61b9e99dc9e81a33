"""Who somebody is: the URI in a certificate, and nothing else."""

import re
from dataclasses import dataclass
from enum import StrEnum

from gencard.core.errors import UnauthenticatedError

_URI = re.compile(r"spiffe://([a-z0-9.-]{1,100})/([a-z0-9-]{1,63})/([a-z]{1,20})/([a-z0-9._-]{1,63})")


class Role(StrEnum):
    """What a certificate lets its holder do."""

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

    @classmethod
    def of(cls, uri: str) -> "Identity":
        """Raises UnauthenticatedError where the URI is not of this form."""
        found = _URI.fullmatch(uri)
        if not found or found[3] not in set(Role):
            raise UnauthenticatedError()
        return cls(found[1], found[2], Role(found[3]), found[4])

    @property
    def uri(self) -> str:
        return f"spiffe://{self.trust_domain}/{self.project}/{self.role}/{self.name}"
