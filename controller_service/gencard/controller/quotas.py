"""How much of the state one analyst may fill, and the free space that is kept for ledger and log."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gencard.controller.state.cards import CardUsage
from gencard.core.errors import QuotaExceededError, StorageReserveError

_MIB = 1 << 20


def free_bytes(folder: Path) -> int:
    """Free space of the file system that holds a folder, in bytes."""
    return shutil.disk_usage(folder).free


@dataclass(frozen=True, slots=True)
class Quotas:
    """Bounds on what one analyst's cards take of the state.

    Args:
        open_proposals: Proposals and offers that are neither agreed nor ended.
        cards: Cards in whatever state, ended ones included: they stay in the state.
        card_mib: Size of all of them together, in MiB; the texts of their purposes are a part of it.
        reserve_mib: Free space below which no card, offer or operation begins, in MiB.
        folder: The state's folder.
    """

    open_proposals: int
    cards: int
    card_mib: int
    reserve_mib: int
    folder: Path
    free: Callable[[Path], int] = free_bytes

    def check_space(self) -> None:
        """Raises StorageReserveError where only ledger and log may still write."""
        if self.free(self.folder) < self.reserve_mib * _MIB:
            raise StorageReserveError(reserve=self.reserve_mib)

    def check_size(self, usage: CardUsage) -> None:
        """Raises QuotaExceededError where an analyst's cards may not grow."""
        if usage.size >= self.card_mib * _MIB:
            raise QuotaExceededError(what="MiB of cards", limit=self.card_mib, setting="card_mib")

    def check_new(self, usage: CardUsage) -> None:
        """Raises QuotaExceededError where an analyst may not have another card."""
        self.check_size(usage)
        if usage.cards >= self.cards:
            raise QuotaExceededError(what="cards", limit=self.cards, setting="cards")
        if usage.open >= self.open_proposals:
            setting = "open_proposals"
            raise QuotaExceededError(what="open proposals", limit=self.open_proposals, setting=setting)
