"""Built-in black boxes beside their peers.

``python -m benchmarks.boxes [--quick] [--peers] [--json FILE]``; each section is a benchmark of its
own too, as ``python -m benchmarks.boxes_private``.
"""

from collections.abc import Callable, Sequence

from benchmarks import bench, boxes_deep, boxes_private, boxes_synthpop

SECTIONS: Sequence[Callable[[bool, bool], bench.Result]] = (
    boxes_private.run,
    boxes_synthpop.run,
    boxes_deep.run,
)
"""Function of each section of the output; called with ``quick`` and ``peers``."""


def run(quick: bool, peers: bool = False) -> bench.Result:
    results = [section(quick, peers) for section in SECTIONS]
    return bench.Result(
        [table for result in results for table in result.tables],
        [target for result in results for target in result.targets],
    )


if __name__ == "__main__":
    bench.main("boxes", run, peers=True)
