"""The catalogue of errors: whole, unambiguous, and the same on both sides of the wire."""

from string import Formatter

import grpc
import pytest
from google.protobuf.any_pb2 import Any
from google.protobuf.wrappers_pb2 import StringValue
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from gencard.core import errors
from gencard.core.errors import GencardError
from gencard.wire.error_table import (
    BY_REASON,
    DOMAIN,
    STATUS,
    error_named,
    error_of,
    error_of_call,
    status_message,
)


def classes(root):
    """All classes below ``root``."""
    for kind in root.__subclasses__():
        yield kind
        yield from classes(kind)


TREE = tuple(kind for kind in classes(GencardError) if kind.__module__ == errors.__name__)
kinds = st.sampled_from(TREE)


def blanks(kind):
    """Names of the fields that a class's text asks for."""
    return [name for _, name, _, _ in Formatter().parse(kind.text) if name]


def filled(kind, value="x"):
    return kind(**dict.fromkeys(blanks(kind), value))


def test_every_class_has_a_status_and_every_status_a_class():
    assert set(STATUS) == set(TREE)


def test_reasons_are_unique_and_say_the_class_name():
    assert len(BY_REASON) == len(TREE)
    assert BY_REASON["REQUEST_ID_REUSED"] is errors.RequestIdReusedError
    for kind in TREE:
        assert kind.__name__ == "".join(map(str.title, kind.reason.split("_"))) + "Error"


def test_text_and_advice_are_sentences():
    for kind in TREE:
        for text in (filled(kind).message, kind.advice):
            assert text.endswith("."), kind
            assert "{" not in text, kind
        assert len(kind.reason) <= 63, kind  # the bound of google.rpc.ErrorInfo
        assert all(name.isidentifier() for name in blanks(kind)), kind


@given(kinds, st.text(max_size=300))
def test_what_is_raised_arrives(kind, value):
    error = filled(kind, value)
    status = status_pb2.Status.FromString(status_message(error).SerializeToString())
    again = error_of(status)
    assert type(again) is kind
    assert again.fields == error.fields
    assert (str(again), again.message) == (str(error), status.message)
    assert status.code == STATUS[kind].value[0]


@given(kinds, st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=4))
def test_fields_of_a_stranger_never_break_the_reader(kind, fields):
    found = error_named(kind.reason, fields)
    assert found is None or type(found) is kind


@pytest.mark.parametrize("name", ["self", "fields", "args", "reason"])
def test_fields_may_bear_any_name(name):
    assert type(error_named("INTERNAL", {"incident": "1", name: "x"})) is errors.InternalError


@given(st.text(max_size=400))
def test_a_field_is_one_short_printable_line(value):
    field = errors.InvalidInputError(field=value, problem="x").fields["field"]
    assert field.isprintable()
    assert len(field) <= 200


def test_braces_in_a_field_are_only_braces():
    assert str(errors.UnknownAttributeError(attribute="{reason}")).count("{reason}") == 1


def test_a_class_outside_the_table_becomes_internal():
    class StrangeError(GencardError):
        reason = "STRANGE"
        text = "secret"

    status = status_message(StrangeError())
    assert status.code == grpc.StatusCode.INTERNAL.value[0]
    assert "secret" not in str(status)
    assert isinstance(error_of(status), errors.InternalError)


def info(**parts):
    detail = Any()
    detail.Pack(error_details_pb2.ErrorInfo(**parts))
    return detail


