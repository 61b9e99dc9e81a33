"""The codecs of typed JSON: scalars, objects, choices, tuples and mappings; see ``typed_json``."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, Protocol, get_type_hints

from gencard.core.errors import InvalidInputError

Json = dict[str, Any]

_ABSENT = object()


class Codec(Protocol):
    """Writes values of one type as JSON, and reads them.

    ``read`` raises InvalidInputError, which names the path and nothing of the document.
    """

    def write(self, value: Any) -> Any: ...

    def read(self, json: Any, path: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Scalar:
    """Values without parts.

    Args:
        of_json: Raises TypeError or ValueError where the JSON value is none of them.
    """

    to_json: Callable[[Any], Any]
    of_json: Callable[[Any], Any]

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
    """The fields of a dataclass, in order."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        Entry(
            one.name,
            hints[one.name],
            one.default if one.default_factory is MISSING else one.default_factory(),
            one.metadata.get("json", Options()),
            not one.init,
        )
        for one in fields(kind)
    )


@dataclass(frozen=True, slots=True)
class Part:
    """A field of an object: where it stands, and how it is written."""

    entry: Entry
    steps: tuple[str, ...]
    codec: Codec

    def put(self, document: Json, value: object) -> None:
        if self.entry.options.omit and value == self.entry.default:
            return
        json = self.codec.write(value)
        for name in reversed(self.steps):
            json = {name: json}
        _merge(document, json)

    def take(self, document: Any) -> Any:
        """What stands there, or ``_ABSENT``."""
        for name in self.steps:
            if not isinstance(document, dict) or name not in document:
                return _ABSENT
            document = document[name]
        return document

    def read(self, document: Json, path: str) -> Any:
        here, json = ".".join((path, *self.steps)), self.take(document)
        if json is not _ABSENT:
            return self.codec.read(json, here)
        if not self.entry.options.omit:
            raise InvalidInputError(field=here, problem="is missing")
        return self.entry.default


@dataclass(frozen=True, slots=True)
class Object:
    """A dataclass, as an object of its fields."""

    kind: Callable[..., Any]
    parts: tuple[Part, ...]

    def write(self, value: object) -> Json:
        document: Json = {}
        for part in self.parts:
            part.put(document, getattr(value, part.entry.name))
        return document

    def read(self, json: Any, path: str) -> Any:
        if not isinstance(json, dict):
            raise wrong(path)
        values = {
            part.entry.name: part.read(json, path) for part in self.parts if not part.entry.constant
        }
        try:
            return self.kind(**values)
        except (TypeError, ValueError):
            raise wrong(path) from None

    def fits(self, json: object) -> bool:
        """Whether the required names and the constants stand there."""
        for part in self.parts:
            content, entry = part.take(json), part.entry
            if entry.constant and content != part.codec.write(entry.default):
                return False
            if content is _ABSENT and not entry.options.omit:
                return False
        return True


@dataclass(frozen=True, slots=True)
class Choice:
    """A value of one of several dataclasses, or of one type or None."""

    members: Mapping[Any, Codec]
    optional: bool

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
    """A tuple: one codec for each element, or one for all of them."""

    codecs: tuple[Codec, ...]
    repeated: bool

    def write(self, values: tuple[Any, ...]) -> list[Any]:
        codecs = self.codecs * len(values) if self.repeated else self.codecs
        return [codec.write(value) for codec, value in zip(codecs, values, strict=True)]

    def read(self, json: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(json, list) or not (self.repeated or len(json) == len(self.codecs)):
            raise wrong(path)
        codecs = self.codecs * len(json) if self.repeated else self.codecs
        places = enumerate(zip(codecs, json, strict=True))
        return tuple(codec.read(one, f"{path}[{place}]") for place, (codec, one) in places)


@dataclass(frozen=True, slots=True)
class Names:
    """A mapping from texts, as an object; its names are content, which no path may hold."""

    codec: Codec

    def write(self, value: Mapping[str, Any]) -> Json:
        return {name: self.codec.write(one) for name, one in value.items()}

    def read(self, json: Any, path: str) -> Json:
        if not isinstance(json, dict):
            raise wrong(path)
        return {name: self.codec.read(one, f"{path}[]") for name, one in json.items()}


def wrong(path: str) -> InvalidInputError:
    return InvalidInputError(field=path, problem="does not have the expected form")


def _merge(document: Json, other: Json) -> None:
    for name, value in other.items():
        if name in document:
            _merge(document[name], value)
        else:
            document[name] = value
