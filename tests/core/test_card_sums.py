"""Rules for exact sums of cards: each group, each person, and all sums of a number together."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.analysis.output_checks.card_sums import NumberedRecords, ReleasedNumbers, judged_sums
from gencard.analysis.output_checks.influence import of_means, of_person_means
from gencard.core.card.privacy import Transform
from gencard.core.card.sums import Sum
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.dataset import Dataset
from gencard.core.policy import USUAL_RULES, Rule
from tests.core.tiny_domains import number

PAY = number("pay", [1, 1_000], [1, 1], missing=True)  # 3 is a level of its own, then 4 to 1003
AGE = number("age", [50, 50], [1, 1], missing=True)
SEX = Attribute("sex", Labels(("f", "m")))
REGION = Attribute("region", Labels(("n", "s", "w")))
CODING = Coding((PAY, AGE, SEX, REGION))
OF_PAY = Sum(("pay",))
BY_SEX = Sum(("pay",), ("sex",))
NO_INFLUENCE = replace(USUAL_RULES, influence=None)


def records(pay, sex=None, region=None, age=None, persons=None, most_records=1) -> NumberedRecords:
    """Records with these numbers; NaN is "missing"."""
    pay = np.asarray(pay, dtype=float)
    numbers = {"pay": pay, "age": np.full(len(pay), 30.0) if age is None else np.asarray(age, float)}
    codes = {
        "pay": np.where(np.isnan(pay), 2, pay > 3),
        "age": np.where(np.isnan(numbers["age"]), 2, numbers["age"] > 52),
        "sex": np.zeros(len(pay)) if sex is None else np.asarray(sex),
        "region": np.zeros(len(pay)) if region is None else np.asarray(region),
    }
    columns = [codes[name].astype(np.uint8) for name in CODING.domain.attributes]
    dataset = Dataset.of_columns(CODING.domain, columns)
    return NumberedRecords(CODING, dataset, numbers, persons, most_records)


def rules_of(sums, some, rules=NO_INFLUENCE, **options):
    return [set(one.verdict.broken) for one in judged_sums(sums, some, rules, **options)]


def pays(number: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(400, 600, number)


class TestGroups:
    def test_a_group_has_enough_records_or_none(self):
        for men, broken in ((0, set()), (1, {Rule.THRESHOLD}), (9, {Rule.THRESHOLD}), (10, set())):
            some = records(pays(40), sex=np.arange(40) >= 40 - men)
            (own,) = rules_of([BY_SEX], some)
            assert own & {Rule.THRESHOLD} == broken, men
            assert bool(own) == bool(broken)

    def test_one_record_is_at_most_half_and_two_are_no_nine_tenths(self):
        few = [4] * 30  # magnitudes count from the first edge, 3
        assert rules_of([OF_PAY], records([*few, 25])) == [set()]
        assert rules_of([OF_PAY], records([*few, 35])) == [{Rule.DOMINANCE}]
        assert rules_of([OF_PAY], records([*few, 300, 300])) == [{Rule.DOMINANCE}]
        both = {Rule.DOMINANCE, Rule.REMAINDER}
        assert rules_of([OF_PAY], records([*few, 400, 400])) == [both]

    def test_records_without_the_number_are_in_no_group(self):
        pay = np.where(np.arange(40) < 35, np.nan, 500)
        assert rules_of([OF_PAY], records(pay)) == [{Rule.THRESHOLD}]

    def test_a_steward_is_told_which_groups_fail(self):
        some = records(pays(40), sex=np.arange(40) >= 35)
        (one,) = judged_sums([BY_SEX], some, NO_INFLUENCE)
        assert one.counts.tolist() == [35, 5]
        assert one.fails.tolist() == [False, True]

    def test_counts_of_a_population_pass_the_checks_of_the_card(self):
        total = Sum(("pay",), ("sex",), ("age",))
        age = np.where(np.arange(60) % 20 == 0, np.nan, 30)  # three are outside
        some = records(pays(60), sex=np.arange(60) % 2, age=age)
        assert rules_of([total], some) == [set()]
        assert rules_of([total], some, transform=Transform(threshold=5)) == [{Rule.THRESHOLD}]
        assert rules_of([Sum((), ("sex",), ("age",))], some) == [set()]
        (own,) = rules_of([Sum((), ("sex",), ("age",))], some, transform=Transform(threshold=5))
        assert own == {Rule.THRESHOLD}

    def test_what_exact_counts_determine_is_not_judged(self):
        single = Coding((number("visits", [1] * 4, [1] * 4, missing=False), SEX))
        dataset = Dataset.of_columns(single.domain, [np.zeros(5, np.uint8), np.zeros(5, np.uint8)])
        some = NumberedRecords(single, dataset, {"visits": np.full(5, 3.0)})
        total = Sum(("visits",), ("sex",))
        assert len(judged_sums([total], some, NO_INFLUENCE)) == 1
        counted = ReleasedNumbers(cliques=(("visits", "sex"),))
        assert judged_sums([total], some, NO_INFLUENCE, released=counted) == ()


class TestPersons:
    def test_all_records_of_a_person_are_one_contribution(self):
        persons = np.repeat(np.arange(9), 4)
        some = records(pays(36), persons=persons, most_records=4)
        assert Rule.THRESHOLD in rules_of([OF_PAY], some)[0]
        assert rules_of([OF_PAY], records(pays(36))) == [set()]
        # fifty persons, one of whom has more than half by several records, none of which has
        pay = [*([4] * 49), *([20] * 4)]
        owners = np.append(np.arange(49), [49] * 4)
        few = records(pay, persons=owners, most_records=4)
        assert Rule.DOMINANCE in rules_of([OF_PAY], few)[0]
        assert rules_of([OF_PAY], records(pay)) == [set()]

    @given(
        st.lists(st.tuples(st.integers(-1, 2), st.integers(-50, 50)), min_size=8, max_size=40),
        st.booleans(),
    )
    def test_influence_of_persons_of_one_record_is_that_of_records(self, some, distinct):
        place = np.array([0, 0, 1, 1, 2, 2, *(one for one, _ in some)])
        noise = np.linspace(0, 1, len(place)) if distinct else 0
        values = np.array([1.0, 2, 3, 5, 8, 13, *(value for _, value in some)]) + noise
        inside = place >= 0
        expected = of_means(place[inside], values[inside], cells=3, outside=values[~inside])
        found = of_person_means(place, values, np.arange(len(place)), cells=3)
        assert np.nan_to_num(found) == pytest.approx(expected, rel=1e-6)

    def test_influence_of_persons_by_leaving_each_out(self):
        rng = np.random.default_rng(5)
        place, values = rng.integers(0, 3, 90), rng.normal(10, 3, 90)
        persons = rng.integers(0, 40, 90)
        largest = 0.0
        for person in np.unique(persons):
            own = persons == person
            total, size = values[own].sum(), own.sum()
            for group in range(3):
                rest = values[~own & (place == group)]
                moved = (rest.sum() + total) / (len(rest) + size) - rest.mean()
                largest = max(largest, abs(moved) / (rest.std(ddof=1) / np.sqrt(len(rest))))
        found = of_person_means(place, values, persons, cells=3)
        assert found == pytest.approx(largest, rel=0.02)
        assert found >= largest * (1 - 1e-9)


class TestInfluence:
    PAY = np.append(np.random.default_rng(1).integers(4, 8, 199), 100)
    SEX = np.arange(200) % 2

    def test_the_means_that_a_sum_determines_are_judged(self):
        some = records(self.PAY, sex=self.SEX)
        assert rules_of([BY_SEX], some, USUAL_RULES) == [{Rule.INFLUENCE}]
        assert rules_of([BY_SEX], some, replace(USUAL_RULES, influence=None)) == [set()]

    def test_squares_and_products_by_groups_are_judged_and_of_all_are_not(self):
        age = np.random.default_rng(3).integers(20, 60, 200)
        some = records(self.PAY, sex=self.SEX, age=age)
        for of in (("pay", "age"), ("pay", "pay")):
            whole, by_sex = rules_of([Sum(of), Sum(of, ("sex",))], some, USUAL_RULES)
            assert Rule.INFLUENCE not in whole
            assert Rule.INFLUENCE in by_sex

    def test_the_decision_does_not_depend_on_the_group_of_the_largest(self):
        for group in (0, 1):
            sex = np.append(self.SEX[:-1], group)
            assert rules_of([BY_SEX], records(self.PAY, sex=sex), USUAL_RULES) == [{Rule.INFLUENCE}]


class TestChains:
    """Sums of several cards by subtraction."""

    def test_a_population_that_differs_by_few_records(self):
        age = np.where(np.arange(60) < 3, np.nan, 30)
        some = records(pays(60), sex=np.arange(60) % 2, age=age)
        present = Sum(("pay",), ("sex",), ("age",))
        assert rules_of([BY_SEX], some) == rules_of([present], some) == [set()]
        for new, old in ((present, BY_SEX), (BY_SEX, present)):
            released = ReleasedNumbers(sums=(old,))
            assert rules_of([new], some, released=released) == [{Rule.DIFFERENCING}]
        assert rules_of([BY_SEX, present], some) == [{Rule.DIFFERENCING}] * 2
        other = ReleasedNumbers(sums=(replace(BY_SEX, of=("age",)),))
        assert rules_of([present], some, released=other) == [set()]

    def test_a_population_that_differs_by_many_is_none(self):
        age = np.where(np.arange(80) < 30, np.nan, 30)
        some = records(pays(80), sex=np.arange(80) % 2, age=age)
        present = Sum(("pay",), ("sex",), ("age",))
        assert rules_of([present], some, released=ReleasedNumbers(sums=(BY_SEX,))) == [set()]

    def test_all_less_the_groups_that_are_large(self):
        region = np.where(np.arange(60) < 4, 2, np.arange(60) % 2)
        sex = np.where(np.arange(60) < 4, np.arange(60) % 2, np.arange(60) % 3 == 0)
        age = np.where(region == 2, np.nan, 30)
        some = records(pays(60), sex=sex, region=region, age=age)
        by_region = Sum(("pay",), ("region",), ("age",))  # without the small region
        assert rules_of([by_region], some) == [set()]
        whole = ReleasedNumbers(sums=(OF_PAY,))
        assert rules_of([by_region], some, released=whole) == [{Rule.DIFFERENCING}]
        assert rules_of([Sum(("pay",), ("region",))], some) == [{Rule.THRESHOLD}]

    def test_sums_inside_others_tell_nothing_more(self):
        some = records(pays(60), sex=np.arange(60) % 2, region=np.arange(60) % 3)
        sums = [OF_PAY, BY_SEX, Sum(("pay",), ("sex", "region"))]
        assert rules_of(sums, some) == [set()] * 3
        assert rules_of([OF_PAY], some, released=ReleasedNumbers(sums=tuple(sums[1:]))) == [set()]

    def test_counts_of_one_value_are_sums(self):
        """All but five have 3, the one value of a level: the sum tells that of the five."""
        pay = [*([3] * 200), 500, 510, 520, 530, 540]
        some = records(np.asarray(pay))
        loose = replace(
            NO_INFLUENCE, checks=replace(NO_INFLUENCE.checks, dominance_percent=100, remainder_percent=0)
        )
        assert rules_of([OF_PAY], some, loose) == [set()]
        for released in (
            ReleasedNumbers(cliques=(("pay", "sex"),)),
            ReleasedNumbers(histograms=("pay",)),
        ):
            assert rules_of([OF_PAY], some, loose, released=released) == [{Rule.DIFFERENCING}]

    def test_means_of_runs_are_sums(self):
        some = records(pays(60), sex=np.arange(60) % 2)
        table = np.where(np.arange(60) < 4, -1, np.arange(60) % 2)
        released = ReleasedNumbers(means={"pay": [table]})
        assert rules_of([BY_SEX], some, released=released) == [{Rule.DIFFERENCING}]

    def test_persons_of_several_records_need_as_many_more(self):
        """Two populations that differ by 24 records differ by six persons of four."""
        age = np.where(np.arange(400) < 24, np.nan, 30)
        present = Sum(("pay",), (), ("age",))
        released = ReleasedNumbers(sums=(OF_PAY,))
        assert rules_of([present], records(pays(400), age=age), released=released) == [set()]
        persons = records(pays(400), age=age, persons=np.arange(400) // 4, most_records=4)
        assert rules_of([present], persons, released=released) == [{Rule.DIFFERENCING}]
