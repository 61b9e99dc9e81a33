"""S2, attack: certificates of the service's own authority whose alternative names confuse a reader.

Whoever can have an authority sign a name of their choice tried to be served as ``steward/sam``: gRPC
hands on a URI as a C string, so a NUL behind the steward's URI made everybody a steward.
"""

from datetime import UTC, datetime

import grpc
import pytest
from cryptography import x509

from gencard.controller.people.keys import issue, new_authority
from gencard.controller.service.access import caller_of
from gencard.core.errors import InvalidInputError, UnauthenticatedError
from gencard.wire.keys import Identity
from tests.system.house import Clock
from tests.system.raw_calls import URI, call, certificate_naming, certificate_with, channel_of

LIST = "/gencard.v1.CatalogService/ListDatasets"
SAM = URI.format(role="steward", name="sam").encode()
ANA = URI.format(role="analyst", name="ana").encode()
URI_TAG, DNS_TAG, MAIL_TAG, IP_TAG, ID_TAG, OTHER_TAG, DIRECTORY_TAG = (
    0x86, 0x82, 0x81, 0x87, 0x88, 0xA0, 0xA4,
)  # fmt: skip
"""Context tags of GeneralName, RFC 5280, section 4.2.1.6."""


def certified(*pems):
    """Return the caller that a peer with these certificates is now."""
    return caller_of(_Peer(*pems), lambda *_: True, None, datetime.now(UTC))


def der(tag: int, content: bytes) -> bytes:
    """One element in DER, of at most 65,535 bytes."""
    size = len(content)
    length = bytes([size]) if size < 128 else b"\x82" + size.to_bytes(2, "big")
    return bytes([tag]) + length + content


def names_of(*names: tuple[int, bytes]) -> x509.UnrecognizedExtension:
    """A subjectAltName extension of raw bytes, as no library would write it."""
    content = der(0x30, b"".join(der(tag, value) for tag, value in names))
    return x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, content)


CRAFTED = {
    "NUL behind the steward": [(URI_TAG, SAM + b"\x00")],
    "NUL and more": [(URI_TAG, SAM + b"\x00.evil.example")],
    "NUL and another identity": [(URI_TAG, SAM + b"\x00" + ANA)],
    "NUL in front": [(URI_TAG, b"\x00" + SAM)],
    "NUL inside": [(URI_TAG, SAM.replace(b"/sam", b"/\x00sam"))],
    "two people": [(URI_TAG, SAM), (URI_TAG, ANA)],
    "two people, the other first": [(URI_TAG, ANA), (URI_TAG, SAM)],
    "one person twice": [(URI_TAG, SAM), (URI_TAG, SAM)],
    "an empty second": [(URI_TAG, SAM), (URI_TAG, b"")],
    "a host as well": [(URI_TAG, SAM), (DNS_TAG, b"localhost")],
    "a mail address as well": [(URI_TAG, SAM), (MAIL_TAG, b"ana@example.org")],
    "an IP address as well": [(URI_TAG, SAM), (IP_TAG, b"\x7f\0\0\1")],
    "a registered ID as well": [(URI_TAG, SAM), (ID_TAG, b"\x2a\x03")],
    "an other name as well": [(URI_TAG, SAM), (OTHER_TAG, b"\x06\x01\x2a\xa0\x02\x05\x00")],
    "a directory as well": [(URI_TAG, SAM), (DIRECTORY_TAG, b"\x30\x00")],
    "an unknown kind as well": [(URI_TAG, SAM), (0x8B, b"x")],
    "a host alone": [(DNS_TAG, SAM)],
    "trailing dot": [(URI_TAG, SAM + b".")],
    "trailing space": [(URI_TAG, SAM + b" ")],
    "leading space": [(URI_TAG, b" " + SAM)],
    "trailing newline": [(URI_TAG, SAM + b"\n")],
    "carriage return": [(URI_TAG, SAM + b"\r\n")],
    "delete": [(URI_TAG, SAM + b"\x7f")],
    "trailing slash": [(URI_TAG, SAM + b"/")],
    "double slash": [(URI_TAG, SAM.replace(b"/sam", b"//sam"))],
    "parent folder": [(URI_TAG, SAM.replace(b"/sam", b"/../steward/sam"))],
    "percent encoding": [(URI_TAG, SAM.replace(b"sam", b"s%61m"))],
    "percent NUL": [(URI_TAG, SAM + b"%00")],
    "query": [(URI_TAG, SAM + b"?x")],
    "fragment": [(URI_TAG, SAM + b"#x")],
    "port": [(URI_TAG, SAM.replace(b"gencard.local", b"gencard.local:1"))],
    "user": [(URI_TAG, SAM.replace(b"//", b"//x@"))],
    "uppercase scheme": [(URI_TAG, SAM.replace(b"spiffe", b"SPIFFE"))],
    "uppercase host": [(URI_TAG, SAM.replace(b"gencard.local", b"GENCARD.LOCAL"))],
    "uppercase role": [(URI_TAG, SAM.replace(b"steward", b"Steward"))],
    "UTF-8 look-alike": [(URI_TAG, SAM.replace(b"sam", "s\u0430m".encode()))],
    "bytes of no encoding": [(URI_TAG, SAM + b"\xff\xfe")],
    "host with a trailing dot": [(URI_TAG, SAM.replace(b"gencard.local", b"gencard.local."))],
    "empty": [(URI_TAG, b"")],
    "no names": [],
}
"""Names in the certificate: mostly the steward's URI in a form that some reader would accept."""

