"""Receivers of word: a real HTTPS server that does as a script says, and a real SMTP server."""

import socket
import ssl
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from gencard.controller.people.keys import issue, new_authority

SECRET = b"0123456789abcdef0123456789abcdef"
PASSWORD = "correct horse"


@dataclass
class Receiver:
    """Receiver of mail and webhooks: its address, and the messages that came.

    Args:
        port: On localhost.
        authority: File with the certificate of the receiver's authority.
        script: Statuses to answer with, in turn; then 204. "slow": no answer within the patience.
    """

    port: int
    authority: Path
    script: list[object] = field(default_factory=list)
    came: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


def tls_of(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's TLS for localhost, by an authority of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    authority = new_authority("receivers.test", now)
    uri = "spiffe://receivers.test/service/controller/receiver"
    issue(authority, uri, now, hosts=("localhost",)).write(folder)
    (folder / "authority.pem").write_bytes(authority.certificate_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context, folder / "authority.pem"


@contextmanager
def https_receiver(folder: Path, *script: object):
    """Serves on a free port until the end of the block."""
    context, authority = tls_of(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.came.append(({name.lower(): value for name, value in self.headers.items()}, body))
            status = receiver.script.pop(0) if receiver.script else 204
            if status == "slow":
                time.sleep(1.5)
                return
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", f"https://localhost:{receiver.port}/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("localhost", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    receiver = Receiver(server.server_address[1], authority, list(script))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def smtp_receiver(folder: Path):
    """A mail server that wants STARTTLS and a password; ``came`` holds envelopes."""
    context, authority = tls_of(folder)
    receiver = Receiver(free_port(), authority)

    class Handler:
        async def handle_DATA(self, _server, _session, envelope):
            receiver.came.append((envelope.mail_from, envelope.rcpt_tos, envelope.content))
            return "250 taken"

    def authenticator(_server, _session, _envelope, _mechanism, data):
        return AuthResult(success=(data.login, data.password) == (b"gencard", PASSWORD.encode()))

    controller = Controller(
        Handler(),
        hostname="localhost",
        port=receiver.port,
        tls_context=context,
        require_starttls=True,
        auth_required=True,
        authenticator=authenticator,
    )
    controller.start()
    try:
        yield receiver
    finally:
        controller.stop()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return int(one.getsockname()[1])


def secret_file(file: Path, text: str) -> Path:
    """A file that its owner alone may read."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(text)
    return file
