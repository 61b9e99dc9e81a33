"""Frozen dataclasses as protobuf messages and back, field by field, by the fields' names and types.

A dataclass and its message have the same fields: a difference is an error when the pair is made.
Fields marked ``omit`` or ``unset`` (``core.json_codecs.written``) have their default where the message
leaves them unset. Other fields of a dataclass's type have their default too; all others the zero of
their type, as protobuf has it, which constructors refuse where it is no value. Fields marked ``private``
are not in the message: they must have their defaults, and are read as these. Types and their fields:

=============================  ================================================================
type                           field of the message
=============================  ================================================================
``str``, ``bytes``, numbers    the same
``Decimal``                    string, in plain digits
``datetime``                   google.protobuf.Timestamp
``date``                       string, YYYY-MM-DD
``StrEnum``                    enum, by the names of the members; or string, by their values
``Mapping[str, Any]``          bytes, RFC 8785 JSON; no bytes for an empty one
``Any``, dataclass             bytes, JSON; no bytes for None
``X | None``                   unset, or where a field is never unset its zero, means None
``tuple[X, ...]``              repeated; in a tuple, or alone in a field, a message of one field
``Mapping[str, X]``            map, or repeated messages with two fields: a name and what it has
union of dataclasses           oneof with the name of the field
=============================  ================================================================
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, is_dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import cache, lru_cache, partial
from itertools import repeat
from operator import attrgetter, itemgetter
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from gencard.core.card.budget import Neighbouring, decimal_text
from gencard.core.card.card import CardRecord
from gencard.core.card.privacy import AddedNoise, Mechanism, Privacy, privacy_with
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.json_codecs import CodecField, entries_of
from gencard.core.typed_json import PLAIN, members_of
from gencard.v1 import common_pb2 as common
from gencard.v1 import negotiation_pb2 as pb
from gencard.wire.canonical import LONGEST_DECIMAL, check_json, document_of, json_bytes

T = TypeVar("T")
M = TypeVar("M", bound=Message)


def message_of(value: object, message: type[M], kind: type | None = None) -> M:
    """The message of a dataclass's value.

    Args:
        kind: Dataclass that has the message's fields, if the value is of a subclass with more.
    """
    made: M = _form(kind or type(value), message).write(value)
    return made


def part_of(value: object, message: type[M], **others: Any) -> M:
    """The message of those fields of a dataclass that the message has.

    Args:
        others: Fields of the message that the value does not have, or that leave with another content.
    """
    made: M = _form(type(value), message, frozenset(others)).write(value)
    if others:
        made.MergeFrom(message(**others))
    return made


def messages_of(values: Iterable[object], message: type[M], kind: type | None = None) -> Iterator[M]:
    return (message_of(value, message, kind) for value in values)


def value_of(kind: Callable[..., T], message: Message) -> T:
    """Return the value of a message.

    Raises:
        InvalidInputError, InvalidNumberError: An enumeration's number, a time or a decimal is none.
        GencardError: What the constructors refuse.
    """
    value: T = _form(kind, type(message)).read(message, message.DESCRIPTOR.name.lower())
    return value


def prepare(*pairs: tuple[Callable[..., Any], type[Message]]) -> None:
    """Relate dataclasses to messages ahead of their first use; raises TypeError if fields differ."""
    for kind, message in pairs:
        _form(kind, message)


def prepare_part(kind: Callable[..., Any], message: type[Message], *others: str) -> None:
    """Relate a dataclass to a message without ``others``, as ``part_of`` does at its first use."""
    _form(kind, message, frozenset(others))


def timestamp(time: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(time)
    return message


def datetime_of(message: Timestamp, _path: str = "") -> datetime:
    """Raises InvalidInputError for a time before year 1 or after year 9999."""
    try:
        return message.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidInputError(field="time", problem="is out of range")


@dataclass(frozen=True, slots=True)
class _Codec:
    """Functions that write and read values of one type in one field of a message.

    Args:
        read: Takes what the field holds, and what an error calls the field.
        members: Values by what the field holds, if there are no others.
        many: The functions are for each element of a tuple.
    """

    write: Callable[[Any], Any]
    read: Callable[[Any, str], Any]
    members: Mapping[Any, Any] = field(default_factory=dict)
    many: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    """A field that is not copied as it is.

    Args:
        default: Value of an unset field; ``MISSING`` if an unset field is read as any other.
        skips: The default is not written.
        has: The message distinguishes an unset field from its zero.
    """

    name: str
    codec: _Codec
    default: Any
    skips: bool
    has: bool


@dataclass(frozen=True, slots=True)
class _Form:
    """One dataclass and its message.

    Args:
        plain: Fields that both sides hold alike.
        tuples: Fields of a repeated field of values without parts.
        parts: All others.
        choices: Fields that are a oneof of messages, with the field and form of each type.
        private: Fields that must not leave, with their defaults.
    """

    kind: Callable[..., Any]
    message: type[Message]
    plain: "_Names"
    tuples: "_Names"
    parts: tuple[_Part, ...]
    choices: Mapping[str, Mapping[type, tuple[str, "_Form"]]]
    private: Mapping[str, Any]

    def write(self, value: object) -> Any:
        """Raises ValueError if a private field has another value than its default."""
        for name, default in self.private.items():
            if getattr(value, name) != default:
                raise ValueError(f"{name} is private")
        # zip and attrgetter: a comprehension would be one more call for each message
        values = dict(zip(self.plain.names, self.plain.get(value), strict=False))
        values.update(zip(self.tuples.names, self.tuples.get(value), strict=False))
        for part in self.parts:
            own, codec = getattr(value, part.name), part.codec
            if own is not None and not (part.skips and own == part.default):
                values[part.name] = map(codec.write, own) if codec.many else codec.write(own)
        for name, members in self.choices.items():
            own = getattr(value, name)
            field, form = members[type(own)]
            values[field] = form.write(own)
        return self.message(**values)

    def read(self, message: Any, path: str) -> Any:
        values = dict(zip(self.plain.names, self.plain.get(message), strict=False))
        values.update(zip(self.tuples.names, map(tuple, self.tuples.get(message)), strict=False))
        for part in self.parts:
            name, codec, content = part.name, part.codec, getattr(message, part.name)
            if part.default is not MISSING and not (message.HasField(name) if part.has else content):
                values[name] = part.default
            elif codec.many:
                values[name] = tuple(map(codec.read, content, repeat(name)))
            elif codec.members and content in codec.members:
                values[name] = codec.members[content]
            else:
                values[name] = codec.read(content, f"{path}.{name}")
        for name, members in self.choices.items():
            which = message.WhichOneof(name)
            if which is None:
                raise InvalidInputError(field=f"{path}.{name}", problem="is missing")
            for own, form in members.values():
                if own == which:
                    values[name] = form.read(getattr(message, which), name)
        return self.kind(**values)


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of fields, and a function that gets all of them from a value at once."""

    names: tuple[str, ...]
    get: Callable[[Any], tuple[Any, ...]]

    @classmethod
    def of(cls, names: list[str]) -> "_Names":
        # attrgetter gives a tuple from two names on; zip drops what is there for no name
        return cls(tuple(names), attrgetter(*names, "__class__", "__class__"))


