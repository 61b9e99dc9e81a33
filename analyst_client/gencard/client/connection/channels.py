"""Channels to controllers of which one leads: calls go to that, and find it again after a takeover."""

import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import grpc

TAKEOVER_SECONDS = 30.0
"""So long calls look for the controller that leads, from their first failure on."""
_PAUSE = 0.2
"""Seconds after each address was tried once more."""


class Channels(grpc.Channel):
    """One channel for each address; new calls use the one that answered last.

    Args:
        addresses: ``host:port`` each.
        channel: Makes the channel to one of them.
    """

    def __init__(self, addresses: Sequence[str], channel: Callable[[str], grpc.Channel]) -> None:
        self.addresses = tuple(addresses)
        self._channels = [channel(address) for address in addresses]
        self._place, self._lock = 0, Lock()

    @property
    def address(self) -> str:
        """That of the next call."""
        return self.addresses[self._place]

    @property
    def present(self) -> grpc.Channel:
        return self._channels[self._place]

    def turn(self, failed: str) -> None:
        """Have the next call go to another address than the one that failed; a pause each round."""
        with self._lock:
            if self.address == failed:  # of many calls that fail at once one turns
                self._place = (self._place + 1) % len(self._channels)
            pause = self._place == 0
        if pause:
            time.sleep(_PAUSE)

    def unary_unary(self, *arguments: Any, **options: Any) -> Any:
        return self._calls("unary_unary", arguments, options)

    def unary_stream(self, *arguments: Any, **options: Any) -> Any:
        return self._calls("unary_stream", arguments, options)

    def stream_unary(self, *arguments: Any, **options: Any) -> Any:
        return self._calls("stream_unary", arguments, options)

    def stream_stream(self, *arguments: Any, **options: Any) -> Any:
        return self._calls("stream_stream", arguments, options)

    def _calls(self, kind: str, arguments: Any, options: Any) -> Callable[..., Any]:
        """What a stub keeps of a method: made at each channel, chosen at each call."""
        made = [getattr(channel, kind)(*arguments, **options) for channel in self._channels]

        def call(*request: Any, **settings: Any) -> Any:
            return made[self._place](*request, **settings)

        return call

    def subscribe(self, callback: Any, try_to_connect: bool = False) -> None:  # gRPC's
        self.present.subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Any) -> None:
        for channel in self._channels:
            channel.unsubscribe(callback)

    def close(self) -> None:
        for channel in self._channels:
            channel.close()

    def __enter__(self) -> "Channels":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
