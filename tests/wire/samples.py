"""Small values with known bytes, and strategies for all values that cross the wire."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import strategies as st

from gencard.core.card.budget import Claim, Neighbouring, Price
from gencard.core.card.card import CardRecord, CardState, Change, Offer, Step, Turn
from gencard.core.card.privacy import EXACT, NOISES, Gaussian, InsideGenerator
from gencard.core.card.sums import Moment, MomentKind
from gencard.core.card.terms import NO_ANALYSES, Analyses, AuditTerms, CardTerms, Proposal, Tier
from gencard.core.coding import Attribute, Coding, Edges, Labels, StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.statistics.psi import LinearMeasurement, Measurement, Psi
from gencard.core.types import VersionKind
from gencard.wire.canonical import time_text
from gencard.wire.documents import Receipt
from tests.core.strategies import linear_statistics

KEY, OTHER_KEY = (Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32) for seed in (1, 2))

PROPOSAL = Proposal(
    dataset="datasets/survey",
    purpose="Health by sex",
    marginals=(("sex", "health"), ("age",)),
    generator="ipf",
    rows=1_000,
)
CARD = CardTerms(
    name="datasets/survey/cards/0a",
    controller="spiffe://gencard.local/service/controller/controller",
    analyst="spiffe://gencard.local/pilot/analyst/ana",
    dataset_title="A survey",
    version="aa" * 32,
    coding_digest="bb" * 32,
    declared_by="the survey's office",
    terms=PROPOSAL,
    price=Price(statistics=9),
    tier=Tier.BY_CONSTRUCTION,
    generator_digest="cc" * 32,
    agreed_by_policy="marginals of at most 2 attributes",
    offer_time="2026-11-20T18:00:00Z",
    expire_time="2027-02-18T18:00:00Z",
    nonce="dd" * 16,
)
RECEIPT = Receipt(
    name="datasets/survey/cards/0a/releases/01",
    card_digest="11" * 32,
    psi_digest="22" * 32,
    rows_digest="33" * 32,
    rows=1_000,
    seed=7,
    versions=(("gencard", "0.1.0"), ("numpy", "2.4.6")),
    log_index=5,
    time="2026-11-20T18:05:00Z",
)
PSI = Psi(
    Domain.of({"sex": 2, "age": 3}),
    (
        Measurement(("sex", "age"), np.array([[1, 0, 2], [3, 4, 0]])),
        Measurement(("age",), np.array([4, 4, 2]), stddev=0.5),
    ),
)

# Strategies --------------------------------------------------------------------------------------

texts = st.text(max_size=20)
names = st.text(min_size=1, max_size=8)
digests = st.binary(min_size=32, max_size=32).map(bytes.hex)
times = st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
seconds = times.map(lambda time: time.replace(microsecond=0))
budgets = st.integers(1, 10**15).map(lambda nano: Decimal(nano).scaleb(-9))
amounts = st.integers(0, 10**18).map(lambda nano: Decimal(nano).scaleb(-9))
whole = st.integers(0, 2**63 - 1)
cliques = st.lists(names, min_size=1, max_size=4, unique=True).map(tuple)
prices = st.builds(Price, whole, amounts, amounts)
privacies = st.one_of(
    st.just(EXACT), *(st.builds(noise, st.sampled_from(Neighbouring), budgets) for noise in NOISES)
)
levels = st.integers(1, 999).map(lambda permille: f"0.{permille:03d}")
audits = st.builds(AuditTerms, st.integers(3, 1_000), st.integers(1, 8), levels)
_pairs = st.lists(names, min_size=2, max_size=2, unique=True).map(tuple)
_kinds = st.sampled_from(MomentKind)
moments = st.one_of(
    st.builds(Moment, _kinds.filter(lambda kind: kind.attributes == 2), _pairs),
    st.builds(Moment, st.sampled_from([MomentKind.MEAN, MomentKind.VARIANCE]), st.tuples(names)),
    st.builds(Moment, st.just(MomentKind.MOMENT), st.tuples(names), st.integers(1, 8)),
)
_measures = st.lists(st.sampled_from(["dcr", "tables", "nndr"]), max_size=3, unique=True).map(tuple)

_analyses = st.one_of(
    st.just(NO_ANALYSES),
    st.builds(
        Analyses,
        kinds=st.sampled_from([("linear",), ("linear", "means")]),
        checked_runs=st.integers(1, 50),
        numbers=st.integers(1, 10_000),
    ),
    st.builds(
        Analyses,
        reviewed_runs=st.integers(1, 5),
        programs=st.just(("ab" * 32,)),
        libraries=st.sampled_from([(), ("numpy", "pandas")]),
    ),
)


@st.composite
def _reading_once_more(draw: st.DrawFn, plain: st.SearchStrategy[Proposal]) -> Proposal:
    """A proposal of exact counts may ask for what looks at the records once more."""
    asked = draw(plain)
    if not isinstance(asked.privacy, InsideGenerator):
        asked = replace(asked, analyses=draw(_analyses).measured_as(asked.privacy))
    if asked.privacy.noisy:
        return asked
    return replace(asked, measures=draw(_measures), without_uniques=draw(st.booleans()))


_plain_proposals = st.builds(
    Proposal,
    dataset=texts,
    purpose=texts.filter(str.strip),
    marginals=st.lists(cliques, min_size=1, max_size=4, unique_by=frozenset).map(tuple),
    generator=texts,
    rows=st.integers(1, 1_000_000_000),
    privacy=privacies,
    audit=audits,
    moments=st.lists(moments, max_size=3, unique=True).map(tuple),
)
proposals = _reading_once_more(_plain_proposals)
deltas = st.integers(0, 10**18 - 1).map(lambda atto: Decimal(atto).scaleb(-18))
claims = st.one_of(
    st.builds(Claim, texts), st.builds(Claim, texts, budgets, deltas, st.sampled_from(Neighbouring))
)
parameters = st.dictionaries(names, texts, max_size=3).map(lambda found: tuple(sorted(found.items())))
private = st.builds(
    InsideGenerator,
    st.builds(Gaussian, st.sampled_from(Neighbouring), budgets, st.none() | deltas.filter(bool)),
)


@st.composite
def _proposals_of(draw: st.DrawFn, tier: Tier) -> Proposal:
    """A proposal as a card of this tier has it: only a private one has its generator's own noise."""
    if tier is not Tier.PRIVATE:
        return draw(proposals)
    return replace(draw(_plain_proposals), privacy=draw(private))


