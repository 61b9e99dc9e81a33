"""How much of the state one analyst may fill, and the free space that is kept for ledger and log."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gencard.controller.base.disk import check_space, free_bytes
from gencard.core.errors import QuotaExceededError

if TYPE_CHECKING:  # the health check, which runs often, needs no database
    from gencard.controller.state.cards import CardUsage

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Quotas:
    """Bounds on what one analyst's cards and releases take of the state.

    Args:
        open_proposals: Proposals and offers that are neither agreed nor ended.
        cards: Cards in whatever state, ended ones included: they stay in the state.
        card_mib: Size of all of them together, in MiB; the texts of their purposes are a part of it.
        releases: Releases of all cards, those that are being made included.
        release_mib: Size of all of them together, in MiB.
        reserve_mib: Free space below which no card, offer or operation begins, in MiB.
        folder: The state's folder.
    """

    open_proposals: int
    cards: int
    card_mib: int
    releases: int
    release_mib: int
    reserve_mib: int
    folder: Path
    free: Callable[[Path], int] = free_bytes

    def check_space(self) -> None:
        """Raises StorageReserveError where only ledger and log may still write."""
        check_space(self.folder, self.reserve_mib, self.free)

    def check_size(self, usage: "CardUsage") -> None:
        """Raises QuotaExceededError where an analyst's cards may not grow."""
        if usage.size >= self.card_mib * _MIB:
            raise QuotaExceededError(what="MiB of cards", limit=self.card_mib, setting="card_mib")

    def check_new(self, usage: "CardUsage") -> None:
        """Raises QuotaExceededError where an analyst may not have another card."""
        self.check_size(usage)
        if usage.cards >= self.cards:
            raise QuotaExceededError(what="cards", limit=self.cards, setting="cards")
        if usage.open >= self.open_proposals:
            setting = "open_proposals"
            raise QuotaExceededError(what="open proposals", limit=self.open_proposals, setting=setting)

    def check_release(self, number: int, size: int) -> None:
        """Raises QuotaExceededError where an analyst's releases would be too many or too large.

        Args:
            number: Of the analyst's releases, without the new one.
            size: Of all of them with the new one, in bytes.
        """
        if number >= self.releases:
            raise QuotaExceededError(what="releases", limit=self.releases, setting="releases")
        if size > self.release_mib * _MIB:
            limit, setting = self.release_mib, "release_mib"
            raise QuotaExceededError(what="MiB of releases", limit=limit, setting=setting)
