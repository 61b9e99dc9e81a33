"""The rules that were last read, to compare the next ones with."""

import json
from collections.abc import Mapping

from sqlalchemy import Connection, delete, insert, select

from gencard.controller.state.tables import rules


def kept_rules(tx: Connection) -> dict[str, dict[str, str]]:
    """Fields and their texts, by resource; empty before the first start."""
    rows = tx.execute(select(rules.c.resource, rules.c.fields))
    return {resource: json.loads(fields) for resource, fields in rows}


def keep_rules(tx: Connection, new: Mapping[str, Mapping[str, str]]) -> None:
    """Put these in the place of the last ones."""
    tx.execute(delete(rules))
    if new:
        rows = [
            {"resource": resource, "fields": json.dumps(dict(fields))}
            for resource, fields in new.items()
        ]
        tx.execute(insert(rules), rows)
