"""Linear statistics by name, as messages and in documents."""

from gencard.core.errors import InvalidInputError
from gencard.core.moment import Moment, MomentKind
from gencard.v1 import common_pb2 as pb
from gencard.wire.signatures.canonical import Document, integer_of, text_of, texts_of

_KIND = {kind: pb.Moment.Kind.Value(f"KIND_{kind.name}") for kind in MomentKind}
_KIND_OF = {number: kind for kind, number in _KIND.items()}


def kind_message(kind: MomentKind) -> pb.Moment.Kind.ValueType:
    return _KIND[kind]


def kind_of(number: pb.Moment.Kind.ValueType) -> MomentKind:
    """Raises InvalidInputError where the kind is not a known value."""
    if number not in _KIND_OF:
        raise InvalidInputError(field="moments.kind", problem="is not a known value")
    return _KIND_OF[number]


def moment_message(moment: Moment) -> pb.Moment:
    return pb.Moment(kind=_KIND[moment.kind], attributes=moment.attributes, order=moment.order)


def moment_of(message: pb.Moment) -> Moment:
    """Raises InvalidInputError or InvalidNumberError where it is no moment."""
    return Moment(kind_of(message.kind), tuple(message.attributes), message.order)


def moment_document(moment: Moment) -> Document:
    """The order stands in it where there is one."""
    document: Document = {"attributes": list(moment.attributes), "kind": str(moment.kind)}
    return document | ({"order": str(moment.order)} if moment.order else {})


def moment_of_document(document: Document) -> Moment:
    """Raises KeyError, TypeError, ValueError or what the core refuses, where it is no moment."""
    order = integer_of(document.get("order", "0"))
    return Moment(MomentKind(text_of(document["kind"])), texts_of(document["attributes"]), order)
