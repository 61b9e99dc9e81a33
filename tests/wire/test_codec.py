"""The codec of messages: what a dataclass says comes back, and what no value is is refused."""

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.card.budget import Claim, Neighbouring, Price, Spend, SpendState
from gencard.core.card.card import Change
from gencard.core.card.terms import Tier
from gencard.core.catalogue import CatalogueEntry, DeclaredAttribute, GeneratorEntry
from gencard.core.coding import Attribute, Coding, Labels, Reading, StructuralZeros
from gencard.core.errors import GencardError, InvalidInputError, InvalidNumberError
from gencard.core.json_codecs import written
from gencard.core.policy import AnalysesPolicy, Colour, Policy
from gencard.v1 import catalog_pb2, common_pb2, ledger_pb2, negotiation_pb2, steward_pb2
from gencard.wire import steward
from gencard.wire.codec import message_of, messages_of, part_of, value_of
from gencard.wire.documents import Question
from tests.wire.samples import PROPOSAL, negotiations, prices

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
texts = st.text(max_size=5)
flags = st.booleans()
times = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(
    lambda time: time.replace(tzinfo=UTC, microsecond=0)
)
json_objects = st.dictionaries(texts, st.integers(-9, 9) | texts | flags | st.lists(texts), max_size=3)
firsts = st.builds(
    steward.FirstDecision, texts, texts, texts, json_objects, texts, texts, texts, times, times
)
summaries = st.builds(
    steward.AnswerSummary,
    texts,
    texts,
    st.builds(Question, texts, texts, texts, st.sampled_from(("level", "drop"))),
    times,
)
numbers = st.none() | st.floats(allow_nan=False)
cells = st.builds(
    steward.ReviewedNumber,
    texts,
    texts,
    texts,
    numbers,
    numbers,
    st.sampled_from(Colour),
    st.lists(texts, max_size=2).map(tuple),
    st.integers(1, 9),
)
matrices = st.lists(st.lists(flags, max_size=3).map(tuple), max_size=3).map(tuple)
names = st.lists(texts, max_size=3).map(tuple)

READ_MODELS = {
    steward_pb2.Waiting: st.builds(steward.Waiting, times, *[texts] * 5),
    steward_pb2.FirstDecision: firsts,
    steward_pb2.Decision: st.builds(
        steward.Decision,
        texts,
        texts,
        json_objects,
        texts,
        names,
        flags,
        times,
        st.none() | times,
        st.dictionaries(texts, texts, max_size=2),
    ),
    steward_pb2.Action: st.builds(
        steward.Action, st.sampled_from(steward.Kind), texts, json_objects, st.just("seen"), texts
    ),
    steward_pb2.Preview: st.builds(
        steward.Preview,
        texts,
        texts,
        json_objects,
        json_objects,
        flags,
        texts,
        st.lists(firsts, max_size=2).map(tuple),
    ),
    steward_pb2.CardReview: st.builds(
        steward.CardReview,
        negotiations,
        st.none() | st.just(PROPOSAL),
        st.lists(st.builds(Change, texts, texts, texts, texts), max_size=2).map(tuple),
        st.none() | prices,
        texts,
        texts,
        flags,
        texts,
        st.builds(steward.Together, names, matrices, matrices, names),
        st.lists(firsts, max_size=2).map(tuple),
    ),
    steward_pb2.AnswerSummary: summaries,
    steward_pb2.AnswerReview: st.builds(
        steward.AnswerReview,
        summaries,
        st.lists(cells, max_size=2).map(tuple),
        texts,
        st.none() | json_objects,
        st.none() | st.lists(json_objects, max_size=2),
        names,
        flags,
        texts,
        st.lists(firsts, max_size=1).map(tuple),
    ),
    steward_pb2.BudgetAccount: st.builds(
        steward.BudgetAccount, texts, texts, texts, prices, prices, prices
    ),
    steward_pb2.Person: st.builds(
        steward.Person, texts, texts, flags, st.none() | times, st.none() | times, texts
    ),
    steward_pb2.Failure: st.builds(steward.Failure, *[texts] * 5, times, texts),
    steward_pb2.LogLine: st.builds(
        steward.LogLine,
        st.integers(0, 2**63),
        times,
        texts,
        texts,
        texts,
        st.dictionaries(texts, texts, max_size=2),
    ),
    ledger_pb2.Spend: st.builds(
        Spend, st.integers(1, 2**53), *[texts] * 5, prices, st.sampled_from(SpendState), times
    ),
    catalog_pb2.Generator: st.builds(
        GeneratorEntry,
        texts,
        st.sampled_from(Tier),
        *[texts] * 4,
        st.integers(0, 2**40),
        st.integers(0, 2**20),
        st.dictionaries(texts, texts, max_size=2),
        st.none() | st.builds(Claim, texts, st.none(), st.just(Decimal(0)), st.none()),
    ),
}