_cards = {
    tier: st.builds(
        CardTerms,
        **dict.fromkeys(("name", "controller", "analyst", "dataset_title", "declared_by"), texts),
        **dict.fromkeys(("version", "coding_digest", "generator_digest", "nonce"), digests),
        terms=_proposals_of(tier),
        price=prices,
        tier=st.just(tier),
        reviewed_by=texts,
        parameters=parameters,
        claim=st.none() | claims,
        agreed_by_policy=texts,
        offer_time=seconds.map(time_text),
        expire_time=seconds.map(time_text),
    )
    for tier in Tier
}
cards = st.one_of(*_cards.values())
changes = st.builds(Change, texts, texts, texts, texts)
offers = st.builds(
    Offer,
    proposals,
    st.lists(changes, max_size=3).map(tuple),
    prices,
    st.binary(),
    digests,
    times,
    prices,
)
negotiations = st.builds(
    CardRecord,
    name=texts,
    state=st.sampled_from(CardState),
    turn=st.sampled_from(Turn),
    etag=texts,
    analyst=texts,
    proposed=proposals,
    offer=st.none() | offers,
    history=st.lists(st.builds(Step, texts, texts, texts, times), max_size=3).map(tuple),
    envelope=st.binary(max_size=20),
    attestations=st.lists(st.binary(max_size=20), max_size=3).map(tuple),
)
_replayable = st.builds(
    Receipt,
    name=texts,
    **dict.fromkeys(("card_digest", "psi_digest", "rows_digest"), digests),
    rows=whole,
    seed=st.integers(0, 2**64 - 1),
    versions=st.dictionaries(names, texts, max_size=3).map(lambda found: tuple(sorted(found.items()))),
    log_index=whole,
    time=seconds.map(time_text),
    version_kind=st.sampled_from([None, *VersionKind]),
)
receipts = _replayable | _replayable.map(lambda one: replace(one, seed=None, without_uniques=True))