def _made(kind: Any, message: type[Message], others: frozenset[str] | None = None) -> _Form:
    """The form of a dataclass and a message; raises TypeError if their fields differ.

    Args:
        others: Fields of the message that the dataclass does not have, if it may have fields of its own
            instead; None if both have the same.
    """
    described: Any = message.DESCRIPTOR
    fields = described.fields_by_name
    entries: dict[str, CodecField] = {}
    private = {}
    for entry in entries_of(kind):
        if entry.constant or (others is not None and (entry.name in others or entry.name not in fields)):
            continue
        if entry.options.private:
            private[entry.name] = entry.default
        else:
            entries[entry.name] = entry
    choices = {
        oneof.name: _members(entries.pop(oneof.name).kind, oneof.fields)
        for oneof in described.oneofs
        if oneof.name in entries
    }
    members = {field for choice in choices.values() for field, _ in choice.values()}
    if differing := ({*fields} - members - (others or frozenset())) ^ entries.keys():
        names = ", ".join(sorted(differing))
        raise TypeError(f"{kind.__name__} and {described.full_name} differ in {names}")
    plain, tuples, parts = [], [], []
    for name, entry in entries.items():
        field = fields[name]
        lacks = entry.options.omit or entry.options.unset
        if field.is_repeated and field.type in _ALIKE.get(_item_of(entry.kind), ()):
            tuples.append(name)
        elif (
            field.has_presence
            or field.type not in _ALIKE.get(entry.kind, ())
            or (lacks and entry.default)
        ):
            parts.append(_part(entry, field, lacks=lacks))
        else:
            plain.append(name)
    return _Form(kind, message, _Names.of(plain), _Names.of(tuples), tuple(parts), choices, private)


_form: Callable[..., _Form] = cache(_made)


def _members(kind: Any, fields: Any) -> dict[type, tuple[str, _Form]]:
    """The fields of a oneof by the dataclasses of a union, which have the names of their messages."""
    by_name = {_described(field).name: field for field in fields}
    return {
        member: (by_name[member.__name__].name, _form(member, _class_of(by_name[member.__name__])))
        for member in members_of(kind)
    }


