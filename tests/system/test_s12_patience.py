"""S11, S12: callers who say nothing, take nothing or never stop; and everybody else meanwhile."""

import math
import socket
import ssl
import threading
import time
import weakref
from collections import Counter
from contextlib import ExitStack, contextmanager
from functools import partial

import grpc
import pytest
from google.longrunning.operations_pb2_grpc import add_OperationsServicer_to_server

from gencard.controller.base.fair_use import BURST_SECONDS, EXEMPT_AT_A_TIME, Bounds, Shares
from gencard.controller.service import server
from gencard.controller.service.access import CallTimeout
from gencard.controller.service.guard import KEPT_SECONDS, Guard
from gencard.core.errors import ServiceBusyError
from gencard.v1 import synthesis_pb2
from gencard.v1.synthesis_pb2_grpc import add_SynthesisServiceServicer_to_server
from tests.system.house import build
from tests.system.raw_calls import call, configure, eventually, resident_kib

LIST = "/gencard.v1.CatalogService/ListDatasets"
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
UPLOAD = "/gencard.v1.AuditService/RunBlackBox"
ROWS = "/gencard.v1.SynthesisService/StreamRows"
GET_RELEASE = "/gencard.v1.SynthesisService/GetRelease"
OPERATIONS = "/google.longrunning.Operations"
UNQUEUED_HERE = ("WaitOperation", "CancelOperation")
OK, BUSY = grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED
STREAMS, SECONDS, RATE = 200, 60.0, 5


@pytest.fixture(scope="module")
def hasty_house(tmp_path_factory):
    house = build(tmp_path_factory.mktemp("hasty"))
    house.edit({"calls_per_second": str(RATE)})
    yield configure(house, "server", request_seconds=3).start()
    house.stop()


@contextmanager
def developed(register):
    """A channel to a service without TLS, of one developer."""
    uri = "spiffe://gencard.local/development/analyst/developer"
    guard = Guard(lambda *_: True, lambda *_: None, Bounds(8, 8, 100, 1), development=uri)
    service = server.start("localhost:0", None, guard, register)
    with grpc.insecure_channel(f"localhost:{service.port}") as channel:
        yield channel
    service.stop(0)


class Silent:
    """Calls that were opened, and whose callers say nothing."""

    def __init__(self, channel, path, streams=STREAMS):
        self._said = threading.Event()
        method = channel.stream_unary(path)
        self.calls = [method.future(self._nothing(), timeout=SECONDS) for _ in range(streams)]

    def _nothing(self):
        self._said.wait(SECONDS)
        yield from ()

    def are_few(self):
        """Return whether all but the caller's share were refused."""
        return sum(not silent.done() for silent in self.calls) <= 8

    def endings(self):
        """End of each call, once all have ended."""
        assert eventually(lambda: all(silent.done() for silent in self.calls), SECONDS)
        return Counter(silent.code() for silent in self.calls)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._said.set()
        for silent in self.calls:
            silent.cancel()


