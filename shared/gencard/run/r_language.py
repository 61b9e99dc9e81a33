"""Programs in R: how they are known, what starts them, and how the records reach them.

A program in R begins with the line ``#!/usr/bin/env Rscript``: its digest, which a card names, fixes its
language too. It is started by ``start.R``, which has ``records()`` and ``output`` as in Python.

The request is binary, little-endian: "gencard.r.v1", seed, rows, columns, names; then column by column
its kind and its values, doubles or 32-bit integers, those of factors followed by the levels. A word is
its length in bytes and UTF-8.
"""

from collections.abc import Iterator
from importlib.resources import files

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gencard.core.coding import Attribute, Edges
from gencard.core.errors import InvalidInputError
from gencard.core.scale import Scale
from gencard.core.types import FloatArray
from gencard.run.levels import Stored, is_boolean, is_integer, is_ordered, names_of
from gencard.wire.black_box import BoxRequest

FIRST_LINE = "#!/usr/bin/env Rscript"
"""First line of every program in R."""

R = "R"
"""Library of a card that lets programs in R run. Packages of R are named "R-survival" and so on."""

ENDINGS = (".r", ".R")

_FORMAT = "gencard.r.v1"
_WHOLE = np.dtype("<i4")
_ABSENT = np.iinfo(np.int32).min
"""R's NA among integers."""

_MOST_WHOLE = np.iinfo(np.int32).max


def is_r(program: bytes) -> bool:
    """Whether a program is in R; every other one is in Python."""
    first = program.split(b"\n", 1)[0]
    return first.startswith(b"#!") and first.rstrip().endswith(b"Rscript")


def check_language(name: str, program: bytes) -> None:
    """Raises InvalidInputError where a file is named as one in R and is none."""
    if name.endswith(ENDINGS) and not is_r(program):
        problem = "has the file name of an R program, but does not begin like one"
        advice = f"Begin it with the line {FIRST_LINE}"
        raise InvalidInputError(field="program", problem=problem, advice=advice)


def start_file() -> bytes:
    """The program in R that starts a program in R, whose path is its argument."""
    return files("gencard.run").joinpath("start.R").read_bytes()


def bytes_of_r_request(request: BoxRequest) -> bytes:
    """Write the request for ``start.R``: the columns that ``session.frame_of`` gives a Python program.

    Raises:
        InvalidInputError: The request is for no analysis.
    """
    if request.coding is None:
        raise InvalidInputError(field="request", problem="is not for an analysis")
    dataset = request.dataset
    names = dataset.domain.attributes
    numbers = (request.seed & _MOST_WHOLE, len(dataset), len(names))
    parts = [_word(_FORMAT), np.array(numbers, _WHOLE).tobytes(), *map(_word, names)]
    for name in names:
        codes = dataset.column(name).astype(np.int64)
        parts += _column(request.coding.attribute(name), codes, Stored(request.stored))
    return b"".join(parts)


def _column(attribute: Attribute, codes: NDArray[np.int64], stored: Stored) -> Iterator[bytes]:
    """Kind and values of one attribute, as they are in a data frame."""
    match attribute.coding:
        case Edges(dates=True) as edges:
            yield from (_word("dates"), _doubles(np.floor(stored.of(attribute.name, edges, codes))))
        case Edges(decimals=0, scale=Scale()) as edges if stored.is_value(attribute.name):
            yield from _integers(stored.of(attribute.name, edges, codes), edges.edges)
        case Edges() as edges:
            yield from (_word("numbers"), _doubles(stored.of(attribute.name, edges, codes)))
        case _ if is_boolean(attribute):
            yield from (_word("booleans"), _known(codes, codes, 2))
        case _ if is_integer(attribute):
            table = np.array([*map(float, names_of(attribute)), np.nan])
            yield from _integers(table[codes], table[:-1])
        case _:
            names = names_of(attribute)
            yield _word("ordered" if is_ordered(attribute) else "factor")
            yield _known(codes + 1, codes, len(names))
            yield np.array(len(names), _WHOLE).tobytes()
            yield from map(_word, names)


def _integers(values: FloatArray, declared: ArrayLike) -> Iterator[bytes]:
    """Whole numbers, NaN being absent; as doubles if R has no integers of the size that is declared."""
    if np.abs(declared).max() > _MOST_WHOLE:
        yield from (_word("numbers"), _doubles(values))
    else:
        integers = np.where(np.isnan(values), _ABSENT, values).astype(_WHOLE)
        yield from (_word("integers"), integers.tobytes())


def _known(values: NDArray[np.int64], codes: NDArray[np.int64], levels: int) -> bytes:
    """Integers, absent where a code stands for "missing"."""
    return np.where(codes < levels, values, _ABSENT).astype(_WHOLE).tobytes()


def _doubles(values: FloatArray) -> bytes:
    return np.asarray(values, "<f8").tobytes()


def _word(text: str) -> bytes:
    data = text.encode()
    return np.array(len(data), _WHOLE).tobytes() + data
