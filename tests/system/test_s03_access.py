"""S2, S3, S5: who somebody is, what they may call, and what they can tell from a refusal."""

from functools import partial
from itertools import product, repeat

import grpc
import pytest
from cryptography import x509
from google.longrunning import operations_pb2

from gencard.controller.base.fair_use import Bounds
from gencard.controller.people.enrolment import health_check
from gencard.controller.service.access import MAY_CALL
from gencard.controller.service.guard import Guard
from gencard.controller.service.server import start
from gencard.v1 import answers_pb2, audit_pb2, ledger_pb2, measures_pb2, negotiation_pb2, synthesis_pb2
from gencard.v1.catalog_pb2_grpc import add_CatalogServiceServicer_to_server
from tests.system.house import request_id
from tests.system.raw_calls import (
    NOBODYS,
    URI,
    agreed,
    call,
    certificate,
    certificate_naming,
    channel_of,
    enrolled,
    methods,
)

LIST = "/gencard.v1.CatalogService/ListDatasets"
PEOPLE = {"A": "ana", "U": "aud", "S": "sam"}

EXPECTED = {
    "CatalogService": {"ListDatasets": "AUS", "GetDataset": "AUS", "ListGenerators": "AUS"},
    "NegotiationService": {
        "ProposeCard": "A", "GetCard": "AUS", "ListCards": "AUS",
        "CounterCard": "A", "AcceptCard": "A", "TerminateCard": "A",
    },
    "SynthesisService": {
        "GenerateRelease": "A", "GetRelease": "AUS", "ListReleases": "AUS",
        "StreamRows": "A", "StreamPsi": "AU",
    },
    "AuditService": {
        "RunAudit": "AU", "GetAudit": "AUS", "ListAudits": "AUS",
        "GetAuditReport": "US", "RunBlackBox": "AU",
    },
    "MeasuresService": {"RunMeasures": "AUS", "GetMeasures": "AUS", "ListMeasures": "AUS"},
    "AnswersService": {
        "RunAnalysis": "A", "RunProgram": "A", "GetAnswer": "AUS", "ListAnswers": "AUS",
    },
    "LedgerService": {"ListSpends": "AUS", "GetBudget": "AUS"},
    "LogService": {
        "GetCheckpoint": "AUS", "GetInclusionProof": "AUS", "GetConsistencyProof": "AUS",
        "GetKeyHistory": "AUS",
    },
    "StewardService": {
        "ListQueue": "S", "GetReview": "S", "GetPreview": "S", "Decide": "S",
        "ListAnswersToReview": "S", "GetAnswerReview": "S", "ListAccounts": "S", "ListPeople": "S",
        "SearchLog": "S", "GetLogEntry": "S", "ListRefusals": "S",
        "RunRisk": "S", "GetRisk": "S",
    },
    "Operations": {
        "ListOperations": "AUS", "GetOperation": "AUS", "CancelOperation": "AUS",
        "WaitOperation": "AUS", "DeleteOperation": "",
    },
    "Health": {"Check": "AUSC", "Watch": "AUS", "List": ""},
}  # fmt: skip
"""Permitted callers, written a second time: A analyst, U auditor, S steward, C the controller."""

DENIED = {grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED}
REFUSED = {code.name: (code, code.name) for code in DENIED}
BROKEN = {grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}


def allowed(path: str) -> str:
    service, method = path.split("/")[1:]
    return EXPECTED[service.rpartition(".")[2]][method]


@pytest.fixture(scope="module")
def channels(house):
    """One for every role, of many connections for a role that nobody knows and for nobody enrolled."""
    own = certificate(house, health_check("gencard.local").uri)
    visitor = x509.UniformResourceIdentifier(URI.format(role="visitor", name="vic"))
    strange = certificate_naming(house, visitor)
    unlisted = certificate(house, URI.format(role="steward", name="mallory"))
    people = {letter: repeat(house.channel(name)) for letter, name in PEOPLE.items()}
    return people | {
        "C": repeat(channel_of(house, own)),
        "?": connections(house, strange),
        "!": connections(house, unlisted),
    }


def connections(house, pair):
    """A channel for each call: those who are refused get few calls by the second of one connection."""
    while True:
        yield channel_of(house, pair, ("grpc.use_local_subchannel_pool", 1))


