"""Functions of one module in numbers: their lengths, and the private ones that are used once."""

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """Facts about the functions of a module, methods included.

    Args:
        lengths: Lines of each function, from ``def`` to its last line.
        used_once: Number of private functions that one place in the module names.
    """

    lengths: tuple[int, ...]
    used_once: int


def functions_in(nodes: Sequence[ast.AST]) -> FunctionFacts:
    """Count the functions among the nodes of a parsed module."""
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    uses = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    uses.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
    private = [node.name for node in functions if node.name.startswith("_") and node.name[-2:] != "__"]
    return FunctionFacts(
        tuple((node.end_lineno or node.lineno) - node.lineno + 1 for node in functions),
        sum(uses[name] == 1 for name in private),
    )
