"""Fitted models and arrays as bytes, and back: a JSON header and plain arrays, nothing that runs."""

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import GencardError, InvalidInputError
from gencard.core.generators.contract import Model
from gencard.core.generators.junction_tree import JunctionTree
from gencard.core.generators.models import NetworkModel, Node, TableModel, TreeModel
from gencard.core.generators.support import SupportModel

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
"""Exceptions that reading hostile bytes may raise."""


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
        most_bytes: Refuse archives whose arrays would take more memory.
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


FittedModel = TableModel | TreeModel | SupportModel | NetworkModel

_VERSION = 1


def bytes_of(model: FittedModel) -> bytes:
    """The model as an npz archive, whose array ``header`` is the UTF-8 of a JSON object.

    The header names the format's version, the kind of model and its domain, and the residual where the
    model states one; the other arrays are the model's numbers, bit for bit. Equal models give equal
    bytes.
    """
    return archived(*_parts_of(model))


def draws_of(model: FittedModel) -> list[NDArray[Any]]:
    """Return the numbers that decide, with the words of a seed, which rows the model draws."""
    match model:
        case TableModel():
            return [model.thresholds]
        case SupportModel():
            return [model.shares.ends, model.support.codes]
        case TreeModel() | NetworkModel():
            return [draw.shares.ends for draw in model.draws]


def _parts_of(model: FittedModel) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    own = model.domain
    header: dict[str, Any] = {"version": _VERSION, "attributes": own.attributes, "sizes": own.sizes}
    match model:
        case TableModel():
            header["kind"] = "table"
            arrays: dict[str, NDArray[Any]] = {"probabilities": model.probabilities}
        case TreeModel():
            header |= {"kind": "tree", "cliques": model.tree.cliques, "parents": model.tree.parents}
            arrays = {f"table_{number}": table for number, table in enumerate(model.tables)}
        case SupportModel():
            header["kind"] = "support"
            if model.residual is not None:
                header["residual"] = model.residual
            arrays = {"codes": model.support.codes, "weights": model.weights}
        case NetworkModel():
            nodes = [(node.attribute, node.parents) for node in model.nodes]
            header |= {"kind": "network", "nodes": nodes}
            arrays = {f"table_{number}": node.table for number, node in enumerate(model.nodes)}
    return header, arrays


def model_of(data: bytes, *, most_bytes: int = 2**30) -> FittedModel:
    """The model that ``bytes_of`` wrote; it samples the same rows as the one written.

    Args:
        most_bytes: Refuse archives whose arrays would take more memory.

    Raises:
        InvalidInputError: These are not the bytes of a model of this version, or over the bound.
    """
    try:
        header, arrays = unarchived(data, most_bytes=most_bytes, version=_VERSION)
        domain = Domain(tuple(header["attributes"]), tuple(header["sizes"]))
        match header["kind"]:
            case "table":
                return TableModel.of_scaled(domain, arrays["probabilities"])
            case "tree":
                tree = JunctionTree(tuple(map(tuple, header["cliques"])), tuple(header["parents"]))
                tables = tuple(arrays[f"table_{number}"] for number in range(len(arrays)))
                return TreeModel(domain, tree, tables)
            case "support":
                residual = None if header.get("residual") is None else float(header["residual"])
                return SupportModel(Dataset(domain, arrays["codes"]), arrays["weights"], residual)
            case "network":
                named = enumerate(header["nodes"])
                nodes = (Node(name, tuple(above), arrays[f"table_{n}"]) for n, (name, above) in named)
                return NetworkModel(domain, tuple(nodes))
            case _:
                raise ValueError
    except BROKEN:
        raise InvalidInputError(field="model", problem="the bytes are not a saved model") from None


MOST_BYTES_OF_FIT = 64 << 20
"""Size of the largest fit that is kept for further rows."""


def saved_fit(model: Model) -> bytes:
    """Return a fit as bytes from which the same rows are drawn, bit for bit; empty if it is not kept.

    That is so if the model takes too much memory, or is of a kind that is not saved.
    """
    if not isinstance(model, FittedModel):
        return b""
    if sum(array.nbytes for array in _parts_of(model)[1].values()) > MOST_BYTES_OF_FIT:
        return b""
    saved = bytes_of(model)
    # a sum may depend on how an array lies in memory, and the smallest difference could change a row
    same = all(
        one.shape == other.shape and bool((one == other).all())
        for one, other in zip(draws_of(model), draws_of(model_of(saved)), strict=True)
    )
    return saved if same else b""


@dataclass(frozen=True, slots=True)
class KeptFits:
    """Saved fits of cards in memory, so that further rows cost their draw: one fit for a card.

    The fits that were kept first are dropped first. Threads may share it; two that keep fits at once may
    exceed the bounds until the next fit is kept.
    """

    most_fits: int = 32
    most_bytes: int = 256 << 20
    _fits: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    @property
    def cards(self) -> tuple[str, ...]:
        """The names of the cards whose fits are kept, in the order of keeping."""
        return tuple(self._fits)

    def fit(self, card: str, key: str) -> bytes:
        """Return the fit of a card; empty if none with this key is kept.

        Args:
            key: Names all that the fit depends on.
        """
        kept_key, fit = self._fits.get(card, ("", b""))
        return fit if kept_key == key else b""

    def keep(self, card: str, key: str, fit: bytes) -> None:
        """Keep the fit of a card in place of an earlier one; an empty fit is not kept."""
        if not fit or len(fit) > self.most_bytes:
            return
        self.drop(card)
        self._fits[card] = key, fit
        size = sum(len(one) for _, one in [*self._fits.values()])
        for name, (_, one) in [*self._fits.items()]:
            if len(self._fits) <= self.most_fits and size <= self.most_bytes:
                break
            self.drop(name)
            size -= len(one)

    def drop(self, card: str) -> None:
        self._fits.pop(card, None)
