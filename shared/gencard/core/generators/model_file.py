"""Fitted models as bytes, and back: a JSON header and plain arrays, nothing that runs."""

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError
from gencard.core.generators.archive import BROKEN, Arrays, archived, unarchived
from gencard.core.generators.maximum_entropy.junction_tree import JunctionTree
from gencard.core.generators.maximum_entropy.table_model import TableModel
from gencard.core.generators.maximum_entropy.tree_model import TreeModel
from gencard.core.generators.network_model import NetworkModel, Node
from gencard.core.generators.support.support_model import SupportModel

FittedModel = TableModel | TreeModel | SupportModel | NetworkModel

_VERSION = 1


def bytes_of(model: FittedModel) -> bytes:
    """The model as an npz archive, whose array ``header`` is the UTF-8 of a JSON object.

    The header names the format's version, the kind of model and its domain, and the residual where the
    model states one; the other arrays are the model's numbers, bit for bit. Equal models give equal
    bytes.
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
            if model.residual is not None:
                header["residual"] = model.residual
            arrays = {"codes": model.support.codes, "weights": model.weights}
        case NetworkModel():
            nodes = [(node.attribute, node.parents) for node in model.nodes]
            header |= {"kind": "network", "nodes": nodes}
            arrays = {f"table_{number}": node.table for number, node in enumerate(model.nodes)}
    return archived(header, arrays)


def model_of(data: bytes, *, most_bytes: int = 2**30) -> FittedModel:
    """The model that ``bytes_of`` wrote; it samples the same rows as the one written.

    Args:
        data: The archive.
        most_bytes: Refuse archives whose arrays would take more memory.

    Raises:
        InvalidInputError: These are not the bytes of a model of this version, or over the bound.
    """
    try:
        header, arrays = unarchived(data, most_bytes=most_bytes, version=_VERSION)
        domain = Domain(tuple(header["attributes"]), tuple(header["sizes"]))
        return _KINDS[header["kind"]](domain, header, arrays)
    except BROKEN:
        raise InvalidInputError(field="model", problem="the bytes are not a saved model") from None


def _table(domain: Domain, _: Mapping[str, Any], arrays: Arrays) -> TableModel:
    return TableModel(domain, arrays["probabilities"])


def _tree(domain: Domain, header: Mapping[str, Any], arrays: Arrays) -> TreeModel:
    tree = JunctionTree(tuple(map(tuple, header["cliques"])), tuple(header["parents"]))
    return TreeModel(domain, tree, tuple(arrays[f"table_{number}"] for number in range(len(arrays))))


def _support(domain: Domain, header: Mapping[str, Any], arrays: Arrays) -> SupportModel:
    residual = None if header.get("residual") is None else float(header["residual"])
    return SupportModel(Dataset(domain, arrays["codes"]), arrays["weights"], residual)


def _network(domain: Domain, header: Mapping[str, Any], arrays: Arrays) -> NetworkModel:
    nodes = enumerate(header["nodes"])
    return NetworkModel(
        domain,
        tuple(
            Node(name, tuple(parents), arrays[f"table_{number}"]) for number, (name, parents) in nodes
        ),
    )


_KINDS: Mapping[str, Callable[[Domain, Mapping[str, Any], Arrays], FittedModel]] = {
    "table": _table,
    "tree": _tree,
    "support": _support,
    "network": _network,
}
