"""Who is calling: the identity in the certificate that the connection was made with."""

from collections.abc import Callable, Iterable
from typing import Any

import grpc
from cryptography import x509

from gencard.core.errors import UnauthenticatedError
from gencard.wire.signatures.identity import Identity

Enrolled = Callable[[Identity], bool]
"""Whether an identity is (still) on the controller's list."""

_CERTIFICATE = "x509_pem_cert"
"""Where gRPC puts the peer's own certificate, whole; TLS has verified its chain and its time."""


def caller_of(context: grpc.ServicerContext, enrolled: Enrolled, development: str | None) -> Identity:
    """The caller's identity.

    Args:
        development: URI that a plaintext caller on loopback gets in development; None elsewhere.

    Raises:
        UnauthenticatedError: The connection has no certificate, its alternative names are not exactly
            one identity's URI, or that identity is not enrolled.
    """
    certificates: Iterable[Any] = context.auth_context().get(_CERTIFICATE, ())
    pems = list(certificates)
    if not pems and development is not None:
        identity = Identity.of(development)
    elif len(pems) == 1:
        identity = Identity.of_certificate(_certificate(pems[0]))
    else:
        raise UnauthenticatedError
    if not enrolled(identity):
        raise UnauthenticatedError
    return identity


def _certificate(pem: bytes) -> x509.Certificate:
    """Raises UnauthenticatedError where the bytes are no certificate that ``cryptography`` reads."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        pass
    raise UnauthenticatedError