@pytest.mark.parametrize(
    "details",
    [
        [],
        [Any(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff")],
        [info(reason="NOT_FOUND", domain="elsewhere")],
        [info(reason="NO_SUCH_REASON", domain=DOMAIN)],
        [info(reason="UNKNOWN_ATTRIBUTE", domain=DOMAIN)],
    ],
    ids=["none", "garbage", "another domain", "another reason", "a field missing"],
)
def test_a_status_that_is_not_ours(details):
    assert error_of(status_pb2.Status(code=5, message="x", details=details)) is None


def test_other_details_may_stand_in_front():
    other = Any()
    other.Pack(StringValue(value="x"))
    status = status_pb2.Status(code=5, details=[other, info(reason="NOT_FOUND", domain=DOMAIN)])
    assert isinstance(error_of(status), errors.NotFoundError)


class Failed(grpc.RpcError, grpc.Call):
    """A call that gRPC or the network ended."""

    def __init__(self, code, details="", metadata=()):
        self._code, self._details, self._metadata = code, details, metadata

    def code(self):
        return self._code

    def details(self):
        return self._details

    def trailing_metadata(self):
        return self._metadata

    initial_metadata = trailing_metadata

    def is_active(self):
        return False

    def time_remaining(self):
        return None

    def cancel(self):
        return False

    def add_callback(self, callback):
        return False


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, errors.ServiceUnavailableError),
        (grpc.StatusCode.UNKNOWN, errors.ServiceUnavailableError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, errors.DeadlineError),
        (grpc.StatusCode.CANCELLED, errors.OperationCancelledError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.ServiceBusyError),
        (grpc.StatusCode.UNAUTHENTICATED, errors.UnauthenticatedError),
        (grpc.StatusCode.PERMISSION_DENIED, errors.PermissionDeniedError),
        (grpc.StatusCode.UNIMPLEMENTED, errors.PermissionDeniedError),
        (grpc.StatusCode.INTERNAL, errors.InternalError),
    ],
)
def test_what_grpc_ends_is_typed_and_its_words_are_dropped(code, kind):
    error = error_of_call(Failed(code, "some words of a stranger"))
    assert type(error) is kind
    assert "stranger" not in str(error)


def failed_with(status, code=grpc.StatusCode.NOT_FOUND, details=""):
    return Failed(code, details, (("grpc-status-details-bin", status),))


def test_our_error_rides_in_the_trailing_metadata():
    error = errors.UnknownAttributeError(attribute="sex")
    status = status_message(error).SerializeToString()
    found = error_of_call(failed_with(status, grpc.StatusCode.INVALID_ARGUMENT, error.message))
    assert type(found) is errors.UnknownAttributeError
    assert found.fields == {"attribute": "sex"}


@pytest.mark.parametrize(
    "status",
    [b"\xff", b"", status_message(errors.NotFoundError()).SerializeToString()],
    ids=["garbage", "empty", "another message than the call's"],
)
def test_metadata_that_do_not_fit_the_call(status):
    found = error_of_call(failed_with(status, grpc.StatusCode.UNAVAILABLE, "elsewhere"))
    assert type(found) is errors.ServiceUnavailableError


def test_an_error_without_a_call():
    assert type(error_of_call(grpc.RpcError())) is errors.ServiceUnavailableError


class TestAdvice:
    def test_it_stands_in_the_text_of_an_exception_in_words_of_python(self):
        error = errors.NotFoundError(what="card")
        assert (
            str(error) == f"{error.message} {error.advice.replace('gencard cards', 'analyst.cards()')}"
        )
        assert "`gencard cards`" in error.advice

    def test_a_field_takes_the_place_of_the_general_one_on_both_sides(self):
        error = errors.InvalidInputError(field="rows", problem="is text", advice="Write rows=10.")
        again = error_of(status_message(error))
        assert str(again) == "rows: is text. Write rows=10."

    @pytest.mark.parametrize(
        ("name", "begin"),
        [("Age", "Did you mean 'age'?"), ("helth", "Did you mean 'health'?"), ("zzz", "Valid: sex,")],
    )
    def test_the_name_that_was_meant(self, name, begin):
        assert errors.advice_on(name, ("sex", "age", "health")).startswith(begin)

    def test_long_lists_and_names_are_cut(self):
        advice = errors.advice_on("x" * 10**6, [f"a{number}" for number in range(5_000)])
        assert "(5,000 in all)" in advice
        assert len(advice) < 200

    @pytest.mark.parametrize("what", ["card", "dataset 'census'", "generator or black box 'mts'"])
    def test_what_is_missing_is_said_and_where_to_look(self, what):
        error = error_of(status_message(errors.NotFoundError(what=what)))
        assert error.message == f"The {what} does not exist, or you have no access to it."
        assert error.advice.startswith("`gencard ")
