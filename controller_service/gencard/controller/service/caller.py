"""Who is calling: the URI in the certificate that the connection was made with."""

from collections.abc import Callable, Iterable
from typing import Any

import grpc

from gencard.core.errors import UnauthenticatedError
from gencard.wire.identity import Identity

Enrolled = Callable[[Identity], bool]
"""Whether an identity is (still) on the controller's list."""

_URIS = "peer_uri"
"""Where gRPC puts the URIs among a certificate's alternative names; no name of another kind."""


def caller_of(context: grpc.ServicerContext, enrolled: Enrolled, development: str | None) -> Identity:
    """The caller's identity.

    Args:
        development: URI that a plaintext caller on loopback gets in development; None elsewhere.

    Raises:
        UnauthenticatedError: No certificate, none or two URIs in it, or nobody enrolled.
    """
    found: Iterable[Any] = context.auth_context().get(_URIS, ())
    uris = [uri.decode("utf-8", "replace") for uri in found]
    if not uris and development is not None:
        uris = [development]
    if len(uris) != 1:
        raise UnauthenticatedError
    identity = Identity.of(uris[0])
    if not enrolled(identity):
        raise UnauthenticatedError
    return identity