class TestS12Patience:
    @pytest.mark.parametrize("path", [LIST, CHECK, WATCH, UPLOAD])
    def test_s12_two_hundred_silent_calls_end_and_keep_nobody_out(self, hasty_house, path):
        """The calls end before their deadline; other calls are served meanwhile, and theirs later."""
        ana, aud = hasty_house.channel("ana"), hasty_house.channel("aud")
        assert eventually(lambda: call(ana, CHECK, b"").code is OK, SECONDS)
        with Silent(ana, path) as silent:
            assert eventually(silent.are_few, SECONDS)
            assert (call(aud, LIST, b"").code, call(aud, CHECK, b"").code) == (OK, OK)
            endings = silent.endings()
        refused = grpc.StatusCode.UNAVAILABLE  # by the transport, as one stream too many
        assert endings.keys() <= {BUSY, refused, grpc.StatusCode.CANCELLED}
        assert endings[grpc.StatusCode.CANCELLED] > 0
        assert eventually(lambda: call(ana, LIST, b"").code is OK, SECONDS)

    def test_s12_memory_stays_flat(self, hasty_house):
        """Further calls take no more memory than the first."""
        channel, sizes = hasty_house.channel("ana"), []
        for _ in range(3):
            with Silent(channel, LIST) as silent:
                silent.endings()
            sizes.append(resident_kib())
        assert sizes[-1] - sizes[0] < 32 << 10

    @pytest.mark.parametrize("secured", [False, True])
    def test_s12_connections_that_say_nothing_are_closed(self, hasty_house, monkeypatch, secured):
        """Such connections are plain sockets, or end after TLS and before a word of HTTP/2."""
        hasty_house.stop()
        short = {"grpc.server_handshake_timeout_ms": 4_000}
        assert short.keys() <= dict(server.OPTIONS).keys()
        monkeypatch.setattr(server, "OPTIONS", [*(dict(server.OPTIONS) | short).items()])
        hasty_house.start()
        with ExitStack() as opened:
            idle = [opened.enter_context(connected(hasty_house, secured)) for _ in range(20)]
            aud = hasty_house.channel("aud")
            assert eventually(lambda: call(aud, LIST, b"").code is OK, SECONDS)
            assert all(is_closed(connection) for connection in idle)

    def test_s12_rows_that_nobody_takes_are_not_held_out_for_ever(self):
        ended = threading.Event()

        class Endless:
            def __getattr__(self, name):
                return self.stream

            def stream(self, request, context):
                context.add_callback(ended.set)
                while True:
                    chunk = synthesis_pb2.StreamRowsResponse()
                    chunk.chunk.batch.codes.append(bytes(1 << 20))
                    yield chunk

        with developed([partial(add_SynthesisServiceServicer_to_server, Endless())]) as channel:
            unread = channel.unary_stream(ROWS)(b"", timeout=2 * SECONDS)
            assert ended.wait(SECONDS)
            unread.cancel()


class TestS11Queues:
    def test_s11_open_calls_of_one_caller_weigh_as_one(self):
        """Behind one that works, others wait; but neither those that only wait, nor a cancel."""
        released, entered = threading.Event(), Counter()

        class Slow:
            def __getattr__(self, name):
                def call(request, context):
                    entered[name] += 1
                    released.wait(SECONDS)
                    raise ServiceBusyError(what="calls")

                return call

        register = (
            partial(add_SynthesisServiceServicer_to_server, Slow()),
            partial(add_OperationsServicer_to_server, Slow()),
        )
        with developed(register) as channel:
            calls = [channel.unary_unary(GET_RELEASE).future(b"") for _ in range(3)]
            assert eventually(lambda: entered["GetRelease"] == 1, SECONDS)
            calls += [channel.unary_unary(f"{OPERATIONS}/{name}").future(b"") for name in UNQUEUED_HERE]
            assert eventually(lambda: all(entered[name] == 1 for name in UNQUEUED_HERE), SECONDS)
            assert entered["GetRelease"] == 1
            released.set()
            assert {call.code() for call in calls} == {BUSY}
        assert entered["GetRelease"] == 3


