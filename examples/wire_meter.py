"""A meter on the wire: counts what crosses between two processes on loopback, and changes nothing."""

import socket
import threading
from dataclasses import dataclass, field

BLOCK = 1 << 16


@dataclass(slots=True)
class Crossed:
    """Bytes in each direction, encrypted as they were sent."""

    up: int = 0
    down: int = 0


@dataclass(slots=True)
class WireMeter:
    """Listens on a free port and passes everything on to ``port``."""

    target: int
    crossed: Crossed = field(default_factory=Crossed)
    _listener: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def since_last(self) -> Crossed:
        """Return what crossed since the last call of this method."""
        crossed, self.crossed = self.crossed, Crossed()
        return crossed

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            for source, sink, direction in ((client, server, "up"), (server, client, "down")):
                threading.Thread(
                    target=self._pass_on, args=(source, sink, direction), daemon=True
                ).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, direction: str) -> None:
        try:
            while block := source.recv(BLOCK):
                crossed = self.crossed
                setattr(crossed, direction, getattr(crossed, direction) + len(block))
                sink.sendall(block)
        except OSError:
            pass
        finally:
            source.close()
            sink.close()
