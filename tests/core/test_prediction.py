"""Predictions from synthetic records: against another program, by hand, and at the edges."""

from functools import partial

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression as Theirs
from sklearn.model_selection import train_test_split

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    DomainMismatchError,
    InvalidInputError,
    TooLargeError,
    UnknownAttributeError,
)
from gencard.measures.utility import prediction
from gencard.measures.utility.prediction import (
    Split,
    Task,
    accuracies,
    accuracy,
    forest_reference,
    forest_utility,
    importances,
    order_similarity,
    predictor_matrix,
    split,
    taught_forest,
    taught_regression,
)

DOMAIN = Domain.of({"signal": 4, "noise": 3, "age": 5, "health": 3})
AGES = (10.0, 20.0, 35.0, 80.0, np.nan)
TASK = Task("health", ("signal", "noise", "age"), {"age": AGES})
few_trees = partial(taught_forest, trees=20)


def drawn(records, seed):
    """Health follows the signal mostly, age a little, and the noise never."""
    rng = np.random.default_rng(seed)
    signal, noise, age = (rng.integers(size, size=records) for size in (4, 3, 5))
    lucky = rng.random(records)
    health = np.where(lucky < 0.7, np.minimum(signal, 2), np.where(lucky < 0.8, age == 2, 0))
    return Dataset.of_columns(DOMAIN, [signal, noise, age, health])


RECORDS = drawn(2_000, 1)


def one_hot(records, attributes):
    return np.hstack([np.eye(DOMAIN.size(name))[records.column(name)] for name in attributes])


class TestAnotherProgram:
    def test_regression_is_that_of_every_record(self):
        task = Task("health", ("signal", "noise"))
        ours = taught_regression(task, RECORDS)(RECORDS)
        matrix = one_hot(RECORDS, task.predictors)
        theirs = Theirs(max_iter=2_000, tol=1e-6).fit(matrix, RECORDS.column("health"))
        np.testing.assert_array_equal(ours, theirs.predict(matrix))

    def test_forest_is_that_of_every_record(self):
        task = Task("health", ("signal", "noise"))
        ours = few_trees(task, RECORDS)(RECORDS)
        matrix = one_hot(RECORDS, task.predictors)
        theirs = RandomForestClassifier(20, random_state=0, class_weight="balanced_subsample")
        theirs.fit(matrix, RECORDS.column("health"))
        np.testing.assert_array_equal(ours, theirs.predict(matrix))

    def test_split_is_theirs(self):
        classes = RECORDS.column("health")
        training, test = train_test_split(np.arange(len(RECORDS)), random_state=0, stratify=classes)
        ours = split(RECORDS, "health")
        np.testing.assert_array_equal(ours.training.codes, RECORDS.codes[training])
        np.testing.assert_array_equal(ours.test.codes, RECORDS.codes[test])


class TestSplit:
    def test_each_class_is_divided_alike(self):
        parts = split(RECORDS, "health")
        counts = np.bincount(RECORDS.column("health"))
        np.testing.assert_allclose(np.bincount(parts.test.column("health")), counts / 4, atol=1)
        assert len(parts.training) + len(parts.test) == len(RECORDS)

    def test_who_is_alone_is_trained_on(self):
        records = Dataset(Domain.of({"a": 3}), np.array([[0]] * 6 + [[1]] * 6 + [[2]]))
        parts = split(records, "a")
        assert 2 in parts.training.column("a")
        assert 2 not in parts.test.column("a")

    @pytest.mark.parametrize("codes", [[], [0], [0, 1], [0, 0, 1, 1], [0, 1, 2]])
    def test_too_few_to_be_split(self, codes):
        records = Dataset(Domain.of({"a": 3}), np.array(codes, dtype=int)[:, None])
        with pytest.raises(InvalidInputError, match="too few"):
            split(records, "a")


def test_matrix_by_hand():
    """One column for each level; a number and where it is missing, if it can be."""
    records = Dataset(DOMAIN, np.array([[3, 0, 1, 0], [0, 2, 4, 0]]))
    expected = [[0, 0, 0, 1, 20, 0], [1, 0, 0, 0, 0, 1]]
    np.testing.assert_array_equal(predictor_matrix(records, ("signal", "age"), {"age": AGES}), expected)
    full = predictor_matrix(records, ("age",), {"age": (1.0, 2.0, 3.0, 4.0, 5.0)})
    np.testing.assert_array_equal(full, [[2], [5]])


def test_many_levels_of_many_records_are_too_many():
    domain = Domain.of({"a": 60_001, "b": 2})
    records = Dataset(domain, np.column_stack([np.arange(1_000), np.arange(1_000) % 2]))
    with pytest.raises(TooLargeError, match="predictors"):
        taught_forest(Task("b", ("a",)), records)