TRAILING = x509.UnrecognizedExtension(
    x509.SubjectAlternativeName.oid, der(0x30, der(URI_TAG, SAM)) + b"\x00\x00"
)
WRONG_LENGTH = x509.UnrecognizedExtension(
    x509.SubjectAlternativeName.oid, b"\x30\x7f" + der(URI_TAG, SAM)
)


@pytest.mark.parametrize("names", CRAFTED.values(), ids=CRAFTED)
def test_a_crafted_name_is_nobody(house, names):
    """Each is refused: by TLS, where OpenSSL cannot read the certificate, else by the service."""
    channel = channel_of(house, certificate_with(house, names_of(*names)))
    ending = call(channel, LIST, b"", seconds=20)
    assert ending.code in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE}
    assert not ending.answers


@pytest.mark.parametrize("extension", [TRAILING, WRONG_LENGTH], ids=["trailing bytes", "wrong length"])
def test_malformed_names_are_nobody(house, extension):
    ending = call(channel_of(house, certificate_with(house, extension)), LIST, b"", seconds=20)
    assert ending.code in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE}


def test_the_same_certificate_without_the_trick_is_the_steward(house):
    """The control: the test's certificates are refused for their names and for nothing else."""
    assert call(channel_of(house, certificate_with(house, names_of((URI_TAG, SAM)))), LIST, b"").answers
    named = certificate_naming(house, x509.UniformResourceIdentifier(SAM.decode()))
    assert call(channel_of(house, named), LIST, b"").answers


@pytest.mark.parametrize("names", CRAFTED.values(), ids=CRAFTED)
def test_the_reader_itself_refuses_what_tls_would_let_through(house, names):
    """The same certificates, straight to the function that decides: nothing rests on OpenSSL."""
    pair, now = certificate_with(house, names_of(*names)), datetime.now(UTC)
    with pytest.raises(UnauthenticatedError):
        caller_of(_Peer(pair.certificate_pem), lambda who, _: who.uri == SAM.decode(), None, now)


@pytest.mark.parametrize("pems", [[], [b""], [b"garbage"], [b"-----BEGIN CERTIFICATE-----"]], ids=repr)
def test_a_peer_without_a_readable_certificate_is_nobody(pems):
    with pytest.raises(UnauthenticatedError):
        certified(*pems)


def test_two_certificates_of_one_peer_are_nobody(house):
    pem = certificate_with(house, names_of((URI_TAG, SAM))).certificate_pem
    assert certified(pem).identity == Identity.of(SAM.decode())
    with pytest.raises(UnauthenticatedError):
        certified(pem, pem)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        SAM.decode() + "\0",
        SAM.decode() + "\0x",
        SAM.decode() + " ",
        SAM.decode() + "/",
        SAM.decode().upper(),
        SAM.decode().replace("steward", "visitor"),
        SAM.decode().replace("sam", "s%61m"),
        "https://example.org/ana",
    ],
    ids=repr,
)
def test_the_authority_issues_no_such_certificate(uri):
    now = Clock()()
    with pytest.raises(InvalidInputError, match="uri: must have the form spiffe://"):
        issue(new_authority("gencard.local", now), uri, now)


class _Peer:
    """Connection as gRPC describes it: its certificates, and URIs that no code may read."""

    def __init__(self, *pems: bytes) -> None:
        self._pems = pems

    def auth_context(self) -> dict[str, tuple[bytes, ...]]:
        return {"x509_pem_cert": self._pems, "peer_uri": (SAM,)}
