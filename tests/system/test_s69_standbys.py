"""S69: a leader that is killed or stopped under load is replaced, and nothing is lost or freed."""

import pytest

from benchmarks.chaos import MOST_SECONDS, rounds_of


@pytest.mark.timeout(240)
def test_s69_another_one_leads_in_time_and_nothing_is_lost(tmp_path):
    """One leader is killed; the next is stopped, and woken once the other one leads."""
    played, work = rounds_of(tmp_path, rounds=2, analysts=2, every=2)
    assert [one.kind for one in played] == ["killed", "stopped"]
    assert [one.lost for one in played] == [(), ()]
    assert not work.refused
    assert max(one.seconds for one in played) < 3 * MOST_SECONDS  # of a machine with other work
