"""MST, AIM and PrivBayes beside other people's, at the same epsilon: error, and time from start to rows.

``python -m benchmarks.boxes_private [--quick] [--json FILE]``
"""

from benchmarks import bench


def run(quick: bool) -> bench.Result:  # noqa: ARG001 - the sections' common form
    return bench.Result([], [])


if __name__ == "__main__":
    bench.main("boxes_private", run)
