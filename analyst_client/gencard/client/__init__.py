"""The analyst's and the auditor's side.

from gencard.client import Analyst

with Analyst.connect("localhost:7443", certificate="ana/certificate.pem") as analyst:
    card = analyst.propose("census", marginals=[("sex", "health")], purpose="...").accept()
    data = card.generate(rows=10_000, seed=7)
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC reads it once, when it is imported

if TYPE_CHECKING:
    from gencard.client.analyst import Analyst
    from gencard.client.audit_found import Audit
    from gencard.client.card import Card
    from gencard.client.connection.enrolment import install_answer, new_request, renewal_request
    from gencard.client.moments import (
        covariance,
        group_means,
        group_sums,
        mean,
        moment,
        variance,
    )
    from gencard.client.plan import Plan
    from gencard.client.releases import Release
    from gencard.client.report.fidelity import FidelityReport
    from gencard.client.workload import all_marginals

_HOME = {
    "Analyst": "analyst",
    "Audit": "audit_found",
    "Card": "card",
    "FidelityReport": "report.fidelity",
    "Plan": "plan",
    "Release": "releases",
    "all_marginals": "workload",
    "covariance": "moments",
    "group_means": "moments",
    "group_sums": "moments",
    "install_answer": "connection.enrolment",
    "mean": "moments",
    "moment": "moments",
    "new_request": "connection.enrolment",
    "renewal_request": "connection.enrolment",
    "variance": "moments",
}

__all__ = [
    "Analyst",
    "Audit",
    "Card",
    "FidelityReport",
    "Plan",
    "Release",
    "all_marginals",
    "covariance",
    "group_means",
    "group_sums",
    "install_answer",
    "mean",
    "moment",
    "new_request",
    "renewal_request",
    "variance",
]


def __getattr__(name: str) -> object:
    """Import a name's home when it is first asked for, so that nothing is paid for in advance."""
    if name not in _HOME:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