class TestS11Rates:
    def test_s11_who_never_stops_is_refused_and_others_are_not(self, hasty_house):
        ana, aud = hasty_house.channel("ana"), hasty_house.channel("aud")
        endings = Counter(call(ana, LIST, b"").reason for _ in range(BURST_SECONDS * RATE + 200))
        assert endings["SERVICE_BUSY"] > 0
        assert call(aud, LIST, b"").code is OK
        assert eventually(lambda: call(ana, CHECK, b"").code is OK, KEPT_SECONDS)
        assert eventually(lambda: call(ana, LIST, b"").code is OK, SECONDS)

    def test_s11_refusals_of_one_connection_reach_the_interpreter_few_times_a_second(self, hasty_house):
        """Each costs as much of everybody's time as a call; the transport refuses the rest."""
        channel, guard = hasty_house.channel("ana"), hasty_house.controller.service.guard
        begin, refused = time.monotonic(), Counter()
        before = guard.calls.counts()[LIST, BUSY.name]
        while time.monotonic() - begin < 2 * KEPT_SECONDS:
            refused[call(channel, LIST, b"").code] += 1
        periods = math.ceil((time.monotonic() - begin) / KEPT_SECONDS)
        assert guard.calls.counts()[LIST, BUSY.name] - before <= 2 * periods * guard.bounds.streams
        assert refused[grpc.StatusCode.UNAVAILABLE] > 100

    def test_s11_a_burst_and_then_so_many_by_the_second(self):
        now = [0.0]
        shares = Shares(Bounds(8, 8, per_second=2, request_seconds=1), lambda: now[0])
        assert admitted(shares, "ana") == 2 * BURST_SECONDS
        now[0] += 1.5
        assert (admitted(shares, "ana"), admitted(shares, "bea")) == (3, 2 * BURST_SECONDS)
        now[0] += 1_000
        assert admitted(shares, "ana") == 2 * BURST_SECONDS

    def test_s11_what_is_exempt_has_a_share_of_its_own(self):
        shares = Shares(Bounds(per_identity=1, calls=1, per_second=0.1, request_seconds=1), lambda: 0.0)
        with ExitStack() as held:
            held.enter_context(shares.taken("ana"))
            for _ in range(EXEMPT_AT_A_TIME):
                held.enter_context(shares.exempt("ana"))
            for refused in (shares.taken, shares.exempt):
                with pytest.raises(ServiceBusyError), refused("ana"):
                    pass
            with shares.exempt("bea"):
                pass
        with shares.exempt("ana"):
            pass


class TestPatience:
    def test_only_who_is_late_is_cancelled_and_each_once(self):
        cancelled, timeout = Counter(), CallTimeout(0.2)
        done = threading.Event()

        class Context:
            def __init__(self, name):
                self.name = name

            def cancel(self):
                cancelled[self.name] += 1
                if {"late", "later"} <= cancelled.keys():
                    done.set()

        for name in range(50):
            with timeout.waiting(Context(name)):
                pass
        with timeout.waiting(Context("late")), timeout.waiting(Context("later")):
            assert done.wait(SECONDS)
        timeout.stop()
        assert (cancelled["late"], cancelled["later"]) == (1, 1)

    def test_a_call_that_is_kept_is_freed_when_its_time_is_over(self):
        """The call is freed if no other call comes: until then, gRPC counts it as a stream."""
        timeout, ended = CallTimeout(0.05), Ended()
        held = weakref.ref(ended)
        timeout.keep(ended)
        del ended
        assert held() is not None
        assert eventually(lambda: held() is None, SECONDS)
        timeout.stop()

    def test_a_call_that_ends_in_time_is_freed_at_once(self):
        timeout, ended = CallTimeout(2 * SECONDS), Ended()
        held = weakref.ref(ended)
        with timeout.waiting(ended):
            time.sleep(0.1)  # the thread that looks after calls waits for this one by now
        del ended
        assert held() is None
        timeout.stop()


class Ended:
    """A call of which nothing is left to cancel."""

    def cancel(self):
        pass


def admitted(shares, who):
    """Calls that follow each other, until one is refused."""
    for calls in range(1_000):
        try:
            with shares.taken(who):
                pass
        except ServiceBusyError:
            return calls
    return 1_000


def connected(house, secured):
    host, port = house.address.split(":")
    plain = socket.create_connection((host, int(port)), timeout=SECONDS)
    if not secured:
        return plain
    person = house.person("ana")
    context = ssl.create_default_context(cafile=person / "authority.pem")
    context.load_cert_chain(person / "certificate.pem", person / "key.pem")
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(plain, server_hostname=host)


def is_closed(connection):
    """Return whether the service ends the connection, whatever it sends before."""
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True
