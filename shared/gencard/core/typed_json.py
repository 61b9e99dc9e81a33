"""JSON of frozen dataclasses: one encoder and one strict decoder, both led by the fields' types.

A ``JsonForm`` says how scalars and names are written; a field's metadata (``written``) holds only what
the form cannot know. A decoded document encodes to itself again: nothing has a second spelling.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from enum import StrEnum
from functools import partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from gencard.core.domain import Domain
from gencard.core.json_codecs import (
    Choice,
    Codec,
    Items,
    Json,
    Maybe,
    Names,
    Row,
    Scalar,
    entries_of,
    object_of,
)

T = TypeVar("T")


def members_of(kind: Any) -> tuple[Any, ...]:
    """The types of a union, without None; a type that is no union alone."""
    if get_origin(kind) not in (UnionType, Union):
        return (kind,)
    return tuple([member for member in get_args(kind) if member is not NoneType])


@dataclass(frozen=True, slots=True, eq=False)
class JsonForm:
    """How dataclasses are written. Enumerations are their words, tuples are lists.

    Args:
        scalars: By type; values of other types stand as they are.
        name: How the name of a field is written.
    """

    scalars: Mapping[Any, Scalar]
    name: Callable[[str], str] = str
    _codecs: dict[Any, Codec] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._codecs.update(self.scalars)

    def write(self, value: object, kind: Any = None) -> Any:
        """The JSON of a value; its type is to be given where it is no dataclass."""
        kind = kind or type(value)
        return (self._codecs.get(kind) or self.codec(kind)).write(value)

    def read(self, kind: Callable[..., T], json: object, *, field: str) -> T:
        """The value that a JSON value stands for.

        Args:
            field: What an error calls the value.

        Raises:
            InvalidInputError: Something is missing, unknown, of another type, or spelled another way.
            GencardError: What the constructors refuse.
        """
        value: T = (self._codecs.get(kind) or self.codec(kind)).read(json, field)
        return value

    def codec(self, kind: Any) -> Codec:
        """The encoder and decoder of a type, made after those of the types that it consists of."""
        codecs, waiting = self._codecs, [kind]
        while waiting:
            one = waiting[-1]
            if one in codecs:
                waiting.pop()
                continue
            origin, arguments = get_origin(one), get_args(one)
            parts: set[Any] = set()
            if is_dataclass(one):
                for entry in entries_of(one):
                    parts.update(() if entry.options.scalar else (entry.kind,))
            elif origin is Annotated:
                parts = {arguments[0]}
            elif origin is not None:
                parts = {*arguments} - {NoneType, Ellipsis}
            if missing := parts - codecs.keys():
                waiting.extend(missing)
                continue
            codec: Codec = ANY_JSON
            if is_dataclass(one):
                codec = object_of(one, self.name, codecs)
            elif origin is tuple and arguments[-1] is Ellipsis:
                element = codecs[arguments[0]]
                rows = element.codec.kinds if isinstance(element, Items) else frozenset[type]()
                codec = Items(element, list if element.kinds else None, rows)
            elif origin is tuple:
                elements = tuple(map(codecs.__getitem__, arguments))
                codec = Row(elements, list if all(map(attrgetter("kinds"), elements)) else None)
            elif origin in (UnionType, Union):
                members = dict(zip(arguments, map(codecs.get, arguments), strict=True))
                optional = members.pop(NoneType, ANY_JSON) is None
                codec = Choice(members) if len(members) > 1 else [*members.values()][0]
                # None is written as it is if all other values are
                if optional and isinstance(codec, Scalar) and codec.kinds:
                    codec = replace(codec, kinds=codec.kinds | {NoneType})
                elif optional:
                    codec = Maybe(codec)
            elif origin is Annotated:
                codec = codecs[arguments[0]]
            elif isinstance(origin, type) and issubclass(origin, Mapping):
                codec = Names(codecs[arguments[1]], dict if codecs[arguments[1]].kinds else None)
            elif isinstance(one, type) and issubclass(one, StrEnum):
                codec = Scalar(attrgetter("value"), one)
            codecs[one] = codec
        return codecs[kind]


def _exactly(kind: type, value: object) -> object:
    if type(value) is not kind:  # True is no 1
        raise TypeError
    return value


def text_scalar(to_text: Callable[[Any], str], of_text: Callable[[str], Any]) -> Scalar:
    """Values that stand as texts."""
    return Scalar(to_text, of_text, types=frozenset({str}))


ANY_JSON = Scalar(lambda value: value, lambda json: json)
"""JSON of any form, which is not checked."""

AS_IT_IS = {
    kind: Scalar(lambda value: value, partial(_exactly, kind), frozenset({kind}))
    for kind in (str, bool, int)
}
"""Texts, truth values and whole numbers as JSON has them."""

_FLOAT = Scalar(lambda value: value, float, frozenset({float}), frozenset({int}), whole=True)
"""JSON does not tell 1.0 from 1."""

PLAIN = JsonForm({**AS_IT_IS, float: _FLOAT})
"""Numbers as JSON has them, under the names of the fields: reports and findings."""

INTEGER_TEXT = text_scalar(str, int)
"""Whole numbers that readers of JSON might round, as decimals."""


def _object(value: object) -> Json:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _sorted_pairs(value: object) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, AS_IT_IS[str].of_json(text)) for name, text in _object(value).items()))


PAIRS_AS_OBJECT = Scalar(dict, _sorted_pairs)
"""Pairs of texts, sorted by the first, as an object."""


def _domain_of_pairs(json: object) -> Domain:
    return Domain.of(dict(PLAIN.codec(tuple[tuple[str, int], ...]).read(json, "domain")))


DOMAIN_AS_PAIRS = Scalar(
    lambda domain: [list(pair) for pair in zip(domain.attributes, domain.sizes, strict=True)],
    _domain_of_pairs,
)
"""A domain as a list of names with their sizes."""
