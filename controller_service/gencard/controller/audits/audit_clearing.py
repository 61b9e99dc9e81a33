"""A steward clears the evidence against a black box: its next audit is its first try again."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from gencard.controller.state.audits import AuditStore
from gencard.controller.state.database import Database
from gencard.controller.state.event import LONGEST_DETAIL
from gencard.controller.state.event_log import EventLog
from gencard.core.errors import InvalidInputError, NotFoundError


@dataclass(frozen=True, slots=True)
class AuditClearing:
    """Clears evidence of audits, with a reason in the log.

    Args:
        steward: Who decides; written into the log.
    """

    database: Database
    log: EventLog
    clock: Callable[[], datetime]
    steward: str
    store: AuditStore

    def clear(self, dataset: str, black_box: str, remark: str) -> int:
        """Let no ended audit of a black box on a dataset count any more.

        Cards whose audit failed stay failed. Audits that still run, and those of the same bytes under
        another name, keep counting.

        Args:
            dataset: datasets/{dataset}.
            black_box: Its name in the settings.
            remark: Why; one line of at most 200 characters, written into the log.

        Returns:
            How many audits were cleared.

        Raises:
            InvalidInputError: The remark is empty, too long, or not one printable line.
            NotFoundError: No ended audit of this black box counts on the dataset.
        """
        if not remark.strip() or len(remark) > LONGEST_DETAIL or not remark.isprintable():
            problem = f"must be one printable line of 1 to {LONGEST_DETAIL} characters"
            raise InvalidInputError(field="remark", problem=problem)
        with self.database.transaction() as tx:
            now = self.clock()
            cleared = self.store.clear(tx, dataset, black_box, now)
            if not cleared:
                raise NotFoundError
            self.log.append(
                tx,
                action="clear-audits",
                actor=self.steward,
                resource=dataset,
                details={"black_box": black_box, "remark": remark, "tries": str(cleared)},
                now=now,
            )
        return cleared
