"""S8: whatever the bytes, a call ends in an error of the catalogue, and the service lives on."""

import grpc
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gencard.v1 import common_pb2 as common
from gencard.v1 import negotiation_pb2
from tests.system.house import request_id
from tests.system.raw_calls import NOBODYS, agreed, call, methods

ENDLESS = {"/grpc.health.v1.Health/Watch"}
PATHS = sorted(methods().keys() - ENDLESS)
BY_AUDITOR = {"/gencard.v1.AuditService/GetAuditReport"}
BY_STEWARD = {path for path in PATHS if "StewardService" in path}


def channel_for(house, path: str) -> grpc.Channel:
    """Return the channel of a person who may call the method, so that the message is read."""
    name = "sam" if path in BY_STEWARD else "aud" if path in BY_AUDITOR else "ana"
    return house.channel(name)


NEVER = {
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}
FUZZ = settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

NAMES = ("", "datasets/survey", "datasets/-", NOBODYS, "operations/0", "ipf", "leaky", "sex", "health")
TRICKS = (
    "NaN",
    "Infinity",
    "-1",
    "1e400",
    "0",
    "' OR 1=1 --",
    "../../etc/passwd",
    "\0",
    "\u202e",
    "%s{0}",
)
WORDS = st.sampled_from(NAMES + TRICKS)
NUMBERS = st.sampled_from([0, 1, 2, 255, 500, 501, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1])
VALUES = {
    FieldDescriptor.CPPTYPE_STRING: WORDS | st.text(max_size=20),
    FieldDescriptor.CPPTYPE_UINT64: NUMBERS,
    FieldDescriptor.CPPTYPE_UINT32: NUMBERS.filter(lambda number: number < 2**32),
    FieldDescriptor.CPPTYPE_INT64: NUMBERS.map(lambda number: number - 2**63),
    FieldDescriptor.CPPTYPE_INT32: NUMBERS.filter(lambda number: number < 2**32).map(
        lambda n: n - 2**31
    ),
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(),
    FieldDescriptor.CPPTYPE_ENUM: st.sampled_from([0, 1, 2, 3, 99]),
}


def value_of(field: FieldDescriptor) -> st.SearchStrategy:
    if field.message_type is not None:
        return message_of(field.message_type)
    if field.name == "request_id":
        return st.sampled_from(["", "not-a-uuid"]) | st.builds(request_id)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=64)
    return VALUES[field.cpp_type]


@st.composite
def message_of(draw: st.DrawFn, descriptor: Descriptor) -> Message:
    """A message of this type, any of its fields set."""
    message = GetMessageClass(descriptor)()
    for field in descriptor.fields:
        if not draw(st.booleans()):
            continue
        if field.is_repeated:
            values = draw(st.lists(value_of(field), max_size=3))
            getattr(message, field.name).extend(values)
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(draw(value_of(field)))
        else:
            setattr(message, field.name, draw(value_of(field)))
    return message


def method_and_message() -> st.SearchStrategy:
    return st.sampled_from(PATHS).flatmap(
        lambda path: st.tuples(
            st.just(path), st.lists(message_of(methods()[path].input_type), min_size=1, max_size=3)
        )
    )


def assert_survives(house, path: str, *requests: bytes | Message) -> None:
    channel = channel_for(house, path)
    ending = call(channel, path, *requests, seconds=60)
    assert ending.code not in NEVER, (path, ending)
    if ending.code is not grpc.StatusCode.OK and "Health" not in path:
        assert ending.reason, (path, ending)


@FUZZ
@given(asked=method_and_message())
def test_s08_messages_of_the_right_shape(house, asked):
    path, requests = asked
    assert_survives(house, path, *requests)


@settings(FUZZ, max_examples=100)
@given(asked=method_and_message())
def test_s08_messages_about_a_card_in_force(house, card, asked):
    path, requests = asked
    if not path.endswith("RunAudit"):
        named = (part.SerializeToString().replace(NOBODYS.encode(), card.encode()) for part in requests)
        assert_survives(house, path, *named)


@pytest.fixture(scope="module")
def card(house):
    with house.analyst() as analyst:
        name = agreed(analyst).name
    assert len(name) == len(NOBODYS)
    return name


@settings(FUZZ, max_examples=150)
@given(path=st.sampled_from(PATHS), data=st.binary(max_size=200))
def test_s08_garbage_bytes(house, path, data):
    assert_survives(house, path, data)


@settings(FUZZ, max_examples=100)
@given(asked=method_and_message(), cut=st.integers(0, 40), noise=st.binary(max_size=8))
def test_s08_messages_cut_short_and_spoilt(house, asked, cut, noise):
    path, requests = asked
    assert_survives(house, path, requests[0].SerializeToString()[:cut] + noise)


GROUP_OF_101 = b"\x0b" * 101 + b"\x0c" * 101
SPOILT = {
    "depth 101": GROUP_OF_101,
    "bad UTF-8": b"\x0a\x02\xc3\x28",
    "a surrogate": b"\x0a\x03\xed\xa0\x80",
    "cut short": b"\x0a\x50abc",
    "an endless varint": b"\x08" + b"\xff" * 11,
    "a field of number 0": b"\x00\x01",
    "an unknown field": b"\xba\x3e\x03abc",
    "a wire type that is none": b"\x0f",
}


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith("/gencard.v1")])
def test_s08_what_is_no_message_is_invalid(house, path):
    channel = channel_for(house, path)
    endings = {name: call(channel, path, message) for name, message in SPOILT.items()}
    refusals = {name: (ending.code, ending.reason) for name, ending in endings.items()}
    assert refusals == dict.fromkeys(SPOILT, (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT"))


def test_s08_an_unknown_field_inside_a_known_one_is_refused(house):
    terms = b"\x0a\x07" + b"\xba\x3e\x04evil"
    ending = call(house.channel(), "/gencard.v1.NegotiationService/ProposeCard", terms)
    assert "does not know" in ending.text


@pytest.mark.parametrize("mark", ["\0", "\x1b[2J", "\x9b2J", "\n", "\x7f", "\u2028"])
def test_s08_a_control_character_in_a_text_is_refused(house, mark):
    """Texts of an analyst are shown on a steward's terminal, before a decision."""
    terms = common.Terms(dataset="datasets/survey", purpose=f"to see {mark}")
    asked = {
        "GetCard": negotiation_pb2.GetCardRequest(name=f"datasets/survey/cards/{mark}"),
        "ProposeCard": negotiation_pb2.ProposeCardRequest(terms=terms, request_id=request_id()),
    }
    for (method, request), field in zip(asked.items(), ("name", "purpose"), strict=True):
        ending = call(house.channel(), f"/gencard.v1.NegotiationService/{method}", request)
        text = f"{field}: holds a control character."
        assert (ending.reason, ending.text) == ("INVALID_INPUT", text)


def test_s08_the_service_lives_on(house):
    with house.analyst() as analyst:
        assert len(agreed(analyst).generate(20, progress=False)) == 20
