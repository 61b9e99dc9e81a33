"""The codecs of typed JSON: scalars, objects, choices, tuples and mappings; see ``typed_json``."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from itertools import chain
from operator import attrgetter
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
        types: Types of the JSON values that ``of_json`` takes; empty if it checks them itself.
    """

    to_json: Callable[[Any], Any]
    of_json: Callable[[Any], Any]
    kinds: frozenset[type] = frozenset()
    types: frozenset[type] = frozenset()

    def write(self, value: Any) -> Any:
        return self.to_json(value)

    def read(self, json: Any, path: str) -> Any:
        if type(json) in self.kinds:
            return json
        if not self.types or type(json) in self.types:
            try:
                return self.of_json(json)
            except (TypeError, ValueError, OverflowError):
                pass
        raise wrong(path)


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
    """A field of an object: where it stands, and how it is written.

    Args:
        steps: Names that lead to the value; none for fields that stand among those of the owner.
        write: Writes the value or, if ``many``, one of its elements.
        maybe: None stands for itself, and is not written.
    """

    entry: Entry
    steps: tuple[str, ...]
    codec: Codec
    write: Callable[[Any], Any]
    many: bool
    maybe: bool

    @classmethod
    def of(cls, entry: Entry, steps: tuple[str, ...], codec: Codec) -> "Part":
        return cls(entry, steps, codec, *_writer(codec), isinstance(codec, Maybe))

    def take(self, document: Any) -> Any:
        """What stands there, or ``_ABSENT``."""
        for name in self.steps:
            if not isinstance(document, dict) or name not in document:
                return _ABSENT
            document = document[name]
        return document


def _writer(codec: Codec) -> tuple[Callable[[Any], Any], bool]:
    """The function that writes values with the fewest calls, and whether it writes their elements.

    It does not get None if this stands for itself.
    """
    if isinstance(codec, Scalar):
        return codec.to_json, False
    if isinstance(codec, Maybe):
        return _writer(codec.codec)
    if isinstance(codec, Items) and not codec.codec.kinds:
        write, many = _writer(codec.codec)
        return (codec.codec.write if many or isinstance(codec.codec, Maybe) else write), True
    if isinstance(codec, Items) or (isinstance(codec, Row) and codec.is_plain):
        return list, False
    if isinstance(codec, Names) and codec.codec.kinds:
        return dict, False
    return codec.write, False


class Object:
    """A dataclass, as an object of its fields.

    Args:
        required: Names that always stand there.
        constants: Name -> JSON of the fields that tell the members of a union apart.
    """

    kinds: ClassVar = frozenset[type]()

    def __init__(self, kind: Callable[..., Any], parts: tuple[Part, ...]) -> None:
        self._kind = kind
        self._read = [part for part in parts if not part.entry.constant]
        single = [part for part in parts if len(part.steps) == 1]
        self._single = [
            (*part.steps, part) for part in single if part.entry.options.omit or not part.codec.kinds
        ]
        self._others = [part for part in parts if len(part.steps) != 1]
        self._folders = {part.steps[0] for part in self._others if part.steps}
        places = {part.steps[0]: part.entry.name for part in parts if part.steps}
        self._places = tuple(places)
        # attrgetter gives a tuple from two names on; zip drops what is there for no name
        self._get = attrgetter(*places.values(), "__class__", "__class__")
        self.constants = {
            part.steps[0]: part.write(part.entry.default) for part in single if part.entry.constant
        }
        required = [part.steps[0] for part in parts if part.steps and not part.entry.options.omit]
        self.required = {*required, *self.constants}

    def write(self, value: object) -> Json:
        # all fields at once, as they are; then those that are written in another way
        document = dict(zip(self._places, self._get(value), strict=False))
        for name, part in self._single:
            content = document[name]
            if part.entry.options.omit and content == part.entry.default:
                del document[name]
            elif content is not None or not part.maybe:
                document[name] = list(map(part.write, content)) if part.many else part.write(content)
        if self._others:
            self._write_others(document, value)
        return document

    def _write_others(self, document: Json, value: object) -> None:
        """Write the fields that have no name of their own in the document, or several."""
        for name in self._folders:
            document[name] = {}
        for part in self._others:
            content = getattr(value, part.entry.name)
            if part.entry.options.omit and content == part.entry.default:
                continue
            if content is not None or not part.maybe:
                content = list(map(part.write, content)) if part.many else part.write(content)
            if not part.steps:
                document.update(content)
                continue
            folder = document
            for name in part.steps[:-1]:
                folder = folder.setdefault(name, {})
            folder[part.steps[-1]] = content
        for name in self._folders:
            if not document[name]:
                del document[name]

    def read(self, json: Any, path: str) -> Any:
        if not isinstance(json, dict):
            raise wrong(path)
        values = {}
        for part in self._read:
            steps = part.steps
            content = json.get(steps[0], _ABSENT) if len(steps) == 1 else part.take(json)
            if content is _ABSENT:
                if not part.entry.options.omit:
                    raise InvalidInputError(field=".".join((path, *steps)), problem="is missing")
                content = part.entry.default
            elif type(content) not in part.codec.kinds and not (part.maybe and content is None):
                content = part.codec.read(content, ".".join((path, *steps)))
            values[part.entry.name] = content
        try:
            return self._kind(**values)
        except (TypeError, ValueError):
            raise wrong(path) from None


