"""A man in the middle: ends a caller's TLS, keeps every byte in clear, passes it on as that caller.

It can, because the tests hold the keys of both sides. HTTP/2 squeezes headers, so that a status cannot
be read in these bytes: ``recorder.Recorder`` keeps the headers as the caller sees them.
"""

import asyncio
import ssl
import threading
from dataclasses import dataclass, field
from pathlib import Path

_BLOCK = 1 << 16


@dataclass
class TlsProxy:
    """Listens for one person in front of one controller.

    Args:
        server: Folder with the controller's own certificate and key.
        person: Folder of the person for whom it passes on.
        upstream: Port of the controller.
    """

    server: Path
    person: Path
    upstream: int
    heard: bytearray = field(default_factory=bytearray)
    port: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def start(self) -> "TlsProxy":
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(60)
        return self

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _listen(self) -> int:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server / "certificate.pem", self.server / "key.pem")
        context.set_alpn_protocols(["h2"])
        self._server = await asyncio.start_server(self._serve, "localhost", 0, ssl=context)
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        context = ssl.create_default_context(cafile=str(self.person / "authority.pem"))
        context.load_cert_chain(self.person / "certificate.pem", self.person / "key.pem")
        context.set_alpn_protocols(["h2"])
        onward = await asyncio.open_connection("localhost", self.upstream, ssl=context)
        await asyncio.gather(self._pass(reader, onward[1]), self._pass(onward[0], writer))

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while block := await source.read(_BLOCK):
                self.heard += block
                target.write(block)
                await target.drain()
        except OSError:
            pass
        finally:
            target.close()

    async def _hang_up(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=5)
