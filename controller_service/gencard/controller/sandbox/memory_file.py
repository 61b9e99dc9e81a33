"""Files that have no name: in memory, for one child process to read."""

import os
from types import TracebackType


class MemoryFiles:
    """Some of them, closed together."""

    def __init__(self) -> None:
        self._open: list[int] = []

    def __enter__(self) -> "MemoryFiles":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in self._open:
            os.close(descriptor)

    def of(self, content: bytes) -> int:
        """A descriptor at the beginning of this content."""
        descriptor = os.memfd_create("box", os.MFD_CLOEXEC)
        self._open.append(descriptor)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(self._open)
