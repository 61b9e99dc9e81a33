"""The page speaks TLS and nothing else, with a certificate that the controller's authority signed."""

import socket
import ssl

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from playwright.sync_api import Error

from gencard.controller.wiring.serving import tls_files
from gencard.core.errors import InvalidInputError
from tests.page.browsing import needs_chromium
from tests.page.by_http import page_house


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


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """A house, not started, whose key has a passphrase that the settings do not name."""
    house = page_house(tmp_path_factory.mktemp("locked"))
    file = house.folder / "server" / "key.pem"
    key = load_pem_private_key(file.read_bytes(), None)
    encryption = BestAvailableEncryption("a long passphrase, ü".encode())
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    return house


def with_passphrase(house, content, mode=0o600):
    """Settings that name a passphrase's file."""
    file = house.folder / "passphrase"
    file.unlink(missing_ok=True)
    file.touch(mode)
    file.write_bytes(content)
    text = house.settings_file.read_text()
    if "key_passphrase_file" not in text:
        line = '[server]\nkey_passphrase_file = "passphrase"\n'
        house.settings_file.write_text(text.replace("[server]\n", line, 1))
    return house.settings()


def test_s01_a_key_without_its_passphrase_says_what_to_write(locked):
    """No terminal is asked, where a service would wait for ever."""
    with pytest.raises(InvalidInputError, match=r"server\.key: has a passphrase.*key_passphrase_file"):
        tls_files(locked.settings())


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        (b"another", 0o600, "does not open"),
        (b"", 0o600, "secret"),
        (b"\xff", 0o600, "UTF-8"),
        (b"a long passphrase", 0o644, "0600"),
    ],
)
def test_s01_a_passphrase_that_is_wrong_or_public_is_refused(locked, content, mode, problem):
    settings = with_passphrase(locked, content, mode)
    with pytest.raises(InvalidInputError, match=f"key_passphrase_file.*{problem}") as refusal:
        tls_files(settings)
    assert "long passphrase" not in str(refusal.value)


def test_s01_service_and_page_open_a_key_with_its_passphrase(locked):
    with_passphrase(locked, "a long passphrase, ü\n".encode())
    try:
        locked.start()
        trust = ssl.create_default_context(cafile=str(locked.authority))
        assert httpx.get(f"{locked.origin}/sign-in", verify=trust).status_code == 200
        with locked.analyst() as analyst:
            assert analyst.datasets()
    finally:
        locked.stop()
