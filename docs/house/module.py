"""One module in numbers: its lines, comments, imports, and the names that it uses."""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from docs.house.functions import FunctionFacts, functions_in
from docs.house.shapes import Conversion, Shape, conversions_in, shapes_in
from docs.house.sources import imports_in

REPLACED_WORDS = frozenset(
    (
        *("asked", "found", "go_on", "goal", "holding", "no_progress", "one_try", "promise"),
        *("purse", "quiet", "said", "tell", "told", "unheard", "visits"),
    )
)
"""Names of variables, functions and classes that the plan replaces; case does not matter.

The plan had "desk" among them, for what is now ControllerState; the stewards' desk is another thing.
"""

Nodes = Sequence[ast.AST]
"""All nodes of one module, walked once: that takes most of the time."""

_PRAGMAS = ("noqa", "type:", "fmt:", "pragma:")

_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """Facts of one module that the measures need.

    Args:
        package: Whether it is an ``__init__``.
        folder: Where it is, below the checkout.
        lines: All of its lines.
        code_lines: Those that hold code: neither blank, nor comment, nor docstring.
        import_lines: Those that belong to an import.
        comments: Comments; directives to tools are none.
        words: Word that the plan replaces -> uses as a name.
        imports: Modules, ours and others', that it imports.
        strings: Its string constants.
        prefixes: Packages whose modules it loads by a name put together at run time, with the dot.
        shapes: Its classes.
        conversions: Its functions that carry fields by hand.
        functions: Lengths of its functions, and the private ones that are used once.
    """

    package: bool
    folder: str
    lines: int
    code_lines: int
    import_lines: int
    comments: int
    words: Counter[str]
    imports: frozenset[str]
    strings: frozenset[str]
    prefixes: frozenset[str]
    shapes: tuple[Shape, ...]
    conversions: tuple[Conversion, ...]
    functions: FunctionFacts


def facts_of(name: str, path: Path, root: Path) -> ModuleFacts:
    """Read one module of the checkout at ``root``."""
    text = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(text)))
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    return ModuleFacts(
        package=path.name == "__init__.py",
        folder=str(path.parent.relative_to(root)),
        lines=len(text.splitlines()),
        code_lines=_code_lines(nodes, tokens),
        import_lines=sum(map(_extent, _of_kind(nodes, ast.Import, ast.ImportFrom))),
        comments=sum(map(explains, tokens)),
        words=Counter(word for word in _names(nodes) if word in REPLACED_WORDS),
        imports=frozenset(imports_in(nodes)),
        strings=frozenset(str(node.value) for node in _constants(nodes)),
        prefixes=frozenset(_prefixes(name, nodes)),
        shapes=tuple(shapes_in(name, nodes)),
        conversions=tuple(conversions_in(name, nodes)),
        functions=functions_in(nodes),
    )


def _of_kind(nodes: Nodes, *kinds: type[ast.stmt]) -> Iterator[ast.stmt]:
    return (node for node in nodes if isinstance(node, kinds))


def _extent(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def explains(token: tokenize.TokenInfo) -> bool:
    """Whether a token is a comment for people; directives to tools are none."""
    return token.type == tokenize.COMMENT and not token.string.lstrip("# ").startswith(_PRAGMAS)


def _code_lines(nodes: Nodes, tokens: list[tokenize.TokenInfo]) -> int:
    lines = {
        line
        for token in tokens
        if token.type not in _LAYOUT
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in _of_kind(nodes, ast.Expr):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, node.lineno + _extent(node)))
    return len(lines)


def _names(nodes: Nodes) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name.lower()
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name.lower()


def _constants(nodes: Nodes) -> Iterator[ast.Constant]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node


def _prefixes(module: str, nodes: Nodes) -> Iterator[str]:
    """Beginnings of names put together as ``f"gencard.package.{name}"`` or ``f"{__name__}.{name}"``."""
    for node in nodes:
        if isinstance(node, ast.JoinedStr) and len(node.values) > 1:
            head = node.values[0]
            if isinstance(head, ast.Constant) and re.fullmatch(r"gencard\.([\w.]+\.)?", str(head.value)):
                yield str(head.value)
            elif isinstance(head, ast.FormattedValue) and ast.unparse(head.value) == "__name__":
                yield f"{module}."
