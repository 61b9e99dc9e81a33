"""Advice to a steward at the controller's shell."""

import re
from collections.abc import Iterator

from gencard.controller.shell import advice_of
from gencard.core.errors import DatasetUnavailableError, GencardError


def kinds(kind: type[GencardError] = GencardError) -> Iterator[type[GencardError]]:
    for one in kind.__subclasses__():
        yield one
        yield from kinds(one)


def test_nobody_is_sent_to_the_steward_by_the_stewards_shell():
    for kind in kinds():
        error = kind.__new__(kind)
        Exception.__init__(error)
        error.fields = {}
        advice = advice_of(error)
        assert advice, kind
        assert not re.search(r"(ask|tell) the (controller's )?steward", advice, re.IGNORECASE), kind


def test_records_that_cannot_be_read_are_for_the_steward_to_look_at():
    assert "check` name the line or cell" in advice_of(DatasetUnavailableError())
