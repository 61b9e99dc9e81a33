"""Reports, findings, enrolment and errors as they were written: read, and written again."""

import base64
import json

import pytest
from google.rpc import error_details_pb2, status_pb2

from gencard.core.audit.report import Verdict
from gencard.core.audit.wording import report_of_json_object, report_to_json_object
from gencard.measures.evaluation.evaluation import finding_to_json_object
from gencard.measures.evaluation.registry import EVALUATIONS, finding_of_json_object
from gencard.wire import dsse
from gencard.wire.canonical import json_bytes
from gencard.wire.dsse import ENROLMENT_REQUEST, predicate_of, statement
from gencard.wire.error_table import BY_REASON, error_of, status_message
from gencard.wire.keys import answer_of_document, request_of_document
from tests.golden.files import findings, golden, golden_json

FINDINGS = findings()
ERRORS = golden_json("errors.json")


@pytest.mark.parametrize(
    ("box", "verdict"), [("trusty", Verdict.NO_EVIDENCE), ("leaky", Verdict.LEAKAGE)]
)
def test_an_audit_report_is_read_and_written_again(box, verdict):
    content = golden(f"reports/audit-{box}.json")
    report = report_of_json_object(json.loads(content))
    assert report.verdict is verdict
    assert json_bytes(report_to_json_object(report)) == content


def test_there_is_a_finding_of_every_measure():
    missing = EVALUATIONS.keys() - FINDINGS.keys()
    assert not missing, "write finding_to_json_object of one, rounded, to reports/finding-NAME.json"
    assert FINDINGS.keys() == EVALUATIONS.keys()


@pytest.mark.parametrize("name", FINDINGS)
def test_a_finding_is_read_and_written_again(name):
    again = finding_to_json_object(finding_of_json_object(name, FINDINGS[name]))
    assert json.dumps(again) == json.dumps(FINDINGS[name])


def test_an_enrolment_request_is_read_and_written_again():
    content = golden("enrolment/request.json")
    request = request_of_document(content)
    assert (request.name, request.role, request.project) == ("bob", "auditor", "pilot")
    payload, signatures = dsse.opened(content)
    facts = predicate_of(payload, ENROLMENT_REQUEST)
    assert facts["signingKey"] == request.signing_key.public_bytes_raw().hex()
    again = statement(ENROLMENT_REQUEST, "people/bob", facts, request.fingerprint)
    assert dsse.envelope_of(again, signatures) == content


def test_an_enrolment_answer_is_read_and_written_again():
    content = golden("enrolment/answer.json")
    answer = answer_of_document(content)
    assert answer.identity.uri == "spiffe://gencard.local/pilot/auditor/bob"
    assert answer.document == content
    assert request_of_document(golden("enrolment/request.json")).signing_key == answer.signing_key


def test_no_reason_is_gone():
    assert ERRORS.keys() <= BY_REASON.keys()


@pytest.mark.parametrize("reason", ERRORS)
def test_an_error_keeps_its_code_reason_and_fields(reason):
    """The sentence of an error may change."""
    status = status_pb2.Status.FromString(base64.b64decode(ERRORS[reason]))
    error = error_of(status)
    assert error is not None
    assert (type(error), error.reason) == (BY_REASON[reason], reason)
    again = status_message(error)
    before, after = (error_details_pb2.ErrorInfo() for _ in range(2))
    assert status.details[0].Unpack(before)
    assert again.details[0].Unpack(after)
    assert (again.code, after) == (status.code, before)
