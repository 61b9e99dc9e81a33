"""Built-in black boxes beside their peers.

``python -m benchmarks.boxes [--quick] [--json FILE]``; each section is a benchmark of its own too, as
``python -m benchmarks.boxes_private``. The first run makes the peers' environments.
"""

from collections.abc import Callable, Sequence

from benchmarks import bench, boxes_deep, boxes_private, boxes_synthpop

SECTIONS: Sequence[Callable[[bool], bench.Result]] = (
    boxes_private.run,
    boxes_synthpop.run,
    boxes_deep.run,
)
"""What each section shows; called with whether only a small part is wanted."""


def run(quick: bool) -> bench.Result:
    results = [section(quick) for section in SECTIONS]
    return bench.Result(
        [table for result in results for table in result.tables],
        [target for result in results for target in result.targets],
    )


if __name__ == "__main__":
    bench.main("boxes", run)
