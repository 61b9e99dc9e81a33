"""Parquet, the part that needs pyarrow.

Text levels are dictionaries; whole numbers, truth values, dates and times of day are themselves, and so
are numbers drawn inside intervals; "missing" is null.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute as pc
from pyarrow import parquet

from gencard.client.common.rows import BATCH_ROWS, ReadColumn, batches, check_cells
from gencard.core.coding import Attribute, Coding, Edges, codes_of_numbers
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import DomainMismatchError, UndeclaredLevelError
from gencard.core.types import FloatArray
from gencard.files import ParquetSize, check_footer, open_file, size_of
from gencard.run.levels import (
    UNDECLARED,
    Midpoints,
    Numbers,
    Values,
    code_of,
    codes_of_values,
    is_boolean,
    is_integer,
    is_ordered,
    names_of,
)

_WRITER = re.compile(r"parquet-cpp-arrow version [0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}")


def write_parquet(dataset: Dataset, coding: Coding, path: Path, values: Values | None) -> None:
    attributes = [coding.attribute(name) for name in dataset.domain.attributes]
    fields = [pa.field(attribute.name, _type(attribute, values)) for attribute in attributes]
    words = values.invented(coding, dataset.domain.attributes) if isinstance(values, Numbers) else ""
    # files of schemas without steps have no metadata, and stay as they were
    schema = pa.schema(fields, metadata={INVENTED: words.encode()} if words else None)
    with parquet.ParquetWriter(path, schema, compression="zstd", write_statistics=False) as writer:
        for batch in batches(dataset):
            columns = [
                _column(attribute, batch[:, axis], values) for axis, attribute in enumerate(attributes)
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def names_of_columns(path: Path) -> list[str]:
    """Return the names of the columns; raises OSError or ValueError: no Parquet."""
    _check_size(path)
    return list(parquet.ParquetFile(path).schema_arrow.names)


def read_parquet(path: Path, coding: Coding, domain: Domain, numbered: Clique = ()) -> list[ReadColumn]:
    """Raises DomainMismatchError, UndeclaredLevelError, or OSError or ValueError: no Parquet."""
    _check_size(path)
    file = parquet.ParquetFile(path)
    absent = set(domain.attributes) - set(file.schema_arrow.names)
    if absent:
        raise DomainMismatchError(problem=f"the data have no attribute '{min(absent)}'")
    columns = [ReadColumn(coding.attribute(name), name in numbered) for name in domain.attributes]
    for batch in file.iter_batches(BATCH_ROWS, columns=list(domain.attributes)):
        for column in columns:
            values = batch.column(column.attribute.name)
            is_number = isinstance(column.attribute.coding, Edges)
            numbers = _numbers_of(values) if is_number else None
            column.add(_codes(column.attribute, values, numbers), numbers)
    return columns


INVENTED = b"gencard"
"""Key under which a file says which of its values are invented."""


def _check_size(path: Path) -> None:
    """Raises InvalidInputError if a file would unpack to far more than its size says."""
    with open_file(path, "file") as file:
        check_footer(file, "file")
        metadata = parquet.ParquetFile(file).metadata
        groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
        unpacked = sum(group.total_byte_size for group in groups)
        size = ParquetSize(size_of(path, "file"), unpacked, metadata.num_rows, metadata.num_columns)
    size.check("file")
    check_cells(path, size.rows * size.columns)


def difference(path: Path, again: Path) -> str | None:
    """Return the first difference between a file and the same rows written by this installation.

    Files of one version of pyarrow are equal to the byte. Of a file by another version, columns, types
    and values are compared, and that it holds nothing else that a reader would use.
    """
    file, expected = parquet.ParquetFile(path), parquet.ParquetFile(again)
    if file.schema_arrow.names != expected.schema_arrow.names:
        return "the columns or their order"
    for field in expected.schema_arrow:
        if file.schema_arrow.field(field.name).type != field.type:
            return f"the type of '{field.name}'"
    if file.schema_arrow.metadata != expected.schema_arrow.metadata:
        return "what the file says of its values"
    if file.metadata.created_by == expected.metadata.created_by or not _is_plain(file):
        return _different_column(file, expected) or "the metadata of the file"
    return _different_column(file, expected)


def _is_plain(file: parquet.ParquetFile) -> bool:
    """Whether a file of pyarrow holds rows and schema, and nothing that could mislead a reader."""
    metadata = file.metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    return (
        _WRITER.fullmatch(metadata.created_by or "") is not None
        and set(metadata.metadata or {}) <= {b"ARROW:schema", *(file.schema_arrow.metadata or ())}
        and not any(chunk.is_stats_set or chunk.has_column_index for chunk in chunks)
    )


def _different_column(file: parquet.ParquetFile, expected: parquet.ParquetFile) -> str | None:
    if file.metadata.num_rows != expected.metadata.num_rows:
        return "the values: there are other rows"
    for one, other in zip(file.iter_batches(BATCH_ROWS), expected.iter_batches(BATCH_ROWS), strict=True):
        for name in other.schema.names:
            if not one.column(name).equals(other.column(name)):
                return f"the values of '{name}'"
    return None


def _column(attribute: Attribute, codes: NDArray[Any], values: Values | None) -> Any:
    if values is not None and isinstance(attribute.coding, Edges):
        numbers = values.of(attribute.name, attribute.coding, codes)
        kind, absent = _type(attribute, values), np.isnan(numbers)
        column = np.where(absent, 0, numbers)
        if pa.types.is_date(kind):
            # Workaround: Arrow has no cast from floats to dates.
            column = column.astype(np.int32)
        if pa.types.is_time32(kind):
            column = np.floor(column).astype(np.int32) * 60
        return pa.array(column, mask=absent).cast(kind)
    names = names_of(attribute)
    absent = codes == len(names)
    if is_integer(attribute):
        return pa.array(np.array([*map(int, names), 0], dtype=np.int64)[codes], mask=absent)
    if is_boolean(attribute) and values is not None:
        return pa.array(codes == 1, mask=absent)
    positions = pa.array(codes.astype(np.int32), mask=absent)
    return pa.DictionaryArray.from_arrays(positions, pa.array(names), ordered=is_ordered(attribute))


def _type(attribute: Attribute, values: Values | None) -> Any:
    if values is not None and isinstance(attribute.coding, Edges):
        coding = attribute.coding
        if coding.dates:
            return pa.date32()
        if coding.times:
            return pa.time32("s")
        return pa.int64() if coding.decimals == 0 and not isinstance(values, Midpoints) else pa.float64()
    if is_integer(attribute):
        return pa.int64()
    if is_boolean(attribute) and values is not None:
        return pa.bool_()
    return pa.dictionary(pa.int32(), pa.string(), is_ordered(attribute))


def _codes(attribute: Attribute, values: Any, numbers: FloatArray | None) -> NDArray[Any]:
    if isinstance(attribute.coding, Edges) and numbers is not None:
        return codes_of_numbers(attribute.name, attribute.coding, numbers)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.string())
    encoded = values.dictionary_encode()
    values_of_levels = [*encoded.dictionary.to_pylist(), None]
    levels = codes_of_values(attribute, code_of(attribute), values_of_levels)
    positions = encoded.indices.fill_null(len(levels) - 1).to_numpy()
    codes: NDArray[np.int32] = np.array(levels, dtype=np.int32)[positions]
    if (codes == UNDECLARED).any():
        raise UndeclaredLevelError(attribute=attribute.name)
    return codes


def _numbers_of(values: Any) -> NDArray[np.float64] | None:
    """Numbers, or dates as days since 1970-01-01, null being NaN; None where these are neither."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    if pa.types.is_time(values.type):  # a file has none in seconds
        microseconds = values.cast(pa.time64("us")).cast(pa.int64())
        values = pc.floor(pc.divide(microseconds.cast(pa.float64()), 60e6))
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        return None
    return np.array(values.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