@st.composite
def domains(draw, most=4, largest=6):
    attributes = draw(st.lists(names, min_size=1, max_size=most, unique=True))
    return Domain(tuple(attributes), tuple(draw(st.integers(1, largest)) for _ in attributes))


@st.composite
def datasets(draw):
    domain = draw(domains(largest=300))
    rows = draw(st.integers(0, 30))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return Dataset(domain, rng.integers(0, domain.sizes, size=(rows, len(domain))))


@st.composite
def psis(draw):
    domain = draw(domains())
    phi = draw(
        st.lists(st.lists(st.sampled_from(domain.attributes), unique=True), min_size=1, max_size=4)
    )
    stddevs = st.just(0.0) | st.floats(0, 1e300)
    return Psi(
        domain,
        tuple(draw(_measurement(domain, tuple(names), stddevs)) for names in phi),
        tuple(draw(st.lists(_sums(domain), max_size=2))),
    )


@st.composite
def _sums(draw, domain):
    statistic = draw(linear_statistics(domain))
    number = len(statistic.functions)
    sums = draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=number, max_size=number))
    stddevs = draw(st.lists(st.just(0.0) | st.floats(0, 1e300), min_size=number, max_size=number))
    return LinearMeasurement(statistic, np.array(sums, dtype=np.int64), np.array(stddevs))


@st.composite
def _measurement(draw, domain, clique, stddevs):
    sizes = domain.project(clique).sizes
    cells = int(np.prod(sizes))
    counts = draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=cells, max_size=cells))
    return Measurement(clique, np.array(counts, dtype=np.int64).reshape(sizes), draw(stddevs))


def _several(labels):
    return st.lists(labels, min_size=1, max_size=5, unique=True).map(tuple)


@st.composite
def codings(draw):
    attributes = tuple(
        Attribute(name, draw(_coding), draw(texts))
        for name in draw(st.lists(names, unique=True, min_size=1))
    )
    coding = Coding(attributes)
    clique = tuple(draw(st.lists(st.sampled_from(coding.domain.attributes), unique=True, min_size=1)))
    sizes = coding.domain.project(clique).sizes
    cells = draw(st.lists(st.tuples(*(st.integers(0, size - 1) for size in sizes)), max_size=3))
    return replace(coding, structural_zeros=(StructuralZeros(clique, tuple(cells)),) if cells else ())


_flags = st.booleans()
_labels = texts.filter(lambda label: label != "missing")
_increasing = st.lists(
    st.floats(allow_nan=False, allow_infinity=False).map(lambda edge: edge + 0.0),
    min_size=2,
    max_size=6,
    unique=True,
).map(lambda edges: tuple(sorted(edges)))
_coding = st.one_of(
    st.builds(Labels, _several(_labels), st.just(False), _flags, _flags),
    st.builds(Labels, _several(st.integers().map(str)), st.just(True), _flags, _flags),
    st.builds(Edges, _increasing, _flags),
    st.builds(Edges, st.just((-3.0, 0.0, 11.0)), _flags, st.integers(0, 9), st.just(False)),
    st.builds(Edges, st.just((-3.0, 0.0, 11.0)), _flags, st.just(0), _flags),
    st.builds(Labels, st.just(("false", "true")), st.just(False), _flags, _flags, st.just(True)),
)
