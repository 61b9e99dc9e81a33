"""The codecs of typed JSON: scalars, objects, choices, tuples and mappings; see ``typed_json``."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from itertools import chain
from typing import Any, ClassVar, Protocol, get_type_hints

from gencard.core.errors import InvalidInputError

Json = dict[str, Any]

_ABSENT = object()


class Codec(Protocol):
    """Writes values of one type as JSON, and reads them.

    ``read`` raises InvalidInputError, which names the path and nothing of the document. JSON values of
    the types in ``kinds`` stand for themselves, and all values are written as they are: many of them
    are checked and copied together, without a call for each.
    """

    @property
    def kinds(self) -> frozenset[type]: ...

    def write(self, value: Any) -> Any: ...

    def read(self, json: Any, path: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Scalar:
    """Values without parts.

    Args:
        of_json: Raises TypeError or ValueError where the JSON value is none of them.
        kinds: See ``Codec``.
    """

    to_json: Callable[[Any], Any]
    of_json: Callable[[Any], Any]
    kinds: frozenset[type] = frozenset()

    def write(self, value: Any) -> Any:
        return self.to_json(value)

    def read(self, json: Any, path: str) -> Any:
        try:
            return self.of_json(json)
        except (TypeError, ValueError, OverflowError):
            raise wrong(path) from None


@dataclass(frozen=True, slots=True)
class Options:
    """What a field says of its JSON; see ``written``."""

    path: str = ""
    omit: bool = False
    inline: bool = False
    scalar: Scalar | None = None
    unset: bool = False
    private: bool = False


_NO_OPTIONS = Options()


def written(
    path: str = "",
    *,
    omit: bool = False,
    inline: bool = False,
    scalar: Scalar | None = None,
    unset: bool = False,
    private: bool = False,
) -> dict[str, Options]:
    """Metadata of a field.

    Args:
        path: Where its value stands, as dotted names, if not under the name of the field.
        omit: It does not stand there where it is the default.
        unset: Documents always have it, but a message that leaves it unset means the default.
        private: Messages never have it: a value that crosses the wire must have the default.
        inline: The fields of its value stand among those of its owner.
        scalar: How it is written, if not as the form says.
    """
    return {"json": Options(path, omit, inline, scalar, unset, private)}


@dataclass(frozen=True, slots=True)
class Entry:
    """A field of a dataclass: name, type, default (``MISSING`` for none) and options.

    Args:
        constant: The field is not in the constructor: it tells the members of a union apart.
    """

    name: str
    kind: Any
    default: Any
    options: Options
    constant: bool


@cache
def entries_of(kind: type) -> tuple[Entry, ...]:
    """The fields of a dataclass, in order.

    A module that loads the types of its fields late has them in ``late_types``, by name.
    """
    late = getattr(sys.modules[kind.__module__], "late_types", None)
    hints = get_type_hints(kind, localns=late, include_extras=True)
    entries = []
    for one in fields(kind):
        default = one.default if one.default_factory is MISSING else one.default_factory()
        options = one.metadata.get("json", _NO_OPTIONS)
        entries.append(Entry(one.name, hints[one.name], default, options, not one.init))
    return tuple(entries)


@dataclass(frozen=True, slots=True)
class Part:
    """A field of an object: where it stands, and how it is written."""

    entry: Entry
    steps: tuple[str, ...]
    codec: Codec

    def take(self, document: Any) -> Any:
        """What stands there, or ``_ABSENT``."""
        for name in self.steps:
            if not isinstance(document, dict) or name not in document:
                return _ABSENT
            document = document[name]
        return document


@dataclass(frozen=True, slots=True)
class Object:
    """A dataclass, as an object of its fields."""

    kind: Callable[..., Any]
    parts: tuple[Part, ...]
    kinds: ClassVar = frozenset[type]()

    def write(self, value: object) -> Json:
        document: Json = {}
        for part in self.parts:
            content = getattr(value, part.entry.name)
            if part.entry.options.omit and content == part.entry.default:
                continue
            json = content if part.codec.kinds else part.codec.write(content)
            if len(part.steps) == 1 and part.steps[0] not in document:
                document[part.steps[0]] = json
                continue
            for name in reversed(part.steps):
                json = {name: json}
            _merge(document, json)
        return document

    def read(self, json: Any, path: str) -> Any:
        if not isinstance(json, dict):
            raise wrong(path)
        values = {}
        for part in self.parts:
            if part.entry.constant:
                continue
            content = json.get(part.steps[0], _ABSENT) if len(part.steps) == 1 else part.take(json)
            if content is _ABSENT:
                if not part.entry.options.omit:
                    raise InvalidInputError(field=".".join((path, *part.steps)), problem="is missing")
                content = part.entry.default
            elif type(content) not in part.codec.kinds:
                content = part.codec.read(content, ".".join((path, *part.steps)))
            values[part.entry.name] = content
        try:
            return self.kind(**values)
        except (TypeError, ValueError):
            raise wrong(path) from None

    def fits(self, json: object) -> bool:
        """Whether the required names and the constants stand there."""
        for part in self.parts:
            entry = part.entry
            if entry.options.omit and not entry.constant:
                continue
            content = part.take(json)
            if content is _ABSENT or (entry.constant and content != part.codec.write(entry.default)):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Choice:
    """A value of one of several dataclasses, or of one type or None."""

    members: Mapping[Any, Codec]
    optional: bool
    kinds: frozenset[type] = frozenset()

    def write(self, value: object) -> Any:
        if value is None:
            return None
        single = len(self.members) == 1
        return (next(iter(self.members.values())) if single else self.members[type(value)]).write(value)

    def read(self, json: Any, path: str) -> Any:
        if json is None and self.optional:
            return None
        codecs = list(self.members.values())
        if len(codecs) > 1:
            codecs = [codec for codec in codecs if isinstance(codec, Object) and codec.fits(json)]
        if len(codecs) != 1:
            raise wrong(path)
        return codecs[0].read(json, path)


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple: one codec for each element, or one for all of them.

    Args:
        elements: Kinds of all elements, which are copied together.
        rows: Kinds of the elements of all elements, if these are tuples of any length.
    """

    codecs: tuple[Codec, ...]
    repeated: bool
    elements: frozenset[type] = frozenset()
    rows: frozenset[type] = frozenset()
    kinds: ClassVar = frozenset[type]()

    def write(self, values: tuple[Any, ...]) -> list[Any]:
        if self.elements:
            return list(values)
        if self.rows:
            return list(map(list, values))
        codecs = self.codecs * len(values) if self.repeated else self.codecs
        return [codec.write(value) for codec, value in zip(codecs, values, strict=True)]

    def read(self, json: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(json, list) or not (self.repeated or len(json) == len(self.codecs)):
            raise wrong(path)
        # values of any other type take the way below, which names the place of the first wrong one
        if self.elements and self.elements.issuperset(map(type, json)):
            return tuple(json)
        is_rows = bool(self.rows) and {list}.issuperset(map(type, json))
        if is_rows and self.rows.issuperset(map(type, chain.from_iterable(json))):
            return tuple(map(tuple, json))
        codecs = self.codecs * len(json) if self.repeated else self.codecs
        places = enumerate(zip(codecs, json, strict=True))
        return tuple([codec.read(one, f"{path}[{place}]") for place, (codec, one) in places])


@dataclass(frozen=True, slots=True)
class Names:
    """A mapping from texts, as an object; its names are content, which no path may hold."""

    codec: Codec
    kinds: ClassVar = frozenset[type]()

    def write(self, value: Mapping[str, Any]) -> Json:
        if self.codec.kinds:
            return dict(value)
        return {name: self.codec.write(one) for name, one in value.items()}

    def read(self, json: Any, path: str) -> Json:
        if not isinstance(json, dict):
            raise wrong(path)
        if self.codec.kinds and self.codec.kinds.issuperset(map(type, json.values())):
            return dict(json)
        return {name: self.codec.read(one, f"{path}[]") for name, one in json.items()}


def wrong(path: str) -> InvalidInputError:
    return InvalidInputError(field=path, problem="does not have the expected form")


def _merge(document: Json, other: Json) -> None:
    for name, value in other.items():
        if name in document:
            _merge(document[name], value)
        else:
            document[name] = value