@dataclass(frozen=True, slots=True)
class Maybe:
    """A value of one type, or None."""

    codec: Codec
    kinds: ClassVar = frozenset[type]()

    def write(self, value: object) -> Any:
        return None if value is None else self.codec.write(value)

    def read(self, json: Any, path: str) -> Any:
        return None if json is None else self.codec.read(json, path)


@dataclass(frozen=True, slots=True)
class Choice:
    """A value of one of several dataclasses, or None if it is optional."""

    members: Mapping[Any, Codec]
    optional: bool
    kinds: ClassVar = frozenset[type]()

    def write(self, value: object) -> Any:
        return None if value is None else self.members[type(value)].write(value)

    def read(self, json: Any, path: str) -> Any:
        if json is None and self.optional:
            return None
        fitting = None
        for codec in self.members.values() if isinstance(json, dict) else ():
            if not isinstance(codec, Object) or not codec.required <= json.keys():
                continue
            if not codec.constants.items() <= json.items():
                continue
            if fitting is not None:
                raise wrong(path)
            fitting = codec
        if fitting is None:
            raise wrong(path)
        return fitting.read(json, path)


@dataclass(frozen=True, slots=True)
class Row:
    """A tuple with one codec for each element, as a list."""

    codecs: tuple[Codec, ...]
    kinds: ClassVar = frozenset[type]()

    @property
    def is_plain(self) -> bool:
        """Whether all elements are written as they are."""
        return all(map(attrgetter("kinds"), self.codecs))

    def write(self, values: tuple[Any, ...]) -> list[Any]:
        return [codec.write(value) for codec, value in zip(self.codecs, values, strict=True)]

    def read(self, json: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(json, list) or len(json) != len(self.codecs):
            raise wrong(path)
        values = []
        for place, (codec, one) in enumerate(zip(self.codecs, json, strict=True)):
            values.append(one if type(one) in codec.kinds else codec.read(one, f"{path}[{place}]"))
        return tuple(values)


class Items:
    """A tuple of any length, as a list."""

    kinds: ClassVar = frozenset[type]()

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self._write, self._many = _writer(self)
        self._rows = codec.codec.kinds if isinstance(codec, Items) else frozenset[type]()
        """Types of the elements of all elements, where these stand for themselves."""

    def write(self, values: tuple[Any, ...]) -> list[Any]:
        return list(map(self._write, values)) if self._many else list(values)

    def read(self, json: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(json, list):
            raise wrong(path)
        kinds, read = self.codec.kinds, self.codec.read
        # values of any other type take the way below, which names the place of the first wrong one
        if kinds.issuperset(map(type, json)):
            return tuple(json)
        is_rows = bool(self._rows) and {list}.issuperset(map(type, json))
        if is_rows and self._rows.issuperset(map(type, chain.from_iterable(json))):
            return tuple(map(tuple, json))
        values = []
        for place, one in enumerate(json):
            values.append(one if type(one) in kinds else read(one, f"{path}[{place}]"))
        return tuple(values)


@dataclass(frozen=True, slots=True)
class Names:
    """A mapping from texts, as an object; its names are content, which no path may hold."""

    codec: Codec
    kinds: ClassVar = frozenset[type]()

    def write(self, value: Mapping[str, Any]) -> Json:
        if self.codec.kinds:
            return dict(value)
        return dict(zip(value, map(self.codec.write, value.values()), strict=True))

    def read(self, json: Any, path: str) -> Json:
        if not isinstance(json, dict):
            raise wrong(path)
        if self.codec.kinds and self.codec.kinds.issuperset(map(type, json.values())):
            return dict(json)
        return {name: self.codec.read(one, f"{path}[]") for name, one in json.items()}


def wrong(path: str) -> InvalidInputError:
    return InvalidInputError(field=path, problem="does not have the expected form")
