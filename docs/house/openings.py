"""Docstrings that open neither with a verb nor with the noun that they define."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from docs.house.sources import ROOTS

TOPS = (*ROOTS, "benchmarks", "docs", "examples", "tests")
"""Folders whose docstrings are read."""

_BAD = re.compile(
    r"(What|Whatever|Whether|Which|How|Of|Among|Those|As|Where|Wherever|Who|Whoever|Whose|Whom|So"
    r"|And|Also|Else|Once"
    r"|It|Its|They|Nobody|Somebody|Anybody|Everybody|Nothing|Something)\b(?!['’]s)"
)
"""First words that hide the subject: a docstring opens with a verb or with a noun."""

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring of a module, a class, a function or an attribute.

    Args:
        line: Line of the file where the docstring begins.
        is_bool: The function returns a bool, or the attribute holds one: "Whether" is its opening then.
    """

    path: Path
    line: int
    text: str
    is_bool: bool

    @property
    def opens_badly(self) -> bool:
        """Whether the first word is one that hides the subject."""
        text = self.text.lstrip()
        return bool(_BAD.match(text)) and not (self.is_bool and text.startswith("Whether"))

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text.strip().partition(chr(10))[0]}"


def bad_openings(root: Path) -> tuple[Docstring, ...]:
    """Docstrings of a checkout that open badly; generated protobuf stubs are left out."""
    files = (path for top in TOPS for path in sorted((root / top).rglob("*.py")))
    return tuple(
        docstring
        for path in files
        if "_pb2" not in path.name
        for docstring in docstrings(path.read_text(encoding="utf-8"), path.relative_to(root))
        if docstring.opens_badly
    )


def docstrings(text: str, path: Path) -> Iterator[Docstring]:
    """Yield every docstring of a source, those of attributes included."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _Documented) and (literal := _bare_string(next(iter(node.body), None))):
            yield Docstring(path, *literal, _returns_bool(node))
        if isinstance(node, ast.Module | ast.ClassDef):
            for field, below in pairwise(node.body):
                if isinstance(field, ast.Assign | ast.AnnAssign) and (literal := _bare_string(below)):
                    yield Docstring(path, *literal, _holds_bool(field))


def _bare_string(node: ast.stmt | None) -> tuple[int, str] | None:
    """Return line and text of a statement that is a bare string, else None."""
    match node:
        case ast.Expr(value=ast.Constant(value=str(text), lineno=line)):
            return line, text
        case _:
            return None


def _returns_bool(node: _Documented) -> bool:
    returns = None if isinstance(node, ast.Module | ast.ClassDef) else node.returns
    return returns is not None and "bool" in ast.unparse(returns)


def _holds_bool(node: ast.Assign | ast.AnnAssign) -> bool:
    match node:
        case ast.AnnAssign(annotation=annotation):
            return "bool" in ast.unparse(annotation)
        case ast.Assign(value=ast.Compare() | ast.Constant(value=bool())):
            return True
        case _:
            return False
