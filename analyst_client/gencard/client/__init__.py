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
    from gencard.client.agreement import Release
    from gencard.client.analyst import Analyst
    from gencard.client.answers.answer import Answer
    from gencard.client.answers.answering import answer
    from gencard.client.audit import Audit
    from gencard.client.card import Card
    from gencard.client.connection.credentials import install_answer, new_request, renewal_request
    from gencard.client.findings.fidelity import FidelityReport
    from gencard.client.planning import Plan
    from gencard.client.steward import Steward
    from gencard.client.terms import (
        all_marginals,
        covariance,
        group_means,
        group_sums,
        histogram,
        mean,
        moment,
        total,
        variance,
    )

_HOME = {
    "Analyst": "analyst",
    "Answer": "answers.answer",
    "Audit": "audit",
    "Card": "card",
    "FidelityReport": "findings.fidelity",
    "Plan": "planning",
    "Release": "agreement",
    "Steward": "steward",
    "all_marginals": "terms",
    "answer": "answers.answering",
    "covariance": "terms",
    "group_means": "terms",
    "group_sums": "terms",
    "install_answer": "connection.credentials",
    "histogram": "terms",
    "mean": "terms",
    "total": "terms",
    "moment": "terms",
    "new_request": "connection.credentials",
    "renewal_request": "connection.credentials",
    "variance": "terms",
}

__all__ = [
    "Analyst",
    "Answer",
    "Audit",
    "Card",
    "FidelityReport",
    "Plan",
    "Release",
    "Steward",
    "all_marginals",
    "answer",
    "covariance",
    "group_means",
    "group_sums",
    "histogram",
    "install_answer",
    "mean",
    "moment",
    "new_request",
    "renewal_request",
    "total",
    "variance",
]


def __getattr__(name: str) -> object:
    """Import a name's home when it is first asked for, so that nothing is paid for in advance."""
    if name not in _HOME:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """The public names, for ``dir`` and completion."""
    return __all__
