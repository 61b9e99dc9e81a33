"""Folders of Parquet: which of their files hold records, their digest, and their table.

A folder is what Spark, DuckDB and pandas write: many files with the same columns, in any subfolders, of
which some may be hive partitions (``region=north/part-0.parquet``). Messages name no file: the name of a
partition is a value of records.
"""

import hmac
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath

from gencard.controller.records.file_format import MARKS_OF_PATTERNS, literal
from gencard.core.errors import EmptyDatasetError, InvalidInputError, TooLargeError

MOST_FILES = 10_000
"""Files of records in one folder. Each is opened before the first record is read."""

_UNSETTLED = {
    "_temporary": "is being written, or was left unfinished: remove its folder _temporary",
    "_delta_log": "is a Delta table, whose files may hold deleted records: export it as Parquet",
    "_spark_metadata": "is the output of a stream, which may hold records twice: export it as Parquet",
    ".hoodie": "is a Hudi table, whose files may hold deleted records: export it as Parquet",
}
"""Folders whose presence says that the files are not simply the records."""


@dataclass(frozen=True, slots=True)
class ParquetFolder:
    """A folder and its files of records, as they are at one moment.

    Args:
        names: Paths below the folder, sorted, with ``/``.
        keys: Attributes that the names of hive partitions state, the outermost first.
    """

    path: Path
    names: tuple[str, ...]
    keys: tuple[str, ...]

    @classmethod
    def at(cls, path: Path) -> "ParquetFolder":
        """Return the folder with all its files of records.

        Names that begin with ``_`` or ``.`` do not count, as in Spark.

        Raises:
            InvalidInputError: Something in it is neither a folder nor a regular .parquet file, is a
                symbolic link, or has a name that cannot be read; or its partitions differ in their
                keys.
            EmptyDatasetError: There is no file of records.
            TooLargeError: There are more than ``MOST_FILES``.
        """
        if "=" in str(path.absolute()):
            raise _refusal("must not have = in its path: the names of partitions begin below it")
        names: list[str] = []
        for name in _names_below(path):
            names.append(name)
            if len(names) > MOST_FILES:
                raise TooLargeError(
                    what="The number of files in the folder",
                    limit=MOST_FILES,
                    advice="Write the records to fewer files, or offer a table of a database.",
                )
        if not names:
            raise EmptyDatasetError()
        keys = {_keys(name) for name in names}
        if len(keys) > 1 or any(len(set(one)) < len(one) for one in keys):
            raise _refusal("must have the same keys in all its partitions, each once")
        return cls(path, tuple(sorted(names)), keys.pop())

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(self.path / name for name in self.names)

    def digest(self, salt: bytes, of_file: Callable[[Path, bytes], str]) -> str:
        """HMAC-SHA256 over the names of all files and the HMAC of each one's bytes, in hex.

        Args:
            of_file: The latter.
        """
        whole = hmac.new(salt, b"gencard.folder.v1\n", sha256)
        for name, file in zip(self.names, self.files, strict=True):
            whole.update(f"{of_file(file, salt)} {len(os.fsencode(name))} ".encode())
            whole.update(os.fsencode(name) + b"\n")
        return whole.hexdigest()

    @property
    def listed(self) -> str:
        """The files as a list in SQL."""
        return f"[{', '.join(literal(str(file)) for file in self.files)}]"

    @property
    def table(self) -> str:
        """SQL for the records; a column has the narrowest type that holds the values of all files."""
        hive = "true, hive_types_autocast = false" if self.keys else "false"
        options = f"binary_as_string = true, union_by_name = true, hive_partitioning = {hive}"
        return f"read_parquet({self.listed}, {options})"

    @property
    def columns_query(self) -> str:
        """SQL for the names of the columns of each file, a row for every different list of them.

        A column that one file lacks would be read as missing values.
        """
        columns = f"FROM parquet_schema({self.listed}) WHERE coalesce(num_children, 0) = 0"
        lists = f"SELECT list_sort(list(name)) AS names {columns} GROUP BY file_name"
        return f"SELECT DISTINCT names FROM ({lists}) LIMIT 2"  # noqa: S608  # no text of a caller

    def check_columns(self, lists: list[tuple[list[str]]]) -> None:
        """Refuse files with different columns.

        Args:
            lists: The answer to ``columns_query``.

        Raises:
            InvalidInputError: The files differ, or a key of the partitions is a column too.
        """
        if len(lists) > 1:
            raise _refusal("must have the same columns in all its files")
        if {key.lower() for key in self.keys} & {name.lower() for (names,) in lists for name in names}:
            raise _refusal("has a column inside its files that is a key of its partitions too")


def _names_below(path: Path) -> Iterator[str]:
    for folder, subfolders, _ in os.walk(path, onerror=_give_up):
        names = []
        with os.scandir(folder) as entries:
            for entry in entries:
                _check_entry(entry)
                if entry.name.startswith(("_", ".")):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
                else:
                    yield Path(entry.path).relative_to(path).as_posix()
        subfolders[:] = names


def _give_up(error: OSError) -> None:
    raise error


def _check_entry(entry: os.DirEntry[str]) -> None:
    if problem := _UNSETTLED.get(entry.name):
        raise _refusal(problem)
    if entry.is_symlink():
        # a link could lead out of the folder, or count the same records twice
        raise _refusal("has a symbolic link in it; `find FOLDER -type l` lists them")
    if entry.name.startswith(("_", ".")):
        return
    if any(mark in entry.name for mark in MARKS_OF_PATTERNS):
        raise _refusal("has a file or folder in it with *, ? or [ in its name")
    is_folder = entry.is_dir(follow_symlinks=False)
    if not is_folder and not (entry.name.endswith(".parquet") and entry.is_file(follow_symlinks=False)):
        problem = "contains something that is not a Parquet file; `find FOLDER -type f -not -name "
        raise _refusal(
            problem + "'*.parquet'` lists such files; names that begin with _ or . are ignored"
        )


def _keys(name: str) -> tuple[str, ...]:
    parts = PurePosixPath(name).parts[:-1]
    return tuple(part.partition("=")[0] for part in parts if "=" in part)


def _refusal(problem: str) -> InvalidInputError:
    return InvalidInputError(field="data", problem=problem)
