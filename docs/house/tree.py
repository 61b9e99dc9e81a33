"""The tree of packages in CONTRIBUTING.md: each with the first sentence of its docstring."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from docs.house.sources import ROOT, ROOTS, sources

PAGE = ROOT / "CONTRIBUTING.md"
BLOCK = re.compile(r"(<!-- tree: made by `make docs` -->\n```text\n).*?(```\n)", re.DOTALL)

_STUBS = (
    Path("protos/gencard/v1"),
    "Services and messages in protocol buffers, and the stubs made from them",
)
_INDENT = 4


def tree(root: Path = ROOT) -> str:
    """Folder by folder, one line each."""
    packages = dict([_STUBS, *_packages(root)])
    lines = []
    for top in ROOTS:
        lines.append((f"{top}/gencard/", ""))
        inside = sorted(path for path in packages if path.parts[0] == top)
        lines += [(_indented(path), packages[path]) for path in inside]
    width = max(len(name) for name, _ in lines) + 2
    return "".join(f"{name:{width}}{text}".rstrip() + "\n" for name, text in lines)


def _indented(path: Path) -> str:
    return f"{' ' * _INDENT * (len(path.parts) - 2)}{path.name}/"


def filled(page: str) -> str:
    """The page with the tree as it should be."""
    return BLOCK.sub(lambda block: f"{block[1]}{tree()}{block[2]}", page)


def write() -> None:
    """Put the tree into CONTRIBUTING.md."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _packages(root: Path) -> Iterator[tuple[Path, str]]:
    for _, path in sources(root):
        if path.name == "__init__.py":
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            yield path.parent.relative_to(root), _first_sentence(docstring)


def _first_sentence(docstring: str) -> str:
    paragraph = " ".join(docstring.split("\n\n", maxsplit=1)[0].split())
    return re.split(r"\.(?:\s|$)", paragraph)[0].replace("``", "")
