"""The codecs of typed JSON: scalars, objects, choices, tuples and mappings; see ``typed_json``."""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache, partial
from itertools import chain, repeat
from operator import attrgetter
from types import NoneType
from typing import Any, ClassVar, Protocol, get_type_hints

from gencard.core.errors import InvalidInputError

Json = dict[str, Any]

_ABSENT = object()

LARGEST_WHOLE = 2**53
"""Whole numbers up to this one are floats, too."""


class Codec(Protocol):
    """Writes values of one type as JSON, and reads them.

    ``read`` raises InvalidInputError, which names the path and nothing of the document. JSON values of
    the types in ``kinds`` stand for themselves, and all values are written as they are: many of them
    are checked and copied together, without a call for each.

    ``to_json`` writes a value faster than ``write``; None if nothing does.
    """

    @property
    def kinds(self) -> frozenset[type]: ...

    @property
    def to_json(self) -> Callable[[Any], Any] | None: ...

    def write(self, value: Any) -> Any: ...

    def read(self, json: Any, path: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class ScalarCodec:
    """Values without parts.

    Args:
        of_json: Raises TypeError or ValueError where the JSON value is none of them.
        types: Types of the JSON values that ``of_json`` takes; empty if it checks them itself.
        whole: Whether ``of_json`` is ``float`` and takes whole numbers.
    """

    to_json: Callable[[Any], Any]
    of_json: Callable[[Any], Any]
    kinds: frozenset[type] = frozenset()
    types: frozenset[type] = frozenset()
    whole: bool = False

    def write(self, value: Any) -> Any:
        return self.to_json(value)

    def read(self, json: Any, path: str) -> Any:
        if type(json) in self.kinds:
            return json
        if not self.types or type(json) in self.types:
            try:
                value = self.of_json(json)
            except (TypeError, ValueError, OverflowError):
                raise wrong(path) from None
            # nothing has a second spelling
            if (value if self.kinds else self.to_json(value)) == json:
                return value
        raise wrong(path)


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """Options of the JSON of a field; see ``written``."""

    path: str = ""
    omit: bool = False
    inline: bool = False
    scalar: ScalarCodec | None = None
    unset: bool = False
    private: bool = False


_NO_OPTIONS = JsonOptions()


def written(
    path: str = "",
    *,
    omit: bool = False,
    inline: bool = False,
    scalar: ScalarCodec | None = None,
    unset: bool = False,
    private: bool = False,
) -> dict[str, JsonOptions]:
    """Metadata of a field.

    Args:
        path: Where its value stands, as dotted names, if not under the name of the field.
        omit: It does not stand there where it is the default.
        unset: Documents always have it, but a message that leaves it unset means the default.
        private: Messages never have it: a value that crosses the wire must have the default.
        inline: The fields of its value stand among those of its owner.
        scalar: How it is written, if not as the form says.
    """
    return {"json": JsonOptions(path, omit, inline, scalar, unset, private)}


@dataclass(frozen=True, slots=True)
class CodecField:
    """A field of a dataclass: name, type, default (``MISSING`` for none) and options.

    Args:
        constant: The field is not in the constructor: it tells the members of a union apart.
    """

    name: str
    kind: Any
    default: Any
    options: JsonOptions
    constant: bool


@cache
def entries_of(kind: type) -> tuple[CodecField, ...]:
    """The fields of a dataclass, in order.

    A module that loads the types of its fields late has them in ``late_types``, by name.
    """
    late = getattr(sys.modules[kind.__module__], "late_types", None)
    hints = get_type_hints(kind, localns=late, include_extras=True)
    entries = []
    for one in fields(kind):
        default = one.default if one.default_factory is MISSING else one.default_factory()
        options = one.metadata.get("json", _NO_OPTIONS)
        entries.append(CodecField(one.name, hints[one.name], default, options, not one.init))
    return tuple(entries)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A field of an object, and where it stands.

    Args:
        steps: Names that lead to the value; none for a field that stands among those of the owner.
        kinds: Types of JSON values that stand for themselves: those of the codec, and of None.
        elements: Types of the elements of a tuple, if they all stand for themselves.
        whole: Whether a whole number stands for a float.
        write: Writes a value that is not None or, if ``many``, an element of it.
        form: Codec of the same, if it is for objects alone.
    """

    entry: CodecField
    steps: tuple[str, ...]
    codec: Codec
    kinds: frozenset[type]
    elements: frozenset[type]
    whole: bool
    write: Callable[[Any], Any]
    many: bool
    form: "Object | Choice | None"


@dataclass(slots=True, eq=False)
class Object:
    """A dataclass, as an object of its fields; nothing else may stand there. ``fill`` completes it.

    Objects in an object are written and read in one call, from a list of those that wait, each where
    its value will stand: a call for each takes longer.

    Args:
        required: Names that always stand there.
        constants: Name -> JSON of the fields that tell the members of a union apart.
        own: Fields that always stand there, under one name.
        rest: Fields that may be absent, or stand under several names, or none.
        single: Fields that are not written as they are, under one name.
        others: Fields under several names, or none, which are written last.
        defaults: Values of the fields that may be absent.
        places: First names, in order, and a field that stands there.
        get: Gets these fields of a value.
        lists: Fields that are tuples of objects.
    """

    kind: Any
    required: set[str] = field(default_factory=set)
    constants: Json = field(default_factory=dict)
    own: list[tuple[str, Part]] = field(default_factory=list)
    rest: list[Part] = field(default_factory=list)
    single: list[tuple[str, Part]] = field(default_factory=list)
    others: list[Part] = field(default_factory=list)
    defaults: Json = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    get: Callable[[Any], tuple[Any, ...]] = tuple
    lists: list[str] = field(default_factory=list)
    kinds: ClassVar = frozenset[type]()
    to_json: ClassVar = None

    def write(self, value: object) -> Json:
        root: list[Any] = [value]
        waiting: list[tuple[Any, Any, Any]] = [(self, root, 0)]
        for form, owner, place in waiting:
            value = owner[place]
            one = form.members[type(value)] if isinstance(form, Choice) else form
            # all fields at once, as they are; then those that are written in another way
            owner[place] = document = dict(zip(one.places, one.get(value), strict=False))
            for name, part in one.single:
                content = document[name]
                if part.entry.options.omit and content == part.entry.default:
                    del document[name]
                elif type(content) in part.kinds:
                    continue
                elif part.form is None:
                    document[name] = list(map(part.write, content)) if part.many else part.write(content)
                elif part.many:
                    document[name] = elements = list(content)
                    waiting.extend(zip(repeat(part.form), repeat(elements), range(len(elements))))
                else:
                    waiting.append((part.form, document, name))
            if one.others:
                one.write_others(document, value)
        json: Json = root[0]
        return json

    def write_others(self, document: Json, value: object) -> None:
        """Write the fields that have no name of their own in the document, or several."""
        folders: Json = {}
        for part in self.others:
            content = getattr(value, part.entry.name)
            document.update(dict.fromkeys(part.steps[:1]))
            if part.entry.options.omit and content == part.entry.default:
                continue
            if type(content) not in part.kinds:
                content = list(map(part.write, content)) if part.many else part.write(content)
            if part.steps:
                _put(folders, part.steps, content)
            else:
                document.update(content)
        document.update(folders)
        for part in self.others:
            if part.steps and part.steps[0] not in folders:
                document.pop(part.steps[0], None)

    def read(self, json: Any, path: str) -> Any:
        root, objects = {"": json}, []
        waiting: list[tuple[Any, Any, Any, str]] = [(self, root, "", path)]
        for form, owner, place, start in waiting:
            where = f"{start}[{place}]" if type(place) is int else start
            document = owner[place]
            one = form.fitting(document, where) if isinstance(form, Choice) else form
            if not isinstance(document, dict) or not one.required <= document.keys():
                raise one.refusal(document, where)
            values = dict(one.defaults)
            for name, part in one.own:
                content = document[name]
                kind = type(content)
                if part.elements and kind is list and part.elements.issuperset(map(type, content)):
                    content = tuple(content)
                elif part.whole and kind is int and abs(content) <= LARGEST_WHOLE:
                    content = float(content)
                elif part.form is not None and part.many and kind is list:
                    content = [*content]
                    places = range(len(content)), repeat(f"{where}.{name}")
                    waiting.extend(zip(repeat(part.form), repeat(content), *places, strict=False))
                elif part.form is not None and not part.many and kind is dict:
                    waiting.append((part.form, values, part.entry.name, f"{where}.{name}"))
                elif kind not in part.kinds:
                    content = part.codec.read(content, f"{where}.{name}")
                values[part.entry.name] = content
            known = len(one.constants) + len(one.own)
            has_more = one.others or known < len(document)
            known += one.read_rest(document, values, where) if has_more else 0
            is_complete = known == len(document) and len(values) == len(one.own) + len(one.rest)
            if not is_complete or not one.constants.items() <= document.items():
                raise one.refusal(document, where)
            owner[place] = values
            objects.append((one, owner, place, where))
        _make(objects)
        return root[""]

    def read_rest(self, json: Json, values: Json, path: str) -> int:
        """Read the fields that may be absent, have no name of their own in the document, or several.

        Returns:
            Number of first names under which nothing else stands.
        """
        folders: Json = {}
        known = 0
        for part in self.rest:
            content = self._taken(part.steps, json)
            if content is _ABSENT:
                continue
            value = part.codec.read(content, ".".join((path, *part.steps)))
            if part.entry.options.omit and value == part.entry.default:
                raise wrong(path)
            values[part.entry.name] = value
            if part.steps:
                _put(folders, part.steps, content)
            else:
                known = len(content)
        if not folders.items() <= json.items():
            raise wrong(path)
        return known + len(folders)

    def _taken(self, steps: tuple[str, ...], document: Any) -> Any:
        """Return the value under some names, or ``_ABSENT``; for no name, all that no field has."""
        if not steps:
            return {name: one for name, one in document.items() if name not in self.places}
        for name in steps:
            if not isinstance(document, dict) or name not in document:
                return _ABSENT
            document = document[name]
        return document

    def refusal(self, document: Any, path: str) -> InvalidInputError:
        """The error about the first field that is missing or, if there is none, about the whole."""
        if isinstance(document, dict) and self.constants.items() <= document.items():
            for part in (*[part for _, part in self.own], *self.rest):
                if not part.entry.options.omit and self._taken(part.steps, document) is _ABSENT:
                    return InvalidInputError(field=".".join((path, *part.steps)), problem="is missing")
        return wrong(path)


def _make(objects: list[tuple[Object, Any, Any, str]]) -> None:
    """Make the values of objects, each after those in it, which stand behind."""
    for one, owner, place, path in reversed(objects):
        values = owner[place]
        for name in one.lists:
            if type(values[name]) is list:
                values[name] = tuple(values[name])
        try:
            owner[place] = one.kind(**values)
        except (TypeError, ValueError):
            raise wrong(path) from None


def fill(objects: Iterable[Object], name: Callable[[str], str], codecs: Mapping[Any, Codec]) -> None:
    """Complete the codecs of dataclasses.

    Args:
        name: How the name of a field is written, if it has several words.
    """
    for one in objects:
        for entry in entries_of(one.kind):
            options = entry.options
            codec = options.scalar or codecs[entry.kind]
            inner: Any = codec.codec if isinstance(codec, Maybe) else codec
            many = isinstance(inner, Items) and not inner.codec.kinds
            element = inner.codec if many else inner
            members = element.members.values() if isinstance(element, Choice) else (element,)
            path = options.path or (name(entry.name) if "_" in entry.name else entry.name)
            part = Part(
                entry,
                () if options.inline else tuple(path.split(".")),
                codec,
                codec.kinds | {NoneType} if inner is not codec else codec.kinds,
                codec.codec.kinds if isinstance(codec, Items) else frozenset[type](),
                isinstance(codec, ScalarCodec) and codec.whole,
                element.to_json or element.write,
                many,
                element if {Object}.issuperset(map(type, members)) else None,
            )
            first = part.steps[:1]
            one.places.update(dict.fromkeys(first, entry.name))
            if options.omit and not entry.constant:
                one.defaults[entry.name] = entry.default
            else:
                one.required.update(first)
            if len(part.steps) != 1:
                one.others.append(part)
            elif not codec.kinds or options.omit:
                one.single.append((part.steps[0], part))
            if entry.constant:
                one.constants[part.steps[0]] = codec.write(entry.default)
                continue
            if options.omit or len(part.steps) != 1:
                one.rest.append(part)
            else:
                one.own.append((part.steps[0], part))
                one.lists += [entry.name] if many and part.form else []
        # attrgetter gives a tuple from two names on; zip drops what is there for no name
        one.get = attrgetter(*one.places.values(), "__class__", "__class__")


def _put(document: Json, steps: tuple[str, ...], content: Any) -> None:
    for name in steps[:-1]:
        document = document.setdefault(name, {})
    document[steps[-1]] = content


@dataclass(frozen=True, slots=True, eq=False)
class Maybe:
    """A value of one type, or None."""

    codec: Codec
    kinds: ClassVar = frozenset[type]()
    to_json: ClassVar = None

    def write(self, value: object) -> Any:
        return None if value is None else self.codec.write(value)

    def read(self, json: Any, path: str) -> Any:
        return None if json is None else self.codec.read(json, path)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A value of one of several dataclasses."""

    members: Mapping[Any, Any]
    kinds: ClassVar = frozenset[type]()
    to_json: ClassVar = None

    def write(self, value: object) -> Any:
        return self.members[type(value)].write(value)

    def read(self, json: Any, path: str) -> Any:
        return self.fitting(json, path).read(json, path)

    def fitting(self, json: Any, path: str) -> Object:
        """The one member that has all names and constants of a document, or an error."""
        fitting: Object | None = None
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
        return fitting


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A tuple with one codec for each element, as a list."""

    codecs: tuple[Codec, ...]
    to_json: Callable[[Any], Any] | None
    kinds: ClassVar = frozenset[type]()

    def write(self, values: tuple[Any, ...]) -> list[Any]:
        return [codec.write(value) for codec, value in zip(self.codecs, values, strict=True)]

    def read(self, json: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(json, list) or len(json) != len(self.codecs):
            raise wrong(path)
        values = []
        for place, (codec, one) in enumerate(zip(self.codecs, json, strict=True)):
            values.append(one if type(one) in codec.kinds else codec.read(one, f"{path}[{place}]"))
        return tuple(values)


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """A tuple of any length, as a list.

    Args:
        rows: Types of the elements of all elements, where these stand for themselves.
        whole: Whether the elements, or those of all elements, are floats.
    """

    codec: Codec
    to_json: Callable[[Any], Any] | None
    rows: frozenset[type]
    whole: bool
    kinds: ClassVar = frozenset[type]()

    def write(self, values: tuple[Any, ...]) -> list[Any]:
        write = self.codec.to_json or self.codec.write
        return list(map(write, values))

    def read(self, json: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(json, list):
            raise wrong(path)
        kinds, read = self.codec.kinds, self.codec.read
        # values of any other type take the way below, which names the place of the first wrong one
        if kinds.issuperset(map(type, json)):
            return tuple(json)
        is_rows = bool(self.rows) and {list}.issuperset(map(type, json))
        flat = list(chain.from_iterable(json)) if is_rows else json
        if is_rows and self.rows.issuperset(map(type, flat)):
            return tuple(map(tuple, json))
        is_whole = self.whole and is_rows == bool(self.rows)
        is_number = is_whole and {int, float}.issuperset(map(type, flat))
        if is_number and max(map(abs, flat)) <= LARGEST_WHOLE:
            return tuple(map(tuple, map(partial(map, float), json)) if is_rows else map(float, json))
        values = []
        for place, one in enumerate(json):
            values.append(one if type(one) in kinds else read(one, f"{path}[{place}]"))
        return tuple(values)


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """A mapping from texts, as an object; its names are content, which no path may hold."""

    codec: Codec
    to_json: Callable[[Any], Any] | None
    kinds: ClassVar = frozenset[type]()

    def write(self, value: Mapping[str, Any]) -> Json:
        return dict(zip(value, map(self.codec.write, value.values()), strict=True))

    def read(self, json: Any, path: str) -> Json:
        if not isinstance(json, dict):
            raise wrong(path)
        if self.codec.kinds and self.codec.kinds.issuperset(map(type, json.values())):
            return dict(json)
        values = map(self.codec.read, json.values(), repeat(f"{path}[]"))
        return dict(zip(json, values, strict=True))


def wrong(path: str) -> InvalidInputError:
    return InvalidInputError(field=path, problem="does not have the expected form")