@pytest.mark.parametrize("message", READ_MODELS, ids=lambda message: message.DESCRIPTOR.name)
@given(data=st.data())
def test_what_crosses_comes_back(message, data):
    value = data.draw(READ_MODELS[message])
    crossed = message.FromString(message_of(value, message).SerializeToString())
    assert value_of(type(value), crossed) == value


DECLARED = (
    DeclaredAttribute(Attribute("sex", Labels(("f", "m")), "As asked."), Reading(("-9",))),
    DeclaredAttribute(
        Attribute("work", Labels(("a", "b", "c"))),
        Reading(age_at=date(2026, 1, 1), other="c", zone="Asia/Tokyo", time_of="sex"),
        {"early": ("a", "b")},
    ),
)
POLICY = Policy(2, 100, 5, 1_000, ("ipf",), Price(12), most_records=3, stewards=2)
ENTRY = CatalogueEntry(
    "datasets/d", "D", "", "sam", "ab", DECLARED, (StructuralZeros(("sex",), ((1,),)),), POLICY.public, 7
)


def test_a_dataset_comes_back_with_its_coding():
    again = value_of(CatalogueEntry, message_of(ENTRY, catalog_pb2.Dataset))
    assert again == ENTRY
    assert again.coding == Coding(tuple(one.attribute for one in DECLARED), ENTRY.structural_zeros)


def test_an_entry_of_a_list_is_short():
    summary = replace(
        ENTRY, attributes=(), structural_zeros=(), policy=CatalogueEntry("", "", "", "", "").policy
    )
    message = message_of(summary, catalog_pb2.Dataset)
    assert not message.HasField("policy")
    assert value_of(CatalogueEntry, message) == summary


@pytest.mark.parametrize(
    "policy",
    [
        POLICY,
        replace(POLICY.public, stewards=2),
        replace(POLICY.public, most_records=1),
        replace(POLICY.public, analyses=AnalysesPolicy(threshold=20)),
        replace(POLICY.public, analyses=AnalysesPolicy(stored=True)),
        replace(POLICY.public, analyses=AnalysesPolicy(influence=None)),
    ],
)
def test_what_is_private_never_leaves(policy):
    with pytest.raises(ValueError, match="is private"):
        message_of(policy, catalog_pb2.Policy)
    with pytest.raises(ValueError, match="is private"):
        message_of(replace(ENTRY, policy=policy), catalog_pb2.Dataset)


def act(arguments):
    return steward_pb2.Action(kind="approve", reason="x", arguments=arguments)


