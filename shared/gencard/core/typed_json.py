"""JSON of frozen dataclasses: one encoder and one strict decoder, both led by the fields' types.

A ``JsonForm`` says how scalars and names are written; a field's metadata (``written``) holds only what
the form cannot know. A decoded document encodes to itself again: nothing has a second spelling.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from decimal import Decimal, InvalidOperation
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
    Maybe,
    Names,
    Object,
    Row,
    ScalarCodec,
    entries_of,
    fill,
)

T = TypeVar("T")


def members_of(kind: Any) -> tuple[Any, ...]:
    """Return the types of a union, without None; for any other type, a tuple of this type."""
    if get_origin(kind) not in (UnionType, Union):
        return (kind,)
    return tuple([member for member in get_args(kind) if member is not NoneType])


@dataclass(frozen=True, slots=True, eq=False)
class JsonForm:
    """Rules by which dataclasses are written as JSON: enumerations as their values, tuples as lists.

    Args:
        scalars: Encoders and decoders of types without parts, by type. Values of a type without parts
            that is not listed here are written and read unchecked, as ``ANY_JSON``.
        name: Returns the JSON name of a field whose name has several words, such as in camel case.
    """

    scalars: Mapping[Any, ScalarCodec]
    name: Callable[[str], str] = str
    _codecs: dict[Any, Codec] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._codecs.update(self.scalars)

    def write(self, value: object, kind: Any = None) -> Any:
        """Return the JSON of a value. ``kind`` is its type, required unless the value is a dataclass."""
        kind = kind or type(value)
        return (self._codecs.get(kind) or self.codec(kind)).write(value)

    def read(self, kind: Callable[..., T], json: object, *, field: str) -> T:
        """Return the value that a JSON value encodes.

        Args:
            field: Name of the value in errors.

        Raises:
            InvalidInputError: Something is missing, unknown, of another type, or spelled another way.
            GencardError: A constructor rejects the values.
        """
        value: T = (self._codecs.get(kind) or self.codec(kind)).read(json, field)
        return value

    def codec(self, kind: Any) -> Codec:
        """Return the codec (encoder and decoder) of a type; the first call makes it and its parts'."""
        if kind in self._codecs:
            return self._codecs[kind]
        codecs, objects = {**self._codecs}, list[Object]()
        for part in _parts_first(kind, codecs.keys()):
            origin, arguments = get_origin(part), get_args(part)
            if is_dataclass(part):
                objects.append(Object(part))
                codecs[part] = objects[-1]
            elif origin is tuple and arguments[-1] is Ellipsis:
                element = codecs[arguments[0]]
                # empty ``kinds``: elements are converted; others are checked and copied as a whole list
                inner = element.codec if isinstance(element, Items) else element
                rows = frozenset[type]() if inner is element else inner.kinds
                whole = isinstance(inner, ScalarCodec) and inner.whole
                codecs[part] = Items(element, list if element.kinds else None, rows, whole)
            elif origin in (UnionType, Union):
                members = dict(zip(arguments, map(codecs.get, arguments), strict=True))
                optional = members.pop(NoneType, ANY_JSON) is None
                codec = Choice(members) if len(members) > 1 else next(iter(members.values()))
                # None is written as it is if all other values are
                if optional and isinstance(codec, ScalarCodec) and codec.kinds:
                    codecs[part] = replace(codec, kinds=codec.kinds | {NoneType})
                else:
                    codecs[part] = Maybe(codec) if optional else codec
            else:
                codecs[part] = _other(part, codecs)
        fill(objects, self.name, codecs)
        # another thread may look for a codec meanwhile: it must find none that is not complete
        self._codecs.update(codecs)
        return codecs[kind]


def _parts_first(kind: Any, known: Collection[Any]) -> list[Any]:
    """Return a type and all types that it consists of, except known ones.

    Each type comes after its parts. Only a dataclass may come before the types of its fields, because
    ``fill`` completes it at the end; so a dataclass may contain itself.
    """
    ordered, waiting = dict[Any, None](), [kind]
    while waiting:
        one = waiting.pop()
        if one in known or one in ordered:
            continue
        parts = {*get_args(one)[: 1 if get_origin(one) is Annotated else None]} - {NoneType, Ellipsis}
        if missing := parts.difference(known, ordered):
            waiting += (one, *missing)  # again, after its parts
            continue
        ordered[one] = None
        has_fields = is_dataclass(one)
        for entry in entries_of(one) if has_fields else ():
            waiting += () if entry.options.scalar else (entry.kind,)
    return [*ordered]


def _other(kind: Any, codecs: Mapping[Any, Codec]) -> Codec:
    """The codec of a type that is no dataclass, union or tuple of any length."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        elements = tuple(map(codecs.__getitem__, arguments))
        return Row(elements, list if all(map(attrgetter("kinds"), elements)) else None)
    if origin is Annotated:
        return codecs[arguments[0]]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return Names(codecs[arguments[1]], dict if codecs[arguments[1]].kinds else None)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return ScalarCodec(attrgetter("value"), kind)
    return ANY_JSON


def _exactly(kind: type, value: object) -> object:
    if type(value) is not kind:  # isinstance would take True for 1
        raise TypeError
    return value


text_scalar = partial(ScalarCodec, types=frozenset({str}))
"""Make a scalar that is a JSON string, of a function that writes it and a function that reads it."""

ANY_JSON = ScalarCodec(
    lambda value: value, lambda json: json, frozenset({dict, list, str, int, bool, NoneType})
)
"""JSON of any form, unchecked; only NaN as the whole value is rejected."""

AS_IT_IS = {
    kind: ScalarCodec(lambda value: value, partial(_exactly, kind), frozenset({kind}))
    for kind in (str, bool, int)
}
"""Texts, truth values and whole numbers as JSON has them."""

_FLOAT = ScalarCodec(lambda value: value, float, frozenset({float}), frozenset({int}), whole=True)
"""Numbers with a fraction; whole numbers are read too, as JSON does not distinguish 1.0 from 1."""


def _decimal_of(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError from None


PLAIN = JsonForm({**AS_IT_IS, float: _FLOAT, Decimal: text_scalar(str, _decimal_of)})
"""Numbers as JSON has them, decimals as texts, under the names of the fields: reports and findings."""

INTEGER_TEXT = text_scalar(str, int)
"""Whole numbers as strings of digits, because readers of JSON may round large numbers."""


def _sorted_pairs(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise TypeError
    return tuple(sorted((name, AS_IT_IS[str].of_json(text)) for name, text in value.items()))


PAIRS_AS_OBJECT = ScalarCodec(dict, _sorted_pairs)
"""Pairs of texts, sorted by the first, as an object."""

DOMAIN_AS_PAIRS = ScalarCodec(
    lambda domain: [list(pair) for pair in zip(domain.attributes, domain.sizes, strict=True)],
    lambda json: Domain.of(dict(PLAIN.codec(tuple[tuple[str, int], ...]).read(json, "domain"))),
)
"""A domain as a list of names with their sizes."""
