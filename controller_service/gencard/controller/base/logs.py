"""The log of the process: JSON lines of a few known keys, and no text of other origin.

Our own loggers say fixed words with fields; a library's record keeps its logger and level, and
loses message, arguments, exception and stack: any of them may quote a request or a record.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import IO

from gencard.controller.base.fair_use import trace_id
from gencard.wire.canonical import time_text

KEYS = ("place", "incident", "kind")
"""Fields that a record of ours may carry (``extra=...``); all others are dropped."""

OURS = "gencard"
WITHHELD = "text withheld"
LONGEST = 200


class Redaction(logging.Filter):
    """Filter that removes every text from a record that is no fixed text of Gencard."""

    def filter(self, record: logging.LogRecord) -> bool:
        ours = record.name == OURS or record.name.startswith(f"{OURS}.")
        record.msg = str(record.msg) if ours and not record.args else WITHHELD
        record.args, record.exc_info, record.exc_text, record.stack_info = (), None, None, None
        return True


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {key: str(getattr(record, key))[:LONGEST] for key in KEYS if getattr(record, key, None)}
        line = {
            "time": time_text(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname,
            "logger": record.name,
            "event": str(record.msg)[:LONGEST],
            "trace": trace_id(),
        }
        return json.dumps(line | fields)


def configure(stream: IO[str] = sys.stderr, level: int = logging.WARNING) -> logging.Handler:
    """Send every record of this process, redacted, to a stream and nowhere else.

    Loggers of gRPC are redacted at their source too, for handlers that are added later.
    """
    handler = logging.StreamHandler(stream)
    handler.addFilter(Redaction())
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=level, force=True)
    return handler


def silence_grpc() -> None:
    """Take the text of exceptions, which gRPC logs, out of its records before any handler sees them."""
    for name in ("grpc._server", "grpc._common", "grpc._interceptor", "grpc._cython.cygrpc", "grpc"):
        logger = logging.getLogger(name)
        if not any(isinstance(existing, Redaction) for existing in logger.filters):
            logger.addFilter(Redaction())