@pytest.mark.parametrize("learner", [taught_regression, few_trees], ids=["regression", "forest"])
class TestLearners:
    def test_good_synthetic_records_teach_as_well_as_real_ones(self, learner):
        test = drawn(4_000, 2)
        mark = accuracy(learner(TASK, RECORDS), test, "health")
        parts = split(drawn(4_000, 3), "health")
        found = accuracies(learner(TASK, parts.training), "health", real=test, synthetic=parts.test)
        assert mark > 0.7
        assert found.on_real == pytest.approx(mark, abs=0.04)
        assert found.on_synthetic == pytest.approx(mark, abs=0.04)

    def test_records_without_the_signal_teach_nothing(self, learner):
        """On themselves they look better than they are."""
        flat = drawn(2_000, 4).codes.copy()
        flat[:, 0] = np.random.default_rng(5).integers(4, size=2_000)
        parts = split(Dataset(DOMAIN, flat), "health")
        found = accuracies(learner(TASK, parts.training), "health", real=RECORDS, synthetic=parts.test)
        assert found.on_real < 0.6

    def test_it_is_a_function_of_its_arguments(self, learner):
        one, other = (learner(TASK, RECORDS)(RECORDS) for _ in range(2))
        np.testing.assert_array_equal(one, other)

    def test_the_target_is_not_read(self, learner):
        hidden = RECORDS.codes.copy()
        hidden[:, 3] = 0
        taught = learner(TASK, RECORDS)
        predicted = taught(Dataset(DOMAIN, hidden))
        np.testing.assert_array_equal(predicted, taught(RECORDS))

    def test_one_class_is_learned_too(self, learner):
        same = RECORDS.codes.copy()
        same[:, 3] = 2
        predicted = learner(TASK, Dataset(DOMAIN, same))(RECORDS)
        assert set(predicted.tolist()) == {2}

    def test_edges(self, learner):
        with pytest.raises(InvalidInputError, match="at least one record to learn"):
            learner(TASK, RECORDS.take(np.arange(0)))
        with pytest.raises(UnknownAttributeError):
            learner(Task("health", ("nobody",)), RECORDS)
        with pytest.raises(InvalidInputError, match=r"values\.age"):
            learner(Task("health", ("age",), {"age": (1.0, 2.0)}), RECORDS)
        with pytest.raises(InvalidInputError, match=r"values\.age"):
            learner(Task("health", ("age",), {"age": (-1e200, 0.0, 1.0, 2.0, 1e200)}), RECORDS)
        constant = Task("health", ("age",), {"age": (7.0,) * 5})
        assert len(learner(constant, RECORDS)(RECORDS)) == len(RECORDS)

    @pytest.mark.parametrize("start", [0.0, 2.0**40, -1e99])
    def test_large_numbers_are_told_apart(self, learner, start):
        """By their distance: in four bytes there would be one number from 2 to the power of 40 up."""
        step = 1.0 if start >= 0 else 1e98
        records = Dataset(Domain.of({"a": 3, "b": 3}), np.repeat([[0, 0], [1, 1], [2, 2]], 20, axis=0))
        task = Task("b", ("a",), {"a": tuple(start + step * code for code in range(3))})
        np.testing.assert_array_equal(learner(task, records)(records), records.column("b"))

    def test_domains_must_agree_and_hold_records(self, learner):
        taught = learner(TASK, RECORDS)
        with pytest.raises(DomainMismatchError):
            accuracies(taught, "health", real=RECORDS, synthetic=RECORDS.project(("health",)))
        with pytest.raises(InvalidInputError, match="at least one record to predict"):
            accuracy(taught, RECORDS.take(np.arange(0)), "health")


class TestForest:
    def test_what_matters_is_important(self):
        rng = np.random.default_rng(6)
        reference = forest_reference(TASK, Split(RECORDS, drawn(1_000, 7)), rng=rng)
        signal, noise, age = reference.importances
        assert signal > 0.2
        assert abs(noise) < 0.05
        assert abs(age) < 0.05

    def test_synthetic_records_are_worth_what_they_teach(self):
        rng = np.random.default_rng(8)
        test = drawn(1_000, 7)
        reference = forest_reference(TASK, Split(RECORDS, test), rng=rng, trees=20)
        synthetic = split(drawn(2_000, 9), "health")
        found = forest_utility(TASK, synthetic, test, reference, rng=rng, trees=20)
        assert found.accuracies.on_real == pytest.approx(reference.accuracy, abs=0.04)
        assert found.similarity == 1

    def test_importance_by_brute_force(self):
        """Three records, each order of the permuted attribute as likely as any other."""
        domain = Domain.of({"a": 2, "b": 2})
        records = Dataset(domain, np.array([[0, 0], [1, 1], [1, 1]]))
        task = Task("b", ("a",))
        taught = taught_forest(task, Dataset(domain, np.array([[0, 0], [1, 1]] * 50)), trees=5)
        found = [importances(taught, records, task, rng=np.random.default_rng(s)) for s in range(60)]
        # The 0 lands on its own place in a third of the orders; else two of three are wrong.
        assert np.mean(found) == pytest.approx(2 / 3 * 2 / 3, abs=0.06)

    def test_orders_ascend_and_ties_keep_their_order(self):
        assert order_similarity(("a", "b", "c"), (0.1, 0.2, 0.3), (5.0, 6.0, 7.0)) == 1
        assert order_similarity(("a", "b", "c", "d"), (0, 0, 0, 1), (0, 0, 0, 9)) == 1


def test_tasks_need_predictors_besides_the_target():
    for predictors in ((), ("health",)):
        with pytest.raises(InvalidInputError, match="predictors"):
            Task("health", predictors)


def test_what_is_not_installed_is_said(monkeypatch):
    def absent(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(prediction, "import_module", absent)
    with pytest.raises(InvalidInputError, match=r"gencard\[utility\]"):
        taught_regression(TASK, RECORDS)
