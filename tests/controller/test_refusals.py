"""S29: an analyst hears one error of each kind of work at records, whatever went wrong."""

import pytest

from gencard.controller.failures import NOTHING_LEARNT, as_reported
from gencard.controller.jobs import tasks
from gencard.core import errors
from gencard.wire.keys import Role

AT_RECORDS = (tasks.MEASURE, tasks.COMPARE, tasks.AUDIT, tasks.KEEP, tasks.DRAW, tasks.THIN_OUT)
DEPENDS_ON_RECORDS = (
    errors.UndeclaredLevelError(attribute="sex"),
    errors.EmptyDatasetError(),
    errors.MissingAttributeError(attribute="sex"),
    errors.MeasurementRefusedError(),
    errors.TooLargeError(what="the dataset", limit="5 records"),
    errors.TooManyRecordsError(limit=5),
    errors.BlackBoxError(problem="it raised an error"),
    errors.JobLimitError(what="memory"),
    errors.JobLimitError(what="CPU time"),
    errors.JobFailedError(incident="0"),
    errors.NotConvergedError(problem="the fit"),
)


def said(error):
    return type(error), error.args, getattr(error, "fields", None)


@pytest.mark.parametrize("task", AT_RECORDS, ids=lambda task: task.name)
def test_s29_a_refusal_that_depends_on_records_has_one_form(task):
    told = {repr(said(as_reported(error, task, Role.ANALYST))) for error in DEPENDS_ON_RECORDS}
    assert len(told) == 1


def test_an_error_of_the_service_itself_is_left_to_be_reported():
    error = RuntimeError("of nobody's records")
    assert as_reported(error, tasks.MEASURE, Role.ANALYST) is error


@pytest.mark.parametrize("task", AT_RECORDS, ids=lambda task: task.name)
@pytest.mark.parametrize("kind", [*NOTHING_LEARNT, errors.ServiceUnavailableError])
def test_what_depends_on_no_record_is_told_as_it_is(task, kind):
    error = kind(problem="broken") if kind is errors.ClusterError else kind()
    assert as_reported(error, task, Role.ANALYST) is error


@pytest.mark.parametrize("error", DEPENDS_ON_RECORDS, ids=lambda error: type(error).__name__)
def test_who_may_read_results_and_who_works_at_no_records_hears_all(error):
    assert as_reported(error, tasks.AUDIT, Role.AUDITOR) is error
    assert as_reported(error, tasks.SYNTHESISE, Role.ANALYST) is error
