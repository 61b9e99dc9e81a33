"""The page speaks TLS and nothing else, with a certificate that the controller's authority signed."""

import socket
import ssl

import httpx
import pytest
from playwright.sync_api import Error

from tests.page.browsing import needs_chromium


def where(house) -> tuple[str, int]:
    host, _, port = house.origin.removeprefix("https://").rpartition(":")
    return host, int(port)


def test_s01_the_authority_of_the_controller_is_what_a_browser_has_to_trust(house):
    trust = ssl.create_default_context(cafile=str(house.authority))
    assert httpx.get(f"{house.origin}/sign-in", verify=trust).status_code == 200
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"{house.origin}/sign-in")


@needs_chromium
def test_s01_a_browser_that_does_not_trust_it_stays_outside(house, chromium):
    page = chromium.new_page()
    with pytest.raises(Error, match="ERR_CERT_AUTHORITY_INVALID"):
        page.goto(house.origin)
    page.close()


def test_s01_without_tls_the_page_says_nothing(house):
    with socket.create_connection(where(house), 5) as plain:
        plain.sendall(b"GET /sign-in HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            answer = plain.recv(4_096)
        except ConnectionError:
            answer = b""
    assert b"HTTP" not in answer


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_s01_old_versions_of_tls_are_refused(house, version):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(house.authority)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, version
    with socket.create_connection(where(house), 5) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="localhost")


def test_s01_nobody_but_this_machine_reaches_the_page(house):
    assert where(house)[0] == "localhost"
    own = socket.gethostbyname(socket.gethostname())
    if own.startswith("127."):
        pytest.skip("a machine without another address")
    with pytest.raises(OSError, match=r"refused|timed out"):
        socket.create_connection((own, where(house)[1]), 2)
