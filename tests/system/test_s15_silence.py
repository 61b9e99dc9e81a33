"""S7, S15, S16: no exception's text gets out, whatever raises it; and nothing is unpickled."""

import _pickle
import logging
import pickle
from collections.abc import Iterator
from functools import partial

import grpc
import pytest
from google.longrunning.operations_pb2_grpc import add_OperationsServicer_to_server
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.controller.base.fair_use import Bounds, trace_id
from gencard.controller.service.guard import Guard
from gencard.controller.service.server import start
from gencard.core.errors import PermissionDeniedError
from gencard.v1 import synthesis_pb2
from gencard.v1.answers_pb2_grpc import add_AnswersServiceServicer_to_server
from gencard.v1.audit_pb2_grpc import add_AuditServiceServicer_to_server
from gencard.v1.catalog_pb2_grpc import add_CatalogServiceServicer_to_server
from gencard.v1.ledger_pb2_grpc import (
    add_LedgerServiceServicer_to_server,
    add_LogServiceServicer_to_server,
)
from gencard.v1.measures_pb2_grpc import add_MeasuresServiceServicer_to_server
from gencard.v1.negotiation_pb2_grpc import add_NegotiationServiceServicer_to_server
from gencard.v1.steward_pb2_grpc import add_StewardServiceServicer_to_server
from gencard.v1.synthesis_pb2_grpc import add_SynthesisServiceServicer_to_server
from tests.system.raw_calls import agreed, call, methods

SECRET = "CANARY-Ann-Smith-HIV"
BOUNDS = Bounds(per_identity=8, calls=8, per_second=1_000, request_seconds=60)
DEVELOPERS = {
    role: f"spiffe://gencard.local/development/{role}/developer"
    for role in ("analyst", "auditor", "steward")
}
SERVICES = (
    add_CatalogServiceServicer_to_server,
    add_NegotiationServiceServicer_to_server,
    add_SynthesisServiceServicer_to_server,
    add_AuditServiceServicer_to_server,
    add_MeasuresServiceServicer_to_server,
    add_AnswersServiceServicer_to_server,
    add_StewardServiceServicer_to_server,
    add_LedgerServiceServicer_to_server,
    add_LogServiceServicer_to_server,
    add_OperationsServicer_to_server,
)
PATHS = [path for path in methods() if "Health" not in path and not path.endswith("DeleteOperation")]
STREAMED = next(path for path in PATHS if path.endswith("StreamRows"))


class Raising:
    """Servicer of everything: each method raises; streams do after their first message."""

    error: BaseException = KeyError(SECRET)

    def __getattr__(self, name: str):
        if name.startswith("Stream") or name == "RunBlackBox":
            return self._stream
        return self._single

    def _single(self, request: object, context: grpc.ServicerContext) -> None:
        try:
            {}["inner " + SECRET]
        except KeyError:
            raise self.error  # noqa: B904  # the context is the point

    def _stream(self, request: object, context: grpc.ServicerContext) -> Iterator[object]:
        yield synthesis_pb2.StreamRowsResponse()
        raise self.error


class Reports(list):
    then = staticmethod(lambda: None)

    def __call__(self, *what: str) -> None:
        self.append(what)
        self.then()


@pytest.fixture(scope="module")
def raising():
    """A server whose methods raise: its servicer, its incidents, and its address by role."""
    servicer, reports, addresses, services = Raising(), Reports(), {}, []
    for role, uri in DEVELOPERS.items():
        guard = Guard(lambda *_: True, reports, BOUNDS, development=uri)
        service = start("localhost:0", None, guard, [partial(add, servicer) for add in SERVICES])
        services.append(service)
        addresses[role] = f"localhost:{service.port}"
    yield servicer, reports, addresses
    for service in services:
        service.stop(0)


def calls(addresses, path):
    role = "auditor" if path.endswith("GetAuditReport") else "analyst"
    role = "steward" if "StewardService" in path else role
    with grpc.insecure_channel(addresses[role]) as channel:
        return call(channel, path, b"")