def _part(entry: CodecField, field: FieldDescriptor, *, lacks: bool) -> _Part:
    """The part of a field; ``lacks`` says that an unset field means the default."""
    default = entry.default if lacks or is_dataclass(entry.kind) else MISSING
    if NoneType in get_args(entry.kind):
        default = None
    has = field.has_presence
    return _Part(entry.name, _codec(entry.kind, field), default, lacks and has, has)


_ALIKE: Mapping[Any, frozenset[int]] = {
    str: frozenset({FieldDescriptor.TYPE_STRING}),
    bytes: frozenset({FieldDescriptor.TYPE_BYTES}),
    bool: frozenset({FieldDescriptor.TYPE_BOOL}),
    float: frozenset({FieldDescriptor.TYPE_DOUBLE}),
    int: frozenset({FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64}),
}
"""Types of Python, and those of protobuf that hold the same values."""


def _item_of(kind: Any) -> Any:
    """The type of the elements of a tuple of any length; None for another type."""
    arguments = get_args(kind)
    return arguments[0] if get_origin(kind) is tuple and arguments[1:] == (Ellipsis,) else None


def _described(field: FieldDescriptor) -> Descriptor:
    if field.message_type is None:
        raise TypeError(f"{field.full_name} is no message")
    return field.message_type


def _class_of(field: FieldDescriptor) -> type[Message]:
    return GetMessageClass(_described(field))


def _codec(kind: Any, field: FieldDescriptor) -> _Codec:
    """Raises TypeError where values of the type have no such field."""
    origin = get_origin(kind)
    if origin is None or kind in _SCALARS:
        return _single(kind, field)
    if origin in (UnionType, Union):
        (member,) = members_of(kind)
        return _codec(member, field)
    if (item := _item_of(kind)) is not None:
        if not field.is_repeated:
            return _wrapped(field)
        codec = _codec(item, field) if _item_of(item) is None else _wrapped(field)
        return replace(codec, many=True)
    return _mapping(get_args(kind)[1], field)


def _single(kind: Any, field: FieldDescriptor) -> _Codec:
    if kind in _SCALARS:
        return _SCALARS[kind]
    if field.type in _ALIKE.get(kind, ()):
        return _Codec(lambda value: value, lambda value, _: value)
    has_fields, is_json = is_dataclass(kind), field.type == FieldDescriptor.TYPE_BYTES
    if has_fields and is_json:
        return _Codec(
            lambda value: json.dumps(PLAIN.write(value)).encode(),
            lambda content, path: PLAIN.read(kind, _json_of(content, path), field=path),
        )
    if has_fields:
        form = _form(kind, _class_of(field))
        return _Codec(form.write, form.read)
    if kind is Any and is_json:
        return _Codec(lambda value: json.dumps(value).encode(), _json_of)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _enumeration(kind, field)
    raise TypeError(f"{field.full_name} cannot hold {kind}")


def _enumeration(kind: type[StrEnum], field: FieldDescriptor) -> _Codec:
    """Members by name; the one without a name of its own in the message is its zero."""
    if field.enum_type is None:
        members: dict[Any, StrEnum] = {str(member): member for member in kind}
        problem = f"must be one of {', '.join(members)}"
        return _Codec(str, partial(_member, members, problem), members)
    prefix = field.enum_type.values_by_number[0].name.removesuffix("UNSPECIFIED")
    numbers = {name: value.number for name, value in field.enum_type.values_by_name.items()}
    by_member = {member: numbers.get(prefix + member.name, 0) for member in kind}
    members = {number: member for member, number in by_member.items()}
    if len(members) != len(by_member):
        raise TypeError(f"{kind.__name__} and {field.enum_type.full_name} differ")
    return _Codec(by_member.__getitem__, partial(_member, members, "is not a known value"), members)


def _member(members: Mapping[Any, StrEnum], problem: str, content: Any, path: str) -> StrEnum:
    if content in members:
        return members[content]
    raise InvalidInputError(field=path, problem=problem)


def _wrapped(field: FieldDescriptor) -> _Codec:
    """A tuple of values without parts, in a message of its own."""
    (only,) = _described(field).fields
    message, name = _class_of(field), only.name
    return _Codec(lambda value: message(**{name: value}), lambda value, _: tuple(getattr(value, name)))


