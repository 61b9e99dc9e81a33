"""Parquet, the part that needs pyarrow.

Text levels are dictionaries, levels that are whole numbers are numbers, and so are those drawn inside
intervals; "missing" is null.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from gencard.client.comma_separated import BATCH_ROWS, batches
from gencard.client.levels import (
    UNDECLARED,
    code_of,
    is_integer,
    is_ordered,
    names_of,
)
from gencard.client.numbers import Numbers
from gencard.core.coding import Attribute, Coding, Edges, codes_of_numbers
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import DomainMismatchError, UndeclaredLevelError


def write_parquet(dataset: Dataset, coding: Coding, path: Path, numbers: Numbers | None) -> None:
    attributes = [coding.attribute(name) for name in dataset.domain.attributes]
    schema = pa.schema([pa.field(attribute.name, _type(attribute, numbers)) for attribute in attributes])
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches(dataset):
            columns = [
                _column(attribute, batch[:, axis], numbers) for axis, attribute in enumerate(attributes)
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def read_parquet(path: Path, coding: Coding, domain: Domain) -> Dataset:
    """Raises DomainMismatchError, UndeclaredLevelError, or OSError or ValueError: no Parquet."""
    file = parquet.ParquetFile(path)
    absent = set(domain.attributes) - set(file.schema_arrow.names)
    if absent:
        raise DomainMismatchError(problem=f"the data have no attribute '{min(absent)}'")
    attributes = [coding.attribute(name) for name in domain.attributes]
    columns: list[list[NDArray[Any]]] = [[np.empty(0, dtype=np.int32)] for _ in attributes]
    for batch in file.iter_batches(BATCH_ROWS, columns=list(domain.attributes)):
        for attribute, codes in zip(attributes, columns, strict=True):
            codes.append(_codes(attribute, batch.column(attribute.name)))
    return Dataset.of_columns(domain, [np.concatenate(codes) for codes in columns])


def _column(attribute: Attribute, codes: NDArray[Any], numbers: Numbers | None) -> Any:
    if numbers is not None and isinstance(attribute.coding, Edges):
        drawn = numbers.of(attribute.name, attribute.coding, codes)
        return pa.array(drawn, from_pandas=True)  # NaN is null
    names = names_of(attribute)
    absent = codes == len(names)
    if is_integer(attribute):
        whole = np.array([*map(int, names), 0], dtype=np.int64)
        return pa.array(whole[codes], mask=absent)
    positions = pa.array(codes.astype(np.int32), mask=absent)
    return pa.DictionaryArray.from_arrays(positions, pa.array(names), ordered=is_ordered(attribute))


def _type(attribute: Attribute, numbers: Numbers | None) -> Any:
    if numbers is not None and isinstance(attribute.coding, Edges):
        return pa.float64()
    if is_integer(attribute):
        return pa.int64()
    return pa.dictionary(pa.int32(), pa.string(), is_ordered(attribute))


def _codes(attribute: Attribute, values: Any) -> NDArray[Any]:
    if isinstance(attribute.coding, Edges) and pa.types.is_floating(values.type):
        found = np.array(values.to_numpy(zero_copy_only=False), dtype=np.float64)  # null is NaN
        return codes_of_numbers(attribute.name, attribute.coding, found)
    encoded = values.dictionary_encode()
    codes_of = code_of(attribute)
    levels = [codes_of.get(level, UNDECLARED) for level in [*encoded.dictionary.to_pylist(), None]]
    positions = encoded.indices.fill_null(len(levels) - 1).to_numpy()
    codes: NDArray[np.int32] = np.array(levels, dtype=np.int32)[positions]
    if (codes == UNDECLARED).any():
        raise UndeclaredLevelError(attribute=attribute.name)
    return codes
