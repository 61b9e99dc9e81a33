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

    ``to_json`` writes a value that is not None with the fewest calls or, if ``many``, one element of it.
    """

    @property
    def kinds(self) -> frozenset[type]: ...

    @property
    def to_json(self) -> Callable[[Any], Any]: ...

    @property
    def many(self) -> bool: ...

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
    many: ClassVar = False

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
    """A field of an object, and where it stands.

    Args:
        steps: Names that lead to the value; none for fields that stand among those of the owner.
        maybe: None stands for itself.
    """

    entry: Entry
    steps: tuple[str, ...]
    codec: Codec
    maybe: bool

    def take(self, document: Any) -> Any:
        """What stands there, or ``_ABSENT``."""
        for name in self.steps:
            if not isinstance(document, dict) or name not in document:
                return _ABSENT
            document = document[name]
        return document


class Object:
    """A dataclass, as an object of its fields.

    Args:
        required: Names that always stand there.
        constants: Name -> JSON of the fields that tell the members of a union apart.
    """

    kinds: ClassVar = frozenset[type]()
    many: ClassVar = False

    def __init__(self, kind: Callable[..., Any], parts: list[Part]) -> None:
        self._kind, self.to_json = kind, self.write
        self.required: set[str] = set()
        self.constants: Json = {}
        self._read: list[Part] = []
        self._single: list[tuple[str, Part]] = []
        """Fields that are not written as they are, under one name."""
        self._others: list[Part] = []
        """Fields under several names, or none."""
        self._folders: set[str] = set()
        places: dict[str, str] = {}
        for part in parts:
            entry, steps = part.entry, part.steps
            if entry.constant:
                self.constants[steps[0]] = part.codec.write(entry.default)
            else:
                self._read.append(part)
            if len(steps) != 1:
                self._others.append(part)
                self._folders.update(steps[:1])
            elif entry.options.omit or not part.codec.kinds:
                self._single.append((steps[0], part))
            if steps and (entry.constant or not entry.options.omit):
                self.required.add(steps[0])
            if steps:
                places[steps[0]] = entry.name
        self._places = tuple(places)
        # attrgetter gives a tuple from two names on; zip drops what is there for no name
        self._get = attrgetter(*places.values(), "__class__", "__class__")

    def write(self, value: object) -> Json:
        # all fields at once, as they are; then those that are written in another way
        document = dict(zip(self._places, self._get(value), strict=False))
        for name, part in self._single:
            content = document[name]
            if part.entry.options.omit and content == part.entry.default:
                del document[name]
            elif content is not None or not part.maybe:
                write = part.codec.to_json
                document[name] = list(map(write, content)) if part.codec.many else write(content)
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
            if not part.codec.kinds and not (part.maybe and content is None):
                write = part.codec.to_json
                content = list(map(write, content)) if part.codec.many else write(content)
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


class Maybe:
    """A value of one type, or None."""

    kinds: ClassVar = frozenset[type]()

    def __init__(self, codec: Codec) -> None:
        self.codec, self.to_json, self.many = codec, codec.to_json, codec.many

    def write(self, value: object) -> Any:
        return None if value is None else self.codec.write(value)

    def read(self, json: Any, path: str) -> Any:
        return None if json is None else self.codec.read(json, path)


class Choice:
    """A value of one of several dataclasses, or None if it is optional."""

    kinds: ClassVar = frozenset[type]()
    many: ClassVar = False

    def __init__(self, members: Mapping[Any, Codec], *, optional: bool) -> None:
        self.members, self.optional, self.to_json = members, optional, self.write

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


class Row:
    """A tuple with one codec for each element, as a list."""

    kinds: ClassVar = frozenset[type]()
    many: ClassVar = False

    def __init__(self, codecs: tuple[Codec, ...]) -> None:
        self.codecs = codecs
        self.to_json = list if all(map(attrgetter("kinds"), codecs)) else self.write

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
        self.codec, self.many = codec, not codec.kinds
        is_simple = not codec.many and not isinstance(codec, Maybe)
        self.to_json = list if codec.kinds else codec.to_json if is_simple else codec.write
        self._rows = codec.codec.kinds if isinstance(codec, Items) else frozenset[type]()
        """Types of the elements of all elements, where these stand for themselves."""

    def write(self, values: tuple[Any, ...]) -> list[Any]:
        return list(map(self.to_json, values)) if self.many else list(values)

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


class Names:
    """A mapping from texts, as an object; its names are content, which no path may hold."""

    kinds: ClassVar = frozenset[type]()
    many: ClassVar = False

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.to_json = dict if codec.kinds else self.write

    def write(self, value: Mapping[str, Any]) -> Json:
        return dict(zip(value, map(self.codec.write, value.values()), strict=True))

    def read(self, json: Any, path: str) -> Json:
        if not isinstance(json, dict):
            raise wrong(path)
        if self.codec.kinds and self.codec.kinds.issuperset(map(type, json.values())):
            return dict(json)
        return {name: self.codec.read(one, f"{path}[]") for name, one in json.items()}


def wrong(path: str) -> InvalidInputError:
    return InvalidInputError(field=path, problem="does not have the expected form")