@pytest.mark.parametrize(
    ("kind", "message", "error"),
    [
        (Spend, ledger_pb2.Spend(line=1, state=9), InvalidInputError),
        (
            Spend,
            ledger_pb2.Spend(line=1, state=2, price=common_pb2.Price(rho="NaN")),
            InvalidNumberError,
        ),
        (GeneratorEntry, catalog_pb2.Generator(name="x"), InvalidInputError),
        (steward.Action, steward_pb2.Action(kind="burn", reason="seen"), InvalidInputError),
        (steward.Action, steward_pb2.Action(kind="approve"), InvalidInputError),
        (steward.Action, act(b"[]"), InvalidInputError),
        (steward.Action, act(b"{"), InvalidInputError),
        (steward.RiskReview, steward_pb2.RiskReview(state="ready", report=b"{"), InvalidInputError),
        (steward.RiskReview, steward_pb2.RiskReview(state="ready", report=b"{}"), InvalidInputError),
        (steward.RiskReview, steward_pb2.RiskReview(state="late"), InvalidInputError),
        (Reading, catalog_pb2.Reading(age_at="2026-02-30"), InvalidInputError),
        (Attribute, catalog_pb2.Attribute(name="a"), InvalidInputError),
        (steward.CardReview, steward_pb2.CardReview(), InvalidInputError),
        (steward.ReviewedNumber, steward_pb2.ReviewedNumber(mark="blue"), InvalidInputError),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_no_value_is_refused(kind, message, error):
    with pytest.raises(error):
        value_of(kind, message)


@given(st.binary(max_size=60), st.sampled_from([*READ_MODELS]))
def test_bytes_of_anybody_end_in_a_value_or_a_typed_error(content, message):
    kind = {steward_pb2.Waiting: steward.Waiting, ledger_pb2.Spend: Spend}.get(message) or getattr(
        steward, message.DESCRIPTOR.name, GeneratorEntry
    )
    try:
        parsed = message.FromString(content)
    except Exception:  # protobuf refuses it before the codec does
        return
    try:
        value_of(kind, parsed)
    except GencardError:
        return


@dataclass(frozen=True)
class Other:
    """A change without its reason."""

    field: str
    old: str
    new: str


@dataclass(frozen=True)
class Wrong:
    """A change whose field is a number."""

    field: int
    old: str
    new: str
    reason: str


@dataclass(frozen=True)
class Longer:
    """A price with one field more than its message."""

    statistics: int = 0
    epsilon: Decimal = Decimal(0)
    rho: Decimal = Decimal(0)
    note: str = ""


@dataclass(frozen=True)
class Kept(Price):
    """A price with a field that never leaves."""

    note: str = field(default="", metadata=written(private=True))


def test_a_pair_that_differs_is_an_error_at_its_first_use():
    with pytest.raises(TypeError, match="differ in reason"):
        message_of(Other("a", "", ""), negotiation_pb2.Change)
    with pytest.raises(TypeError, match="differ in note"):
        message_of(Longer(), common_pb2.Price)
    with pytest.raises(TypeError, match="cannot hold"):
        message_of(Wrong(1, "", "", ""), negotiation_pb2.Change)
    with pytest.raises(ValueError, match="note is private"):
        message_of(Kept(1, note="x"), common_pb2.Price)
    assert message_of(Kept(1), common_pb2.Price).statistics == 1


def test_a_part_of_a_value_has_the_fields_of_its_message():
    longer = Longer(3, Decimal("0.5"), note="stays here")
    assert part_of(longer, common_pb2.Price) == common_pb2.Price(statistics=3, epsilon="0.5", rho="0")
    assert part_of(longer, common_pb2.Price, rho="9").rho == "9"
    assert [*messages_of([Price(1)], common_pb2.Price)] == [message_of(Price(1), common_pb2.Price)]


def test_none_and_its_neighbours():
    assert message_of(Claim("x"), catalog_pb2.Claim).epsilon == ""
    claim = Claim("x", Decimal("0.5"), Decimal(0), Neighbouring.REPLACE_ONE)
    message = message_of(claim, catalog_pb2.Claim)
    assert (message.epsilon, message.delta, message.neighbouring) == ("0.5", "0", 2)
    zero = steward.ReviewedNumber("a", "b", "c", 0.0, None, Colour.GREEN, ())
    crossed = message_of(zero, steward_pb2.ReviewedNumber)
    assert (crossed.HasField("value"), crossed.HasField("dry")) == (True, False)
