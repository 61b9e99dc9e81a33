"""Jobs fit the version of the generator that the card names."""

import pytest

from gencard.controller.jobs.synthesis import synthesise
from gencard.controller.jobs.tasks import SynthesisJob
from gencard.wire.psi import psi_document
from tests.core.test_few_records import ROWS, few_records


@pytest.mark.parametrize(("digest", "rows"), ROWS.items())
def test_rows_of_a_job_are_those_of_the_version_that_its_card_names(digest, rows, tmp_path):
    psi = psi_document(few_records(120, 12, 9))
    file = tmp_path / "rows"
    job = SynthesisJob(psi, "support-raking", (), {}, 5_000, 7, 10**7, file, generator_digest=digest)
    assert synthesise(job, lambda *_: None).digest == rows