def _mapping(kind: Any, field: FieldDescriptor) -> _Codec:
    if kind is Any and field.type == FieldDescriptor.TYPE_BYTES:
        return _Codec(
            lambda value: json_bytes(dict(value)) if value else b"",
            lambda content, path: document_of(content, path) if content else {},
        )
    if _described(field).GetOptions().map_entry:
        return _Codec(dict, lambda value, _: dict(value))
    (name, content), message = (one.name for one in _described(field).fields), _class_of(field)
    names, contents = attrgetter(name), attrgetter(content)

    def write(value: Mapping[str, Any]) -> list[Message]:
        messages = []
        for key, one in value.items():
            messages.append(message(**{name: key, content: one}))
        return messages

    def read(messages: Any, _: str) -> dict[str, Any]:
        values = map(contents, messages)
        # zip: a comprehension would be one more call
        return dict(zip(map(names, messages), values if one_each else map(tuple, values), strict=True))

    one_each = _item_of(kind) is None
    return _Codec(write, read)


def _decimal_of(text: str, path: str) -> Decimal:
    """An amount; nothing said is nothing. Its range is for the constructor to check."""
    if len(text) <= LONGEST_DECIMAL:
        try:
            return Decimal(text or "0")
        except InvalidOperation:
            pass
    raise InvalidNumberError(field=path, expected="a decimal")


def _json_of(content: bytes, path: str) -> Any:
    try:
        check_json(content)
        return json.loads(content) if content else None
    except (ValueError, RecursionError):
        raise InvalidInputError(field=path, problem="is not JSON") from None


def _date_of(text: str, path: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(field=path, problem="is not a date") from None


_RECORDS, _NEIGHBOURS = "most_records", "neighbouring"
_PARAMETERS = tuple(
    [field.name for field in common.Privacy.DESCRIPTOR.fields if field.type == field.TYPE_STRING]
)
_parameters_of = attrgetter(*_PARAMETERS)
_MECHANISM, _RELATION = (
    _enumeration(kind, common.Privacy.DESCRIPTOR.fields_by_name[name])
    for name, kind in (("mechanism", Mechanism), (_NEIGHBOURS, Neighbouring))
)


def privacy_message(privacy: Privacy) -> common.Privacy:
    """The message of a way to measure: one for all classes, told apart by the mechanism."""
    numbers, relation = privacy.parameters, privacy.neighbouring
    for name in (_RECORDS, _NEIGHBOURS):
        numbers.pop(name, None)
    return common.Privacy(
        mechanism=_MECHANISM.write(privacy.mechanism),
        neighbouring=_RELATION.write(relation) if relation else common.Privacy.NEIGHBOURING_UNSPECIFIED,
        most_records=privacy.most_records or 0,
        **numbers,
    )


def privacy_of(message: common.Privacy, _path: str = "") -> Privacy:
    """Raises InvalidInputError or InvalidNumberError where the parts do not make a privacy."""
    parameters = dict(filter(itemgetter(1), zip(_PARAMETERS, _parameters_of(message), strict=True)))
    if message.neighbouring:
        parameters[_NEIGHBOURS] = _RELATION.read(message.neighbouring, "privacy.neighbouring")
    if message.most_records:
        parameters[_RECORDS] = str(message.most_records)
    return privacy_with(_MECHANISM.read(message.mechanism, "privacy.mechanism"), parameters)


_SCALARS: Mapping[Any, _Codec] = {
    Decimal: _Codec(decimal_text, _decimal_of),
    datetime: _Codec(timestamp, datetime_of),
    date: _Codec(date.isoformat, _date_of),
    Privacy: _Codec(privacy_message, privacy_of),
    AddedNoise: _Codec(privacy_message, privacy_of),
}


# Cards as the controller's state and answers hold them: encoded once, however often they are read.

prepare((CardRecord, pb.Card))

_SMALL = 32 * 1024
"""Bytes of a card that is kept once it was read: it takes seven times as much in memory."""


def card_bytes(card: CardRecord) -> bytes:
    """The encoded card, which is kept beside its value; a card cannot be changed in place."""
    if not card.encoded:
        body = message_of(card, pb.Card).SerializeToString(deterministic=True)
        object.__setattr__(card, "encoded", body)
    return card.encoded


def card_message(card: CardRecord) -> pb.Card:
    """The card's message, read from its bytes if there are any."""
    return pb.Card.FromString(card_bytes(card))


def card_of(message: pb.Card) -> CardRecord:
    """The card of a message; raises InvalidInputError if state or turn is not a known value."""
    return value_of(CardRecord, message)


def card_of_bytes(body: bytes) -> CardRecord:
    """The stored card; raises InvalidInputError if state or turn is not a known value."""
    return _small_card(body) if len(body) <= _SMALL else _stored(body)


def _stored(body: bytes) -> CardRecord:
    card = card_of(pb.Card.FromString(body))
    object.__setattr__(card, "encoded", body)
    return card


_small_card = lru_cache(maxsize=500)(_stored)
"""Most calls read the card that they are about, which takes 1.5 ms."""
