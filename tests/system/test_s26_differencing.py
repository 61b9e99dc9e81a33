"""S26: what is asked for is judged against everything that was granted on the dataset, to anybody."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from gencard.client.card import Card
from gencard.controller.state.log import event_of
from gencard.controller.wiring.serving import serve
from gencard.core.card.card import CardState
from gencard.core.errors import InvalidInputError, ProposalRefusedError
from tests.system.canaries import ENTRY
from tests.system.house import Clock, House, build, survey
from tests.system.raw_calls import agreed, configure, enrolled, state_unchanged

PERSON = 17


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def house(tmp_path, clock):
    """A house whose steward may change records, schema and policy between two runs."""
    house = build(tmp_path)
    enrolled(house, "bob")
    house.controller = serve(house.settings(), clock)
    yield house
    house.stop()


def restarted(house: House, clock: Clock, change: Callable[[House], None]) -> None:
    house.stop()
    change(house)
    house.controller = serve(house.settings(), clock)


def without_a_person(house: House) -> None:
    """The planted pair: all records, and all but one."""
    survey().drop(index=PERSON).to_csv(house.folder.parent / "survey.csv", index=False)


def with_all(house: House) -> None:
    survey().to_csv(house.folder.parent / "survey.csv", index=False)


def with_other_edges(house: House) -> None:
    schema = house.folder / "schema.toml"
    schema.write_text(schema.read_text().replace("edges = [16, 30,", "edges = [16, 31,"))


def with_noise(house: House) -> None:
    house.edit({"most_per_card": "{ statistics = 500, epsilon = 1 }"})
    house.edit(dict.fromkeys(("dataset", "project", "analyst"), "{ statistics = 500, epsilon = 10 }"))
    noise = '{ mechanism = "laplace", neighbouring = "add-remove", epsilon = "0.5" }'
    configure(house, "datasets.policy", mechanisms='["exact", "laplace"]', noise=noise)


def rounded_to_five(house: House) -> None:
    configure(house, "datasets.policy", transform="{ rounding = 5 }")


def rounded_to_three(house: House) -> None:
    house.edit({"transform": "{ rounding = 3 }"})


def granted(house: House, name: str = "ana", *marginals: tuple[str, ...], measured: bool = True) -> Card:
    with house.analyst(name) as analyst:
        card = agreed(analyst, *(marginals or (("sex", "health"),)))
        if measured:
            card.generate(rows=10, progress=False)
            assert card.psi.cliques  # fetched while there is a connection
        return card


def refused(house: House, name: str = "ana", *marginals: tuple[str, ...]) -> str:
    """The reason for which exact counts are refused; nothing is stored for it but a line of the log."""
    with house.analyst(name) as analyst, pytest.raises(ProposalRefusedError) as error:
        analyst.propose("survey", list(marginals or (("sex", "health"),)), purpose="a test")
    return error.value.fields["reasons"]


def test_s26_all_records_and_all_but_one_are_never_both_granted(house, clock):
    """The pair that an analyst would subtract, and what it would have shown."""
    before = granted(house).psi.measurements[0].values.copy()
    restarted(house, clock, without_a_person)
    with state_unchanged(house):
        assert refused(house) == "DIFFERENCING"
    sex, health = survey().loc[PERSON, ["sex", "health"]]
    left = survey().drop(index=PERSON).value_counts(["sex", "health"]).unstack()
    shown = before - left.loc[["female", "male"], ["good", "fair", "bad", "very bad"]].to_numpy()
    assert shown.sum() == shown[["female", "male"].index(sex)].sum() == 1
    assert shown[:, ["good", "fair", "bad", "very bad"].index(health)].sum() == 1


def test_s26_what_others_were_granted_counts_too_and_other_marginals_do_as_well(house, clock):
    granted(house, "bob")
    restarted(house, clock, without_a_person)
    assert refused(house, "ana", ("work", "region")) == "DIFFERENCING"


def test_s26_the_same_records_may_be_asked_again_and_for_more(house, clock):
    granted(house)
    restarted(house, clock, lambda house: None)
    assert granted(house, "bob", ("sex", "health"), ("work", "age")).psi.exact


def test_s26_an_agreed_card_counts_before_it_is_measured(house, clock):
    """The records may come back, and then it could be."""
    waiting = granted(house, measured=False)
    restarted(house, clock, without_a_person)
    assert refused(house, "bob") == "DIFFERENCING"
    restarted(house, clock, with_all)
    with house.analyst() as analyst:
        assert analyst.card(waiting.name).generate(rows=10, progress=False).shape == (10, 2)


@pytest.mark.parametrize("end", ["terminated", "expired"])
def test_s26_a_card_that_ended_unmeasured_tells_nothing(house, clock, end):
    waiting = granted(house, measured=False)
    if end == "terminated":
        with house.analyst() as analyst:
            analyst.card(waiting.name).terminate()
    clock.ahead = timedelta(days=91 if end == "expired" else 0)
    restarted(house, clock, without_a_person)
    assert granted(house, "bob").state is CardState.RELEASED


def test_s26_a_card_that_ended_measured_goes_on_counting(house, clock):
    granted(house)
    clock.ahead = timedelta(days=91)
    restarted(house, clock, without_a_person)
    assert refused(house, "bob") == "DIFFERENCING"


def test_s26_of_two_offers_on_two_versions_only_one_can_be_accepted(house, clock):
    with house.analyst() as analyst:
        first = analyst.propose("survey", [("sex",)], purpose="a test").name
    restarted(house, clock, without_a_person)
    granted(house, "bob", ("work",))
    restarted(house, clock, with_all)
    with house.analyst() as analyst:
        late = analyst.card(first)
        with state_unchanged(house), pytest.raises(ProposalRefusedError, match="DIFFERENCING"):
            late.accept()
    with house.controller.controller_state.database.reading() as tx:
        *_, last = (event_of(entry.body) for entry in house.controller.controller_state.log.entries(tx))
    assert (last.action, last.resource) == ("refuse", first)
    assert last.details == {"reason": "DIFFERENCING"}


def test_s26_edges_that_moved_are_another_dataset(house, clock):
    """Two schemas of one file show the records between the old edge and the new."""
    granted(house, "ana", ("age",))
    restarted(house, clock, with_other_edges)
    assert refused(house, "bob", ("age",)) == "DIFFERENCING"


def test_s26_counts_are_rounded_to_one_multiple(house, clock):
    restarted(house, clock, rounded_to_five)
    granted(house)
    restarted(house, clock, rounded_to_three)
    assert refused(house, "bob") == "DIFFERENCING"


def test_s26_counts_that_were_given_rounded_are_not_given_unrounded(house, clock):
    """Another table of the same records as well; noise or the same rounding stay on offer."""
    restarted(house, clock, rounded_to_five)
    granted(house)
    restarted(house, clock, lambda house: house.edit({"transform": "{}"}))
    assert refused(house, "bob") == "DIFFERENCING"
    assert refused(house, "ana", ("work", "region")) == "DIFFERENCING"
    restarted(house, clock, lambda house: house.edit({"transform": "{ rounding = 5 }"}))
    assert granted(house, "bob").psi.measurements[0].stddev > 0


def test_s26_counts_that_were_given_unrounded_may_be_given_rounded(house, clock):
    granted(house)
    restarted(house, clock, rounded_to_five)
    assert granted(house, "bob").psi.measurements[0].stddev > 0


def test_s26_noise_is_offered_where_exact_counts_are_refused(house, clock):
    granted(house)

    def change(house: House) -> None:
        without_a_person(house)
        with_noise(house)

    restarted(house, clock, change)
    with house.analyst("bob") as analyst:
        card = analyst.propose("survey", [("sex", "health")], purpose="a test", rows=100)
        assert [(line.field, line.reason) for line in card.changes] == [("privacy", "DIFFERENCING")]
        assert card.terms.privacy.noisy
        card.accept().generate(rows=10, progress=False)
        assert not card.psi.exact


@pytest.mark.parametrize("copied", [False, True])
def test_s26_the_same_records_are_not_offered_twice(tmp_path, copied):
    """Under another name they would have another ledger, and grants that nobody compares."""
    house = build(tmp_path)
    data = house.folder.parent / ("copy.csv" if copied else "survey.csv")
    survey().to_csv(data, index=False)
    with house.settings_file.open("a") as settings:
        settings.write(ENTRY.format(name="again", data=data, automatic="true"))
    with pytest.raises(InvalidInputError, match="the same records as datasets/again"):
        house.start()
