"""Time until the stewards' page is there with 2,000 proposals waiting, and its size.

``python -m benchmarks.page [--quick] [--json FILE]``

A real Chromium measures its own first paint, of a controller on the same machine over TLS; a steward is
signed in with a passkey. Needs chromium.
"""

import tempfile
from pathlib import Path
from statistics import median

from benchmarks import bench
from gencard.wire.keys import Identity
from tests.page.browsing import Visitor, chromium_running, first_paint, visitor, weight
from tests.page.by_http import PageHouse, page_house
from tests.page.served import enrol_passkey, sign_in, uri_of
from tests.page.waiting import let_wait

FIRST_PAINT, WEIGHT, QUEUE = 1_000.0, 300.0, 50.0
"""Milliseconds, KiB and milliseconds at most."""


def run(quick: bool) -> bench.Result:
    """Open each view some times as a person does, after one visit that fills the browser's cache."""
    waiting, visits = (200, 3) if quick else (2_000, 9)
    with tempfile.TemporaryDirectory() as folder:
        house = page_house(Path(folder))
        cards = let_wait(house, waiting)
        house.start()
        try:
            with chromium_running() as browser, visitor(browser, house.origin) as steward:
                enrol_passkey(house, steward, "sam")
                sign_in(steward)
                rows = [_measured(steward, path, visits) for path in ("/", f"/cards/{cards[-1]}")]
                bare = _without_cache(steward)
            queue_seconds = _queue_seconds(house, visits)
        finally:
            house.stop()
    columns = ("view", "first paint, ms", "weight, KiB")
    table = bench.Table(f"The page with {waiting:,} proposals waiting", columns, rows)
    return bench.Result([table], _targets(rows, bare, queue_seconds * 1e3), {"waiting": waiting})


def _measured(steward: Visitor, path: str, visits: int) -> tuple[str, float, float]:
    """The path without its card, median first paint in ms, weight in KiB."""
    paints = [first_paint(steward.open(path)) for _ in range(visits + 1)][1:]
    name = "queue" if path == "/" else path.split("/")[1].rstrip("s")
    return name, median(paints), weight(steward.page) / 1024


def _without_cache(steward: Visitor) -> float:
    """First paint of the queue in a browser that holds nothing of the page, in ms."""
    steward.devtools.send("Network.setCacheDisabled", {"cacheDisabled": True})
    return first_paint(steward.open("/"))


def _queue_seconds(house: PageHouse, repeats: int) -> float:
    """Seconds in which the desk names what waits, as the page asks it."""
    assert house.controller is not None
    desk = house.controller.controller_state.desk()
    who = Identity.of(uri_of(house, "sam"))
    return bench.seconds(lambda: desk.queue(who), repeats)


def _targets(rows: list[tuple[str, float, float]], bare: float, queue: float) -> list[bench.Target]:
    targets = [
        bench.Target("first paint without cache", bare, FIRST_PAINT, "at most", "ms"),
        bench.Target("queue from the desk", queue, QUEUE, "at most", "ms"),
    ]
    for name, paint, heavy in rows:
        targets.append(bench.Target(f"first paint of {name}", paint, FIRST_PAINT, "at most", "ms"))
        targets.append(bench.Target(f"weight of {name}", heavy, WEIGHT, "at most", "KiB"))
    return targets


if __name__ == "__main__":
    bench.main("page", run)
