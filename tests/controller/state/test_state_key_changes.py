"""Changes of keys in the state: each number of a use once, and read back in order."""

import pytest

from gencard.controller.state.log import add_change, all_changes, newest_change
from gencard.core.errors import StorageError


def test_s41_changes_come_back_in_order_of_use_and_number(database):
    with database.transaction() as tx:
        assert newest_change(tx, "cards") is None
        for use, number in (("log", 1), ("cards", 1), ("cards", 2)):
            add_change(tx, use, number, f"{use} {number}".encode())
    with database.reading() as tx:
        assert all_changes(tx) == [b"cards 1", b"cards 2", b"log 1"]
        assert [newest_change(tx, use) for use in ("cards", "log", "other")] == [
            b"cards 2",
            b"log 1",
            None,
        ]


def test_s41_a_number_is_used_once(database):
    """Two rotations that raced could not both be the next one."""
    with database.transaction() as tx:
        add_change(tx, "cards", 1, b"first")
    with pytest.raises(StorageError), database.transaction() as tx:
        add_change(tx, "cards", 1, b"second")
    with database.reading() as tx:
        assert all_changes(tx) == [b"first"]
