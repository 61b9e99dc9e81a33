"""One file for Arrow to read as often as it wants, from a function that opens it."""

from collections.abc import Callable
from typing import Any, BinaryIO, NoReturn

import pyarrow as pa
from pyarrow import fs


def one_file(opened: Callable[[], BinaryIO]) -> fs.PyFileSystem:
    """Return a file system with one file, of any name, which nobody can write to.

    Args:
        opened: Opens it anew for each reading.
    """
    return fs.PyFileSystem(_OneFile(opened))


class _OneFile(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    def __init__(self, opened: Callable[[], BinaryIO]) -> None:
        self._opened = opened

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def get_type_name(self) -> str:
        return "one file"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [fs.FileInfo(path, fs.FileType.File) for path in paths]

    def get_file_info_selector(self, _: Any) -> list[fs.FileInfo]:
        return []

    def open_input_stream(self, _: str) -> pa.PythonFile:
        return pa.PythonFile(self._opened(), "r")

    open_input_file = open_input_stream

    def _refuse(self, *_: Any) -> NoReturn:
        raise PermissionError

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse
