"""Who is calling: the URI in the certificate that the connection was made with."""

from collections.abc import Callable

import grpc

from gencard.core.errors import UnauthenticatedError
from gencard.wire.identity import Identity

Enrolled = Callable[[Identity], bool]
"""Whether an identity is (still) on the controller's list."""


def caller_of(context: grpc.ServicerContext, enrolled: Enrolled, development: str | None) -> Identity:
    """The caller's identity.

    Args:
        development: URI that a plaintext caller on loopback gets in development; None elsewhere.

    Raises:
        UnauthenticatedError: No certificate, none or two URIs in it, or nobody enrolled.
    """
    uris = [name for name in _names(context) if name.startswith("spiffe://")]
    if not uris and development is not None:
        uris = [development]
    if len(uris) != 1:
        raise UnauthenticatedError
    identity = Identity.of(uris[0])
    if not enrolled(identity):
        raise UnauthenticatedError
    return identity


def _names(context: grpc.ServicerContext) -> list[str]:
    names = context.peer_identities() or ()
    return [name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in names]