class TestS03Matrix:
    def test_s03_the_expectation_covers_every_served_method(self):
        written = {method for group in EXPECTED.values() for method in group}
        assert {path.rpartition("/")[2] for path in methods()} == written
        assert methods().keys() == MAY_CALL.keys()

    def test_s03_every_method_and_role(self, channels):
        """Each role calls each method over TLS."""
        wrong = {}
        for path, role in product(methods(), channels):
            ending = call(next(channels[role]), path, b"", seconds=1)
            if role in "?!":
                good = (ending.code, ending.reason) == REFUSED["UNAUTHENTICATED"]
            elif role not in allowed(path):
                good = (ending.code, ending.reason) == REFUSED["PERMISSION_DENIED"]
            else:
                good = ending.code not in DENIED | BROKEN
            if not good:
                wrong[path, role] = ending.code, ending.reason
        assert wrong == {}

    def test_s03_a_method_that_the_table_does_not_name_stops_the_start(self, monkeypatch):
        monkeypatch.delitem(MAY_CALL, LIST)
        guard = Guard(lambda *_: True, lambda *_: None, Bounds(1, 1, 1, 1))
        catalog = partial(add_CatalogServiceServicer_to_server, _Anything())
        with pytest.raises(RuntimeError, match=r"CatalogService.ListDatasets is missing"):
            start("localhost:0", None, guard, [catalog])

    def test_s03_a_method_that_the_table_forgets_later_is_refused(self, house, monkeypatch):
        monkeypatch.delitem(MAY_CALL, LIST)
        assert call(house.channel(), LIST, b"").reason == "PERMISSION_DENIED"


class _Anything:
    def __getattr__(self, name):
        return lambda request, context: None


class TestS02Identity:
    def test_s02_a_person_taken_off_the_list_is_refused_at_once(self, house):
        channel = house.channel(enrolled(house, "eve"))
        assert call(channel, LIST, b"").code is grpc.StatusCode.OK
        (house.folder / "identities" / "eve.toml").unlink()
        assert call(channel, LIST, b"").reason == "UNAUTHENTICATED"

    def test_s02_a_broken_file_keeps_nobody_else_out(self, house):
        file = house.folder / "identities" / "broken.toml"
        file.write_text("uri = ")
        try:
            assert call(house.channel(), LIST, b"").code is grpc.StatusCode.OK
        finally:
            file.unlink()

    @pytest.mark.parametrize(
        "names",
        [
            [x509.UniformResourceIdentifier(URI.format(role=role, name=name)) for role, name in people]
            for people in ([("analyst", "ana"), ("steward", "sam")], [("analyst", "ana")] * 2)
        ]
        + [
            [
                x509.UniformResourceIdentifier(URI.format(role="analyst", name="ana")),
                x509.UniformResourceIdentifier("https://example.org/ana"),
            ],
            [x509.DNSName(URI.format(role="steward", name="sam"))],
            [x509.RFC822Name("sam@example.org")],
            [],
            [x509.UniformResourceIdentifier(URI.format(role="analyst", name="ana") + "/extra")],
            [x509.UniformResourceIdentifier("spiffe://other.trust/pilot/analyst/ana")],
        ],
        ids=["two", "twice", "a second URI", "DNS", "mail", "common name", "longer", "other domain"],
    )
    def test_s02_a_certificate_names_exactly_one_person(self, house, names):
        pair = certificate_naming(house, *names, common="ana")
        assert call(channel_of(house, pair), LIST, b"").code is grpc.StatusCode.UNAUTHENTICATED

    def test_s02_what_a_header_claims_counts_for_nothing(self, house):
        claims = [
            ("x-forwarded-client-cert", "URI=" + URI.format(role="steward", name="sam")),
            ("authorization", "Bearer " + URI.format(role="steward", name="sam")),
            ("spiffe", URI.format(role="steward", name="sam")),
        ]
        report = "/gencard.v1.AuditService/GetAuditReport"
        assert call(house.channel("ana"), report, b"", metadata=claims).reason == "PERMISSION_DENIED"

    def test_s02_lists_hold_ones_own_alone(self, house):
        with house.analyst() as ana, house.analyst(enrolled(house, "bob")) as bob:
            mine = agreed(ana)
            assert mine.name in {card.name for card in ana.cards()}
            assert mine.name not in {card.name for card in bob.cards()}
            assert not bob.spends()


@pytest.fixture(scope="module")
def anas(house):
    """Names of what belongs to ana: a card, a release, an operation."""
    with house.analyst() as ana:
        card = agreed(ana)
        card.generate(10, seed=1, progress=False)
    channel = house.channel("ana")
    operations = operations_pb2.ListOperationsResponse.FromString(
        call(channel, "/google.longrunning.Operations/ListOperations", b"").answers[0]
    ).operations
    releases = synthesis_pb2.ListReleasesResponse.FromString(
        call(
            channel,
            "/gencard.v1.SynthesisService/ListReleases",
            synthesis_pb2.ListReleasesRequest(parent=card.name),
        ).answers[0]
    ).releases
    return {
        "card": card.name,
        "etag": card.negotiation.etag,
        "release": releases[0].name,
        "operation": operations[0].name,
    }


