"""Whether rows are exactly as they were delivered: columns and their order, types, values, index, file.

A digest over codes says nothing of the numbers drawn inside intervals, of types or of further columns.
So what was delivered is made again from codes and seed, and compared whole.
"""

import tempfile
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from gencard.client.files.files import is_parquet, parquet_problem, write_rows
from gencard.client.files.numbers import Numbers
from gencard.core.coding import Coding, Edges
from gencard.core.dataset import Dataset
from gencard.core.errors import VerificationError

if TYPE_CHECKING:
    import pandas as pd


def check_delivered_file(
    path: Path, dataset: Dataset, coding: Coding, drawing_seeds: Sequence[int]
) -> None:
    """Compare a file with the one that a release of these rows writes, with numbers or with intervals.

    Args:
        dataset: The codes that were read from the file.
        drawing_seeds: What numbers inside intervals may be drawn by, one for each receipt.

    Raises:
        VerificationError: The file is not as it was delivered; names what differs.
    """
    problems = [
        _file_problem(path, dataset, coding, numbers)
        for numbers in _variants(dataset, coding, drawing_seeds)
    ]
    if None not in problems:
        raise VerificationError(
            problem=f"{path.name} differs from what was delivered: {_nearest(problems)}"
        )


def check_delivered_frame(
    frame: "pd.DataFrame", dataset: Dataset, coding: Coding, drawing_seeds: Sequence[int]
) -> None:
    """Compare a frame with the one that a release of these rows gives, with numbers or with intervals.

    Raises:
        VerificationError: The frame is not as it was delivered; names what differs.
    """
    from gencard.client.files.frames import frame_of  # noqa: PLC0415 - pandas only where frames are

    problems = [
        _frame_problem(frame, frame_of(dataset, coding, numbers))
        for numbers in _variants(dataset, coding, drawing_seeds)
    ]
    if None not in problems:
        raise VerificationError(problem=f"the data differ from what was delivered: {_nearest(problems)}")


def _variants(dataset: Dataset, coding: Coding, seeds: Sequence[int]) -> list[Numbers | None]:
    """The forms in which a release delivers these codes: numbers by each seed, and intervals."""
    names = dataset.domain.attributes
    if any(isinstance(coding.attribute(name).coding, Edges) for name in names):
        return [*map(Numbers, dict.fromkeys(seeds)), None]
    return [None]


def _nearest(problems: list[str | None]) -> str:
    """The problem of the variant that the data come nearest to: values differ last of all."""
    told = [problem for problem in problems if problem is not None]
    return next((problem for problem in told if problem.startswith("the values")), told[0])


def _file_problem(path: Path, dataset: Dataset, coding: Coding, numbers: Numbers | None) -> str | None:
    """What differs from the file that is written from these codes; None where nothing does."""
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / f"again{path.suffix.lower()}"
        write_rows(dataset, coding, again, numbers)
        if _same_bytes(path, again):
            return None
        return parquet_problem(path, again) if is_parquet(path) else _text_problem(path, again)


def _same_bytes(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as left, other.open("rb") as right:
        while block := left.read(1 << 20):
            if block != right.read(1 << 20):
                return False
    return True


def _text_problem(path: Path, again: Path) -> str:
    """The first line of a CSV file that differs, by its number."""
    with path.open("rb") as left, again.open("rb") as right:
        lines = enumerate(zip_longest(left, right), start=1)
        number = next((number for number, (one, other) in lines if one != other), 1)
    return "the columns or their order" if number == 1 else f"the values in line {number}"


def _frame_problem(frame: "pd.DataFrame", expected: "pd.DataFrame") -> str | None:
    """What differs from the frame that was delivered; None where nothing does."""
    if list(frame.columns) != list(expected.columns):
        return "the columns or their order"
    if not frame.index.equals(expected.index):
        return "the index"
    for name in expected.columns:
        if frame[name].dtype != expected[name].dtype:
            return f"the type of '{name}'"
    for name in expected.columns:
        if not frame[name].equals(expected[name]):
            return f"the values of '{name}'"
    return None
