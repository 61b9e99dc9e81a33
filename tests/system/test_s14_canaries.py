"""S14: what is planted in the records is found nowhere else, whatever is asked and whoever asks."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest

from gencard.controller import audits as resumption
from gencard.controller import operations as run
from gencard.controller.service import guard
from gencard.controller.service.access import MAY_CALL
from tests.system import canaries, every_method
from tests.system.every_method import Visitor
from tests.system.house import House
from tests.system.recorder import Recorder
from tests.system.tls_proxy import TlsProxy

MARK = "said-by-ana-herself"
PEOPLE = ("ana", "aud", "sam", "eve")
THREAD = re.compile(rb"(?m)^([IWEF]\d{4} [\d:.]+ +)\d+")
"""Openings of lines of gRPC: a thread's number in them may be any number, also that of a count."""


@dataclass
class Evidence:
    """Everything that one tour left behind."""

    house: House
    taps: dict[str, TlsProxy]
    recorder: Recorder = field(default_factory=Recorder)
    logs: list[str] = field(default_factory=list)
    printed: bytes = b""
    fleeting: dict[str, bytes] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    def sinks(self) -> dict[str, bytes]:
        return {
            **{f"wire of {name}": bytes(tap.heard) for name, tap in self.taps.items()},
            "decoded": "\n".join(self.recorder.said).encode(),
            "logs": "\n".join(self.logs).encode(),
            "printed": self.printed,
            **self.fleeting,
            **self.files,
        }


def walk(evidence: Evidence) -> None:
    """Call every method as every person."""
    visitors = {
        name: Visitor(evidence.house, name, f"localhost:{tap.port}", evidence.recorder)
        for name, tap in evidence.taps.items()
    }
    ana = visitors["ana"]
    card, release = every_method.main_job(ana, "survey")
    every_method.main_job(ana, "ward")
    ana.proposed(purpose=MARK)
    every_method.audits(ana, card)
    every_method.audits(visitors["aud"], card)
    every_method.black_box(ana)
    for name in ("ana", "aud", "sam"):
        every_method.measures(visitors[name], card)
        every_method.answers(visitors[name], card)
        every_method.desk(visitors[name], card)
    every_method.trouble(ana)
    for visitor in visitors.values():
        every_method.accounts(visitor)
        every_method.rudeness(visitor, (card, release.name, every_method.NOBODYS, "datasets/survey"))
        visitor.close()


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evidence]:
    """One tour through a haunted controller, with every sink kept."""
    folder = tmp_path_factory.mktemp("haunted")
    house = canaries.haunted(folder)
    house.enrol("eve")
    (house.folder / "identities" / "eve.toml").unlink()
    with pytest.MonkeyPatch.context() as patch, canaries.all_logs() as logs:
        kept = Evidence(house, {}, logs=logs)
        for module in (run, resumption):
            patch.setattr(module, "shutil", SimpleNamespace(rmtree=keeping(kept.fleeting)))
        patch.setattr(guard, "KEPT_SECONDS", 0.01)  # who is refused a hundred times need not wait
        with (folder / "printed").open("w+b") as printed:
            with canaries.diverted_output(printed):
                house.start()
                assert house.controller is not None
                (folder / "gone.csv").unlink()
                for name in PEOPLE:
                    tap = TlsProxy(house.folder / "server", house.person(name), house.controller.port)
                    kept.taps[name] = tap.start()
                walk(kept)
                kept.files = canaries.files_below(house.folder)
                for tap in kept.taps.values():
                    tap.stop()
                house.stop()
            printed.seek(0)
            kept.printed = THREAD.sub(rb"\1-", printed.read())
        yield kept


def keeping(kept: dict[str, bytes]):
    """``shutil.rmtree`` that first looks at what it is to remove."""

    def rmtree(folder: Path, **kwargs: object) -> None:
        kept.update(canaries.files_below(folder))
        shutil.rmtree(folder, **kwargs)

    return rmtree


def test_s14_the_tour_called_every_method_and_met_every_kind_of_end(evidence: Evidence) -> None:
    assert evidence.recorder.methods == set(MAY_CALL)
    answered = {method for method, code in evidence.recorder.codes if code is grpc.StatusCode.OK}
    nobodys = {method for method, roles in MAY_CALL.items() if not roles}
    nothing_reviewed = {
        "/gencard.v1.AnswersService/RunProgram",
        "/gencard.v1.StewardService/GetAnswerReview",
    }
    assert set(MAY_CALL) - answered - nobodys <= {"/grpc.health.v1.Health/Watch", *nothing_reviewed}
    refused = {method for method, code in evidence.recorder.codes if code is not grpc.StatusCode.OK}
    assert refused >= set(MAY_CALL) - {"/grpc.health.v1.Health/Check"}


def test_s15_every_error_is_of_the_catalogue(evidence: Evidence) -> None:
    odd = {(method, code) for method, code in evidence.recorder.codes if code in ODD}
    assert not odd
    assert not [line for line in evidence.logs if "incident" in line]


ODD = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS)


def test_s14_the_recorders_hear(evidence: Evidence) -> None:
    """The same search finds what ana wrote on a card: on the wire, decoded, and in the state."""
    written = canaries.spellings(MARK)
    sinks = evidence.sinks()
    state = [data for name, data in sinks.items() if "state.sqlite" in name]
    for heard in (sinks["wire of ana"], sinks["decoded"], b"".join(state)):
        assert any(spelling in heard for spelling in written)
    assert any(name.endswith("/out") for name in evidence.fleeting), "no work was seen in progress"
    assert evidence.logs


def test_s14_no_canary_anywhere(evidence: Evidence) -> None:
    """Wire, messages, logs, output, state, releases, work in progress: none of them sings."""
    settings = str(evidence.house.settings_file)
    sinks = evidence.sinks()
    named_there = sinks.pop(settings)
    for file in ("ward", "others"):
        named_there = named_there.replace(f"{file}-{canaries.WORD}-file".encode(), b"")
    assert canaries.found_in(named_there) == set()
    canaries.assert_none(sinks)


def test_s14_the_search_finds_each_kind_of_canary() -> None:
    """The guard fires: on texts, decimals and counts, plain and encoded."""
    for text in (canaries.WORD, canaries.DIGITS):
        for spelling in canaries.spellings(f"..{text}.."):
            assert canaries.found_in(b"\x00\x01" + spelling + b"\x00")
    assert canaries.found_in(b'{"count":"%d"}' % canaries.CROWD)
    assert not canaries.found_in(b"a%db" % canaries.CROWD)