class TestS15Silence:
    @pytest.mark.parametrize("path", PATHS)
    def test_s15_no_text_of_an_exception_leaves_any_method(self, raising, path, caplog, capfd):
        caplog.set_level(logging.DEBUG)
        servicer, reports, addresses = raising
        servicer.error = KeyError(SECRET)
        reports.clear()
        ending = calls(addresses, path)
        assert (ending.code, ending.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
        ((place, incident, kind),) = reports
        assert (place, kind) == (path, "KeyError")
        assert incident in ending.text
        output = capfd.readouterr()
        for told in (repr(ending), caplog.text, output.out, output.err):
            assert SECRET not in told

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(
        path=st.sampled_from(PATHS),
        kind=st.sampled_from(
            [ValueError, RuntimeError, OSError, grpc.RpcError, UnicodeError, Exception]
        ),
        text=st.text(min_size=6, max_size=60),
    )
    def test_s15_whatever_is_raised_with_whatever_text(self, raising, path, kind, text):
        servicer, _, addresses = raising
        servicer.error = kind(f"<{text}>")
        ending = calls(addresses, path)
        assert ending.reason == "INTERNAL"
        assert f"<{text}>" not in ending.text + ending.trailers

    def test_s15_who_called_can_name_the_lines_about_the_call(self, raising):
        servicer, reports, addresses = raising
        servicer.error, traces = KeyError(SECRET), []
        reports.then = lambda: traces.append(trace_id())
        endings = [calls(addresses, path) for path in (PATHS[0], PATHS[0], STREAMED)]
        reports.then = lambda: None
        assert len(set(traces)) == 3
        assert [ending.trace for ending in endings] == traces
        assert trace_id() not in traces

    def test_s15_an_error_with_hostile_words_inside(self, raising):
        class HostileError(Exception):
            def __str__(self):
                raise RuntimeError(SECRET)

        servicer, reports, addresses = raising
        servicer.error = HostileError()
        reports.clear()
        assert calls(addresses, PATHS[0]).reason == "INTERNAL"
        assert [kind for _, _, kind in reports] == ["HostileError"]

    def test_s15_an_error_of_ours_keeps_its_own_words(self, raising):
        servicer, reports, addresses = raising
        servicer.error = PermissionDeniedError()
        reports.clear()
        assert calls(addresses, PATHS[0]).reason == "PERMISSION_DENIED"
        assert not reports

    def test_s15_not_even_from_the_guard_itself(self, caplog):
        def enrolled(*_):
            raise KeyError(SECRET)

        guard = Guard(enrolled, lambda *_: None, BOUNDS, development=DEVELOPERS["analyst"])
        service = start("localhost:0", None, guard, [partial(SERVICES[0], Raising())])
        with grpc.insecure_channel(f"localhost:{service.port}") as channel:
            ending = call(channel, PATHS[0], b"")
        service.stop(0)
        assert ending.reason == "INTERNAL"
        assert SECRET not in repr(ending) + caplog.text

    def test_s15_not_from_an_answer_that_cannot_be_sent(self, caplog, capfd):
        class Wrong:
            def __getattr__(self, name):
                return lambda request, context: SECRET

        guard = Guard(lambda *_: True, lambda *_: None, BOUNDS, development=DEVELOPERS["analyst"])
        service = start("localhost:0", None, guard, [partial(SERVICES[0], Wrong())])
        with grpc.insecure_channel(f"localhost:{service.port}") as channel:
            ending = call(channel, PATHS[0], b"")
        service.stop(0)
        output = capfd.readouterr()
        assert ending.code is grpc.StatusCode.INTERNAL
        assert SECRET not in repr(ending) + caplog.text + output.err


def test_s07_nothing_is_unpickled_while_the_story_is_told(house, monkeypatch):
    used: list[tuple[object, ...]] = []
    for module in (pickle, _pickle):
        for name in ("load", "loads", "Unpickler"):
            monkeypatch.setattr(module, name, lambda *given, **_: used.append(given))
    with house.analyst() as analyst:
        card = agreed(analyst)
        data = card.generate(50, seed=3, progress=False)
        card.replay(data)
    assert not used