def _terms(card):
    return negotiation_pb2.CounterCardRequest(
        name=card,
        etag="0",
        request_id=request_id(),
        terms={
            "dataset": "datasets/survey",
            "purpose": "p",
            "marginals": [{"attributes": ["sex"]}],
            "privacy": {"mechanism": 1},
            "generator": "ipf",
            "rows": 1,
        },
    )


ABOUT = {
    "NegotiationService/GetCard": ("card", lambda name: negotiation_pb2.GetCardRequest(name=name)),
    "NegotiationService/CounterCard": ("card", _terms),
    "NegotiationService/AcceptCard": (
        "card",
        lambda name: negotiation_pb2.AcceptCardRequest(name=name, etag="0", request_id=request_id()),
    ),
    "NegotiationService/TerminateCard": (
        "card",
        lambda name: negotiation_pb2.TerminateCardRequest(name=name, etag="0", request_id=request_id()),
    ),
    "SynthesisService/GenerateRelease": (
        "card",
        lambda name: synthesis_pb2.GenerateReleaseRequest(card=name, rows=1, request_id=request_id()),
    ),
    "SynthesisService/GetRelease": ("release", lambda n: synthesis_pb2.GetReleaseRequest(name=n)),
    "SynthesisService/ListReleases": ("card", lambda n: synthesis_pb2.ListReleasesRequest(parent=n)),
    "SynthesisService/StreamRows": ("release", lambda n: synthesis_pb2.StreamRowsRequest(name=n)),
    "SynthesisService/StreamPsi": ("card", lambda n: synthesis_pb2.StreamPsiRequest(card=n)),
    "AuditService/RunAudit": (
        "card",
        lambda name: audit_pb2.RunAuditRequest(card=name, request_id=request_id()),
    ),
    "AuditService/ListAudits": ("card", lambda n: audit_pb2.ListAuditsRequest(parent=n)),
    "AuditService/RunBlackBox": (
        "card",
        lambda n: audit_pb2.RunBlackBoxRequest(start=audit_pb2.RunBlackBoxStart(card=n, rows=1)),
    ),
    "MeasuresService/RunMeasures": (
        "card",
        lambda n: measures_pb2.RunMeasuresRequest(card=n, request_id=request_id()),
    ),
    "AnswersService/RunAnalysis": (
        "card",
        lambda n: answers_pb2.RunAnalysisRequest(card=n, kind="linear", request_id=request_id()),
    ),
    "AnswersService/GetAnswer": (
        "card",
        lambda n: answers_pb2.GetAnswerRequest(name=f"{n}/answers/0123456789abcdef"),
    ),
    "AnswersService/ListAnswers": ("card", lambda n: answers_pb2.ListAnswersRequest(parent=n)),
    "MeasuresService/ListMeasures": ("card", lambda n: measures_pb2.ListMeasuresRequest(parent=n)),
    "Operations/GetOperation": ("operation", lambda n: operations_pb2.GetOperationRequest(name=n)),
    "Operations/WaitOperation": ("operation", lambda n: operations_pb2.WaitOperationRequest(name=n)),
    "Operations/CancelOperation": ("operation", lambda n: operations_pb2.CancelOperationRequest(name=n)),
}
UNKNOWN = {"card": NOBODYS, "release": f"{NOBODYS}/releases/0", "operation": "operations/0"}


class TestS05NoEnumeration:
    @pytest.mark.parametrize("method", ABOUT)
    def test_s05_anothers_and_nobodys_are_refused_alike(self, house, anas, method):
        kind, ask = ABOUT[method]
        channel = house.channel(enrolled(house, "bob"))
        path = next(path for path in methods() if path.endswith(f"{method}"))
        anothers = call(channel, path, ask(anas[kind]))
        nobodys = call(channel, path, ask(UNKNOWN[kind]))
        assert anothers.code is grpc.StatusCode.NOT_FOUND
        assert anothers == nobodys

    @pytest.mark.parametrize(
        "name", ["", "datasets", "datasets//cards/1", "datasets/survey", "../x", "datasets/none/cards/1"]
    )
    def test_s05_names_of_any_form_are_not_found(self, house, name):
        asked = negotiation_pb2.GetCardRequest(name=name)
        ending = call(house.channel(), "/gencard.v1.NegotiationService/GetCard", asked)
        assert (ending.code, ending.reason) == (grpc.StatusCode.NOT_FOUND, "NOT_FOUND")

    def test_s05_budgets_are_ones_own(self, house, anas):
        path = "/gencard.v1.LedgerService/GetBudget"
        asked = ledger_pb2.GetBudgetRequest(dataset="datasets/survey")
        answer = call(house.channel(enrolled(house, "bob")), path, asked).answers[0]
        assert ledger_pb2.GetBudgetResponse.FromString(answer).spent.statistics == 0
