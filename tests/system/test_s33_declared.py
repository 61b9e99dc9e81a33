"""S29, S33: before agreement nobody learns anything from records; what is public was declared."""

from itertools import combinations

import pytest

from gencard.core.errors import InvalidInputError
from gencard.v1 import catalog_pb2, negotiation_pb2
from gencard.v1 import common_pb2 as common
from tests.system.house import SCHEMA, build, request_id, survey
from tests.system.raw_calls import call

GET = "/gencard.v1.CatalogService/GetDataset"
LIST = "/gencard.v1.CatalogService/ListDatasets"
PROPOSE = "/gencard.v1.NegotiationService/ProposeCard"
NAMES = ("sex", "health", "work", "region", "age")


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """Two controllers that differ in their records: other ones, and fewer."""
    declared = SCHEMA.replace("reviewed = true", "reviewed = true\nrecords = 5_000")
    houses = [build(tmp_path_factory.mktemp("twin"), schema=declared) for _ in range(2)]
    others = survey(90, seed=2).query("sex == 'male'")
    others.to_csv(houses[1].folder.parent / "survey.csv", index=False)
    yield [house.start() for house in houses]
    for house in houses:
        house.stop()


def test_s33_the_catalogue_shows_what_was_declared(twins):
    asked = catalog_pb2.GetDatasetRequest(name="datasets/survey")
    one, two = (
        catalog_pb2.GetDatasetResponse.FromString(call(house.channel(), GET, asked).answers[0]).dataset
        for house in twins
    )
    assert one.version != two.version
    two.version = one.version
    assert one == two
    assert one.records == 5_000  # as declared: neither has as many


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_s29_the_answer_to_a_proposal_depends_on_no_record(twins, order):
    """The excess, the offer in its place, and the price are the same at both."""
    terms = common.Terms(
        dataset="datasets/survey",
        purpose="to see",
        marginals=[common.Clique(attributes=clique) for clique in combinations(NAMES, order)],
        privacy=common.Privacy(mechanism=common.Privacy.MECHANISM_EXACT),
        generator="ipf",
        rows=10**6,
    )
    answers = []
    for house in twins:
        asked = negotiation_pb2.ProposeCardRequest(terms=terms, request_id=request_id())
        (answer,) = call(house.channel(), PROPOSE, asked).answers
        offer = negotiation_pb2.ProposeCardResponse.FromString(answer).card.offer
        answers.append((offer.terms, list(offer.changes), offer.price))
    assert answers[0] == answers[1]
    assert answers[0][1]


@pytest.fixture
def drafted(tmp_path):
    """House whose schema no steward has reviewed yet."""
    house = build(tmp_path, survey(90))
    schema = house.folder / "schema.toml"
    schema.write_text(schema.read_text().replace("reviewed = true", "reviewed = false"))
    yield house
    house.stop()


def test_s33_a_drafted_schema_is_not_served(drafted):
    with pytest.raises(InvalidInputError, match="reviewed"):
        drafted.start()
