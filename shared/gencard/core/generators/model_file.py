"""Fitted models as bytes, and back: a JSON header and plain arrays, nothing that runs."""

import io
import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import GencardError, InvalidInputError
from gencard.core.generators.junction_tree import JunctionTree
from gencard.core.generators.support_model import SupportModel
from gencard.core.generators.table_model import TableModel
from gencard.core.generators.tree_model import TreeModel

FittedModel = TableModel | TreeModel | SupportModel

Arrays = Mapping[str, NDArray[Any]]

_VERSION = 1
_HEADER = "header"

_BROKEN = (
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


def bytes_of(model: FittedModel) -> bytes:
    """The model as an npz archive, whose array ``header`` is the UTF-8 of a JSON object.

    The header names the format's version, the kind of model and its domain; the other arrays are the
    model's numbers, bit for bit. Equal models give equal bytes.
    """
    header: dict[str, Any] = {
        "version": _VERSION,
        "attributes": model.domain.attributes,
        "sizes": model.domain.sizes,
    }
    match model:
        case TableModel():
            header["kind"] = "table"
            arrays: dict[str, NDArray[Any]] = {"probabilities": model.probabilities}
        case TreeModel():
            header |= {"kind": "tree", "cliques": model.tree.cliques, "parents": model.tree.parents}
            arrays = {f"table_{number}": table for number, table in enumerate(model.tables)}
        case SupportModel():
            header["kind"] = "support"
            arrays = {"codes": model.support.codes, "weights": model.weights}
    return _archive(header, arrays)


def model_of(data: bytes, *, most_bytes: int = 2**30) -> FittedModel:
    """The model that ``bytes_of`` wrote; it samples the same rows as the one written.

    Args:
        data: The archive.
        most_bytes: Refuse archives whose arrays would take more memory.

    Raises:
        InvalidInputError: These are not the bytes of a model of this version, or over the bound.
    """
    try:
        header, arrays = _read(data, most_bytes)
        domain = Domain(tuple(header["attributes"]), tuple(header["sizes"]))
        return _KINDS[header["kind"]](domain, header, arrays)
    except _BROKEN:
        raise InvalidInputError(field="model", problem="these are not the bytes of a model") from None


def _archive(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """An npz archive without times, so that its bytes are a function of the model."""
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in {_HEADER: np.frombuffer(text.encode(), np.uint8), **arrays}.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), part.getvalue())
    return file.getvalue()


def _read(data: bytes, most_bytes: int) -> tuple[dict[str, Any], Arrays]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(part.file_size for part in archive.infolist()) > most_bytes:
            raise InvalidInputError(field="model", problem="it is too large")
        with np.load(io.BytesIO(data), allow_pickle=False) as parts:
            arrays = {name: parts[name] for name in parts.files}
    header = json.loads(arrays.pop(_HEADER).tobytes())
    if header["version"] != _VERSION:
        raise InvalidInputError(field="model", problem="it has another version")
    return header, arrays


def _table(domain: Domain, _: Mapping[str, Any], arrays: Arrays) -> TableModel:
    return TableModel(domain, arrays["probabilities"])


def _tree(domain: Domain, header: Mapping[str, Any], arrays: Arrays) -> TreeModel:
    tree = JunctionTree(tuple(map(tuple, header["cliques"])), tuple(header["parents"]))
    return TreeModel(domain, tree, tuple(arrays[f"table_{number}"] for number in range(len(arrays))))


def _support(domain: Domain, _: Mapping[str, Any], arrays: Arrays) -> SupportModel:
    return SupportModel(Dataset(domain, arrays["codes"]), arrays["weights"])


_KINDS: Mapping[str, Callable[[Domain, Mapping[str, Any], Arrays], FittedModel]] = {
    "table": _table,
    "tree": _tree,
    "support": _support,
}
