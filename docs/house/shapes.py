"""Classes that share fields, class names defined more than once, and conversions by hand."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

LEAST_FIELDS = 4
"""Fewest fields of a class that can be one of a pair."""

LEAST_SHARED = 0.55
"""Smallest share of common fields among all fields of the two classes of a pair."""

LEAST_CARRIED = 3
"""Fewest fields that a conversion carries one by one."""

_NO_VALUE = re.compile(r"(Request|Response|Stub)$|^(Psi|Linear|Table)")
"""Messages that are no value of ours: those of calls, and the parts of a stream of psi or rows."""

Function = ast.FunctionDef | ast.AsyncFunctionDef

_SERVICES = "parts of the service: the shared fields are those of the state that they work with"

REASONS: Mapping[str, str] = {
    "FileFormat and TextLayout": "what a steward states, with its SQL, and what a look concludes",
    "AnswerResult and RunOutcome": "a job's result, and what the state keeps, in JSON of its own",
    "Claim and EpsilonBound": "a promised epsilon and a measured one, which must not be mixed up",
    "EvaluationRun and ReleaseRun": _SERVICES,
    "KeyRotation and RuleLog": _SERVICES,
    "AnalystQuestion and Question": "as it is signed, and as an analyst writes it, with values",
    "AnswerTable and Output": "a number of a program may be a table, and has a type and a label besides",
}
"""Names of the classes of a pair, sorted -> why they are two types."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A class of one module.

    Args:
        fields: Annotated names of its body: fields and class variables.
        extends_its_name: It adds methods to another class of its name, and is no other thing.
    """

    name: str
    module: str
    fields: frozenset[str]
    extends_its_name: bool = False


@dataclass(frozen=True, slots=True)
class Conversion:
    """A function that carries fields one by one, and its lines without the docstring."""

    name: str
    lines: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two classes of different modules that share most of their fields.

    Args:
        share: Common fields, as a part of all fields of the two.
    """

    share: float
    first: Shape
    second: Shape

    @property
    def key(self) -> str:
        """Name of the pair in ``REASONS``, which stays when the classes move."""
        return " and ".join(sorted((self.first.name, self.second.name)))

    def __str__(self) -> str:
        places = [f"{one.module}.{one.name}" for one in (self.first, self.second)]
        return f"{self.share:.0%} {' | '.join(places)}: {REASONS.get(self.key, 'no reason given')}"


def shapes_in(module: str, nodes: Iterable[ast.AST]) -> Iterator[Shape]:
    """Every class of a parsed module."""
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            annotated = (part.target for part in node.body if isinstance(part, ast.AnnAssign))
            names = frozenset(target.id for target in annotated if isinstance(target, ast.Name))
            bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            yield Shape(node.name, module, names, node.name in bases)


def pairs(shapes: Iterable[Shape]) -> tuple[Pair, ...]:
    """Every pair, that with the largest share first."""
    large = [shape for shape in shapes if len(shape.fields) >= LEAST_FIELDS]
    both = (
        Pair(len(first.fields & second.fields) / len(first.fields | second.fields), first, second)
        for first, second in combinations(large, 2)
        if first.module != second.module
    )
    return tuple(
        sorted((one for one in both if one.share >= LEAST_SHARED), key=lambda one: (-one.share, one.key))
    )


def repeated_names(shapes: Iterable[Shape]) -> dict[str, int]:
    """Names that more than one class has -> how many."""
    counts = Counter(shape.name for shape in shapes if not shape.extends_its_name)
    return {name: count for name, count in counts.most_common() if count > 1}


def conversions_in(module: str, nodes: Sequence[ast.AST]) -> Iterator[Conversion]:
    """Functions that carry at least three fields between two forms of a value, by hand.

    A field is carried as a keyword argument of a message of the protocol, as an attribute read off a
    parameter that is annotated with a message, or as an entry of a dict that is named as the attribute
    that its value is made of. What counts is what a function does, not its name. Functions inside
    another one belong to that.
    """
    messages = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "gencard.v1"
        for alias in node.names
    }
    inner: set[ast.AST] = set()
    for node in nodes:  # outer functions come before those inside them
        if isinstance(node, Function) and node not in inner:
            inside = list(ast.walk(node))
            inner.update(one for one in inside if isinstance(one, Function))
            if _carried(node, inside, messages) >= LEAST_CARRIED:
                yield Conversion(f"{module}.{node.name}", _lines(node))


def _carried(function: Function, inside: Sequence[ast.AST], messages: set[str]) -> int:
    """The most fields that one message, one parameter or one dict in a function carries."""
    parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    names = {one.arg for one in parameters}
    of_messages = {one.arg for one in parameters if _names_message(one.annotation, messages)}
    read = {_attribute_of(node, of_messages) for node in inside} - {""}
    calls = (node for node in inside if isinstance(node, ast.Call))
    made = (len(call.keywords) for call in calls if _is_message(call.func, messages))
    written = (_entries(node, names) for node in inside if isinstance(node, ast.Dict))
    return max(len(read), *made, *written, 0)


def _attribute_of(node: ast.AST, names: set[str]) -> str:
    """The attribute that is read off a variable of one of these names; "" for another expression."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in names:
            return attribute
    return ""


def _is_message(node: ast.AST, messages: set[str]) -> bool:
    name = _attribute_of(node, messages)
    return bool(name) and not _NO_VALUE.search(name)


def _names_message(annotation: ast.expr | None, messages: set[str]) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    return annotation is not None and any(_is_message(node, messages) for node in ast.walk(annotation))


def _entries(document: ast.Dict, names: set[str]) -> int:
    """Entries named as an attribute of a parameter that their value holds; case does not matter."""
    return sum(
        isinstance(key, ast.Constant)
        and any(_plain(_attribute_of(node, names)) == _plain(key.value) for node in ast.walk(value))
        for key, value in zip(document.keys, document.values, strict=True)
    )


def _plain(name: object) -> str:
    return str(name).replace("_", "").lower()


def _lines(function: Function) -> int:
    docstring = function.body[0] if ast.get_docstring(function) is not None else None
    ends = [(one.end_lineno or one.lineno) - one.lineno + 1 for one in (function, docstring) if one]
    return ends[0] - sum(ends[1:])
