"""Analysts call at once, alone and beside one who abuses the service: a small ``benchmarks.load``."""

from collections import Counter

import pytest

from benchmarks.load import ABUSER, MIX, abused, callers, phase
from benchmarks.stream import serving

ANALYSTS = [f"analyst{number}" for number in range(5)]
CALLS, SECONDS = 10, 1.0


@pytest.fixture(scope="module")
def phases(tmp_path_factory):
    """All calls alone, the same beside abuse, and how the abuser's ended."""
    endings = Counter()
    with (
        serving(tmp_path_factory.mktemp("load"), [*ANALYSTS, ABUSER]) as (home, server),
        callers(home, [*ANALYSTS, ABUSER]) as (*people, mallory),
    ):
        alone = phase(server, people, CALLS, SECONDS)
        with abused(home, mallory.card, mallory.release, endings):
            beside = phase(server, people, CALLS, SECONDS)
    return alone, beside, endings


def test_every_call_of_every_analyst_succeeds(phases):
    alone, beside, _ = phases
    for each in (alone.timings, beside.timings):
        assert not each.errors
        assert len(each.of()) == len(ANALYSTS) * CALLS
        assert set(each.seconds) == set(MIX)


def test_s71_who_abuses_the_service_is_refused_and_takes_no_memory(phases):
    _, beside, endings = phases
    assert {"huge: RESOURCE_EXHAUSTED", "flood: OK"} <= set(endings)
    assert "huge: OK" not in endings
    start, _, end = beside.memory
    assert end - start < 64
