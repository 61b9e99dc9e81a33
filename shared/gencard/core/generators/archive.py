"""A JSON header and plain arrays as bytes, and back: nothing that runs."""

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.errors import GencardError, InvalidInputError

Arrays = Mapping[str, NDArray[Any]]

_HEADER = "header"

BROKEN = (
    GencardError,
    KeyError,
    MemoryError,  # an array may claim any shape
    NotImplementedError,
    OSError,
    EOFError,
    RecursionError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What reading hostile bytes may raise."""


def archived(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """An npz archive whose array ``header`` is the UTF-8 of a JSON object.

    It holds no times, so that its bytes are a function of the arguments.
    """
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in {_HEADER: np.frombuffer(text.encode(), np.uint8), **arrays}.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), part.getvalue())
    return file.getvalue()


def unarchived(data: bytes, *, most_bytes: int, version: int) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of an archive; raises what is ``BROKEN`` where it is none.

    Args:
        data: The archive.
        most_bytes: Refuse archives whose arrays would take more memory.
        version: What the header must say.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(part.file_size for part in archive.infolist()) > most_bytes:
            raise InvalidInputError(field="model", problem="is too large")
        with np.load(io.BytesIO(data), allow_pickle=False) as parts:
            arrays = {name: parts[name] for name in parts.files}
    header = json.loads(arrays.pop(_HEADER).tobytes())
    if header["version"] != version:
        raise InvalidInputError(field="model", problem="has an unsupported version")
    return header, arrays
