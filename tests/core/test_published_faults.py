"""Published privacy faults of PATE-GAN implementations, kind by kind: this one has none of them.

The kinds are grouped after [1]_, whose authors name 19 faults of privacy in six implementations, and
after the code that they published with it. Names and grouping are not theirs. Each check below runs
on the code, where it must pass, and on the code with a fault of its kind, which it must find. Kinds that
other tests show are in the table alone.

===================================================  =============================================
kind                                                 test
===================================================  =============================================
domain, categories or ranges read from the records   here; PrivBayes: ``test_private_boxes``
numbers normalised by the records                    here
labels, or their shares, taken from the records      here
teachers share records; shards are drawn anew        here; one draw: ``test_pate_gan``
all teachers see one shard                           here
a teacher has a part in the vote of another          here; for one record: ``test_pate_gan``
teachers that see one class                          here
counts that are not numbers of teachers              here
noise on labels instead of votes; noise not used     here
noise of the inverse scale                           here; law of the sampler: ``test_s27_noise``
noise that a seed determines, or of floating point   ``test_s27_noise``
votes not counted: batches, steps, branches          here; in all: ``test_pate_gan``
moments, logarithms or sums of the accountant wrong  by brute force: ``test_pate_gan``
rho of the ledger wrong                              ``test_private_privacy``
epsilon, or the stop, computed from the votes        here; for neighbours: ``test_noise_replay``
a stop after the budget is exceeded                  here; without a fit: ``test_pate_gan``
delta ignored, fixed, or computed from the records   here
too few orders of moments                            none: the law is exact, without moments
the student is trained on records                    here
the generator is trained by the teachers             here
PrivBayes: scale, number and sum of its draws        ``test_private_boxes``, ``test_noise_replay``
PrivBayes: more is spent than there is               ``test_mst_and_aim``
PrivBayes: sensitivity of its scores too small       ``test_parents``
===================================================  =============================================

References:
    .. [1] G. Ganev, M. Annamalai, E. De Cristofaro, "The Elusive Pursuit of Reproducing PATE-GAN:
       Benchmarking, Auditing, Debugging", arXiv 2406.13985, 2024.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from gencard.boxes import net_options, pate_gan
from gencard.boxes.entry import Surroundings
from gencard.boxes.net_options import PateGanOptions, Shards, scale_of, votes_of
from gencard.boxes.nets import Layout, declared
from gencard.boxes.pate_gan import ENTRY, PateGan
from gencard.boxes.registry import box_named, complete
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain

torch = pytest.importorskip("torch", reason="the extra deep is not installed")
training = pytest.importorskip("gencard.boxes.net_training")

RECORDS, TEACHERS, BATCH, ITERATIONS = 23, 5, 6, 4
DOMAIN = Domain.of({"who": RECORDS, "kind": 4, "size": 5})
VALUES = {"size": (0.0, 1.0, 4.0, 50.0, float("nan"))}
TINY = {
    "epsilon": "100",
    "teachers": str(TEACHERS),
    "iterations": str(ITERATIONS),
    "batch_size": str(BATCH),
    "teacher_steps": "8",
    "embedding": "4",
    "generator": "8",
    "teacher": "6",
    "student": "4",
    "critic_rate": "0.05",
}


def spread(count: int = RECORDS) -> Dataset:
    """Records of many levels; "who" names each of the first 23."""
    rng = np.random.default_rng(3)
    codes = np.stack([rng.integers(size, size=count) for size in DOMAIN.sizes], axis=1)
    codes[:, 0] = np.arange(count) % RECORDS
    return Dataset(DOMAIN, codes)


def alike(level: int) -> Dataset:
    """Records in one cell, 23 of them; a level of 4 stands for a missing size."""
    return Dataset(DOMAIN, np.tile([level, level % 4, level], (RECORDS, 1)))


@dataclass
class Answers:
    """Noisy votes that do not depend on the votes; keeps each question."""

    of: Callable[[np.random.Generator, tuple[int, ...]], Any] = lambda rng, shape: rng.integers(
        TEACHERS + 1, size=shape
    )
    calls: list[tuple[np.ndarray, float, np.ndarray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(9)

    def laplace(self, counts, scale):
        answers = np.asarray(self.of(self.rng, counts.shape))
        self.calls.append((np.array(counts), scale, answers))
        return answers


@dataclass
class Transcript:
    """Messages between the parts of one fit; rows are dense.

    Args:
        teacher_steps: Rows and labels of each step of the teachers.
        student_steps: Rows and labels of each step of the student.
        ballots: Rows, and the number of teachers for "real" by brute force, for each batch of votes.
        noise: The answers, with the counts and scales that were handed to them.
        saved: The fit.
        shares: Progress.
    """

    noise: Answers
    teacher_steps: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    student_steps: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    ballots: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    saved: bytes = b""

    @property
    def counts(self) -> np.ndarray:
        """All counts that got noise."""
        return np.concatenate([counts for counts, _, _ in self.noise.calls])

    @property
    def public(self) -> dict[str, object]:
        """Parts that may depend on the records through noisy votes alone."""
        return {
            "calls": [(counts.shape, scale) for counts, scale, _ in self.noise.calls],
            "progress": self.shares,
            "student": [(rows.tobytes(), labels.tobytes()) for rows, labels in self.student_steps],
            "made-up rows": [rows[:, labels == 0].tobytes() for rows, labels in self.teacher_steps],
            "fit": self.saved,
        }


def ballot(critics: Any, rows: np.ndarray) -> np.ndarray:
    """Votes for "real", each net on its own, in numpy."""
    first, first_bias, last, last_bias = (each.detach().numpy() for each in critics.parameters)
    votes = np.zeros(len(rows), dtype=np.int64)
    for net in range(len(first)):
        hidden = np.maximum(rows @ first[net] + first_bias[net], 0)
        votes += (hidden @ last[net] + last_bias[net])[:, 0] > 0
    return votes


def fitted(dataset: Dataset, answers: Answers | None = None, **parameters: str) -> Transcript:
    """The transcript of one fit, always with the same seed."""
    seen = Transcript(answers or Answers())
    learn, votes = training.Critics.learn, training.Critics.votes

    def watched_learn(critics, rows, labels):
        is_teachers = len(critics.parameters[0]) > 1
        steps = seen.teacher_steps if is_teachers else seen.student_steps
        steps.append((rows.numpy().copy(), labels.numpy().copy()))
        learn(critics, rows, labels)

    def watched_votes(critics, rows):
        seen.ballots.append((rows.numpy().copy(), ballot(critics, rows.numpy())))
        return votes(critics, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training.Critics, "learn", watched_learn)
        patch.setattr(training.Critics, "votes", watched_votes)
        box = box_named("pate-gan", {**TINY, **parameters}, Surroundings((), VALUES, seen.noise))
        fit = box.fit(dataset, seed=5, progress=lambda _, share: seen.shares.append(share))
        seen.saved = fit.save()
    return seen


def shards_seen(seen: Transcript) -> list[set[int]]:
    """The names of the records that each teacher saw in the whole fit."""
    names: list[set[int]] = [set() for _ in range(TEACHERS)]
    for rows, labels in seen.teacher_steps:
        who = rows[:, labels == 1, 1 : 1 + RECORDS]  # the number comes first, then the nominal entries
        for teacher, own in enumerate(who.argmax(axis=2)):
            names[teacher] |= set(own.tolist())
    return names


def claimed_votes(**parameters: str) -> int:
    """The number of votes that the claim speaks of."""
    claim = ENTRY.claim(complete(ENTRY, {**TINY, **parameters}))
    return int(claim.sentence.split()[1])


def delta_by_others(votes: int, scale: float, epsilon: float) -> float:
    """The delta of so many votes, by Google's privacy loss distributions."""
    one = privacy_loss_distribution.from_discrete_laplace_mechanism(
        1 / scale, sensitivity=1, value_discretization_interval=1 / scale / 1024
    )
    return float(one.self_compose(votes).get_delta_for_epsilon(epsilon))


def check_shards() -> None:
    """Check that every record is in front of one teacher, the same one throughout the fit."""
    names = shards_seen(fitted(spread()))
    assert all(not one & other for one, other in combinations(names, 2))
    assert set().union(*names) == set(range(RECORDS))
    assert {len(own) for own in names} == {RECORDS // TEACHERS, RECORDS // TEACHERS + 1}


def check_one_shard_is_one_vote() -> None:
    """Check that other records in a whole shard move each count by one at most."""
    before = fitted(spread())
    (first, *_) = shards_seen(before)
    codes = np.array(spread().codes)
    codes[sorted(first)] = (codes[sorted(first)] + 1) % np.array(DOMAIN.sizes)
    moved = np.abs(fitted(Dataset(DOMAIN, codes)).counts - before.counts)
    assert moved.max() <= 1
    assert moved.any(), "the records of the shard move no vote, so this shows nothing"


def check_two_classes() -> None:
    """Check that a teacher learns from as many records as made-up rows, with labels without noise."""
    for rows, labels in fitted(spread()).teacher_steps:
        assert rows.ndim == 3
        assert sorted(labels.tolist()) == [0.0] * (len(labels) // 2) + [1.0] * (len(labels) // 2)


def check_votes_get_the_noise() -> None:
    """Check that noise falls on numbers of teachers, and that labels follow from its answers alone."""
    seen = fitted(spread())
    steps = iter(seen.student_steps)
    for (rows, votes), (counts, _, answers) in zip(seen.ballots, seen.noise.calls, strict=True):
        assert counts.dtype == np.int64
        np.testing.assert_array_equal(counts, votes)
        labels = np.where(2 * answers > TEACHERS, 1.0, 0.0)
        for _ in range(int(ENTRY.parameters["student_steps"])):
            seen_rows, seen_labels = next(steps)
            np.testing.assert_array_equal(seen_rows, rows)
            np.testing.assert_array_equal(seen_labels, labels)
    assert not list(steps)


def check_every_vote_is_counted() -> None:
    """Check that as many rows are voted on, and as many counts get noise, as the claim says."""
    for level in (0, TEACHERS // 2, TEACHERS, 10 * TEACHERS):
        seen = fitted(spread(), Answers(lambda _, shape, level=level: np.full(shape, level)))
        assert sum(len(rows) for rows, _ in seen.ballots) == claimed_votes()
        assert len(seen.counts) == claimed_votes()


def check_the_stop() -> None:
    """Check that a fit stops before the batch of votes that would exceed the budget."""
    parameters = {"noise": "20", "epsilon": "1", "iterations": "50"}
    seen = fitted(spread(), **parameters)
    (scale,) = {scale for _, scale, _ in seen.noise.calls}
    delta, votes = float(ENTRY.parameters["delta"]), len(seen.counts)
    assert delta_by_others(votes, scale, 1.0) <= delta < delta_by_others(votes + BATCH, scale, 1.0)
    assert len(seen.noise.calls) < 50


def check_delta() -> None:
    """Check that the noise keeps the delta of the card, and is hardly more than that takes."""
    for delta in ("0.000000001", "0.001", "0.1"):
        seen = fitted(spread(), epsilon="1", delta=delta)
        (scale,) = {scale for _, scale, _ in seen.noise.calls}
        spent = delta_by_others(len(seen.counts), scale, 1.0)
        assert 0.9 * float(delta) <= spent <= 1.001 * float(delta)


def check_records_matter_through_votes() -> None:
    """Check that other records and the same answers give the same steps of the student and the same fit.

    The other records have one level alone, one end of a range alone, or no number at all.
    """
    public = fitted(spread()).public
    for level in (0, 3, 4):
        for part, value in fitted(alike(level)).public.items():
            assert value == public[part], f"the records reach the {part} beside the votes"


def check_number_of_records() -> None:
    """Check that scale and number of draws do not depend on how many records there are."""
    draws = [
        [(counts.shape, scale) for counts, scale, _ in fitted(spread(count)).noise.calls]
        for count in (TEACHERS, RECORDS, 400)
    ]
    assert draws[0] == draws[1] == draws[2]


TRAINING = training._PateTraining
Fault = Callable[[pytest.MonkeyPatch], None]


def method(name: str, owner: Any = TRAINING) -> Callable[[Callable[..., Any]], Fault]:
    """A fault that replaces a method; the replacement gets the right one first."""

    def fault_of(wrong: Callable[..., Any]) -> Fault:
        right = getattr(owner, name)
        return lambda patch: patch.setattr(owner, name, lambda *given: wrong(right, *given))

    return fault_of


@method("drawn", Shards)
def all_records_for_all(_right, shards, batch, rng):
    return rng.integers(len(shards.order), size=(len(shards.sizes), batch))


@method("drawn", Shards)
def one_shard_for_all(right, shards, batch, rng):
    return np.tile(right(shards, batch, rng)[-1], (len(shards.sizes), 1))


@method("drawn", Shards)
def shards_drawn_anew(right, shards, batch, rng):
    return right(replace(shards, order=rng.permutation(shards.order)), batch, rng)


@method("logits", training.Critics)
def teachers_see_each_other(right, critics, rows):
    logits = right(critics, rows)
    return logits - logits.mean(dim=0) if len(logits) > 1 else logits


@method("teach")
def records_alone(_right, own):
    positions = own._shards.drawn(BATCH, own._rng)
    dense = own._rows.dense(positions.ravel(), own._layout.width)
    own._teachers.learn(torch.from_numpy(dense.reshape(TEACHERS, BATCH, -1)), torch.ones(BATCH))


@method("votes", training.Critics)
def votes_by_weight(right, critics, rows):
    return 3 * right(critics, rows)


def study_with(noisy_of: Callable[..., Any], *, anew: bool = False) -> Fault:
    """A student whose labels come from something else than noisy votes."""

    @method("study")
    def study(_right, own, noise):
        rows = own._made_up(BATCH)
        for step in range(own._options.student_steps):
            if anew or not step:
                noisy = noisy_of(own._teachers.votes(rows), own._options.noise, noise)
            labels = (np.sign(2 * noisy - TEACHERS) + 1) / 2
            own._student.learn(rows, torch.from_numpy(labels.astype(np.float32)))

    return study


def noise_on_labels(votes, scale, noise):
    return TEACHERS * noise.laplace((2 * votes > TEACHERS).astype(np.int64), scale)


def noise_not_used(votes, scale, noise):
    noise.laplace(votes, scale)
    return votes


@method("study")
def free_branch(right, own, noise):
    """A batch whose labels are all "real" does not count, and another one is voted on."""
    right(own, noise)
    if (noise.calls[-1][2] > TEACHERS / 2).all():
        right(own, noise)


@method("study")
def agreement_is_free(right, own, noise):
    """An account that reads the votes: where all teachers agree, a batch seems to cost nothing."""
    right(own, noise)
    votes = noise.calls[-1][0]
    if np.isin(votes, (0, TEACHERS)).all():
        right(own, noise)


@method("study")
def student_of_records(right, own, noise):
    right(own, noise)
    real = torch.from_numpy(own._rows.dense(np.arange(BATCH), own._layout.width))
    own._student.learn(real, torch.ones(BATCH))


@method("step_generator")
def generator_of_teachers(right, own):
    own._student, student = own._teachers, own._student
    right(own)
    own._student = student


@method("fitted")
def labels_of_records(right, own):
    seen = own._rows.entries[:, 0] - own._layout.starts[0]
    return replace(right(own), conditions=np.bincount(seen, minlength=RECORDS) / len(seen))


@method("encoded", Layout)
def ranges_of_records(right, layout, dataset, rng):
    for axis, modes in layout.modes.items():
        inside = np.append(modes.numbers[dataset.codes[:, axis]], 1.0)
        layout.modes[axis] = replace(declared(inside), numbers=modes.numbers)
    return right(layout, dataset, rng)


def _fit_of(change: Callable[[PateGan, Dataset], tuple[PateGan, Dataset]]) -> Fault:
    """A fit by a box, or of a dataset, that was made from the records."""
    right = PateGan.fit

    def fit(box, dataset, *, seed, progress):
        changed, other = change(box, dataset)
        return right(changed, other, seed=seed, progress=progress)

    return lambda patch: patch.setattr(PateGan, "fit", fit)


def levels_of_records(box, dataset):
    sizes = (int(dataset.codes[:, 0].max()) + 1, *DOMAIN.sizes[1:])
    return box, Dataset(Domain(DOMAIN.attributes, sizes), dataset.codes)


def delta_of_records(box, dataset):
    options = box.options
    delta = len(dataset) ** -1.5
    scale = scale_of(ITERATIONS * BATCH, float(options.epsilon), delta)
    return replace(box, options=replace(options, noise=scale)), dataset


def one_iteration_more(patch: pytest.MonkeyPatch) -> None:
    right = PateGanOptions.affordable.fget
    patch.setattr(PateGanOptions, "affordable", property(lambda options: right(options) + 1))


def account_of(scale: Callable[..., float], votes: Callable[..., int]) -> Fault:
    """Another accountant, which both sizes the noise and says when to stop."""

    def fault(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(pate_gan, "scale_of", scale)
        patch.setattr(net_options, "votes_of", votes)

    return fault


delta_is_fixed = account_of(
    lambda votes, epsilon, _: scale_of(votes, epsilon, 1e-5),
    lambda scale, epsilon, _, most: votes_of(scale, epsilon, 1e-5, most=most),
)

batches_count_as_votes = account_of(
    lambda votes, epsilon, delta: scale_of(votes // BATCH, epsilon, delta),
    lambda scale, epsilon, delta, most: BATCH * votes_of(scale, epsilon, delta, most=most // BATCH),
)


KINDS: dict[str, tuple[Callable[[], None], Fault]] = {
    "levels read from the records": (check_records_matter_through_votes, _fit_of(levels_of_records)),
    "numbers normalised by the records": (check_records_matter_through_votes, ranges_of_records),
    "labels taken from the records": (check_records_matter_through_votes, labels_of_records),
    "teachers see all records": (check_shards, all_records_for_all),
    "shards drawn anew": (check_shards, shards_drawn_anew),
    "all teachers see one shard": (check_shards, one_shard_for_all),
    "one shard moves all votes": (check_one_shard_is_one_vote, one_shard_for_all),
    "a teacher has a part in other votes": (check_one_shard_is_one_vote, teachers_see_each_other),
    "teachers see one class": (check_two_classes, records_alone),
    "counts are not numbers of teachers": (check_votes_get_the_noise, votes_by_weight),
    "noise on labels": (check_votes_get_the_noise, study_with(noise_on_labels)),
    "noise is not used": (check_votes_get_the_noise, study_with(noise_not_used)),
    "noise of the inverse scale": (
        check_delta,
        study_with(lambda votes, scale, noise: noise.laplace(votes, 1 / scale)),
    ),
    "a batch counts as one vote": (check_delta, batches_count_as_votes),
    "each step of the student votes": (
        check_every_vote_is_counted,
        study_with(lambda votes, scale, noise: noise.laplace(votes, scale), anew=True),
    ),
    "a branch is not counted": (check_every_vote_is_counted, free_branch),
    "the account reads the votes": (check_records_matter_through_votes, agreement_is_free),
    "the stop is too late": (check_the_stop, one_iteration_more),
    "delta is fixed": (check_delta, delta_is_fixed),
    "delta follows from the records": (check_number_of_records, _fit_of(delta_of_records)),
    "the student sees records": (check_records_matter_through_votes, student_of_records),
    "teachers train the generator": (check_records_matter_through_votes, generator_of_teachers),
}


@pytest.mark.parametrize("check", dict.fromkeys(check for check, _ in KINDS.values()))
def test_there_is_no_such_fault(check):
    check()


@pytest.mark.parametrize("kind", KINDS)
def test_the_check_finds_the_fault(kind, monkeypatch):
    check, fault = KINDS[kind]
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        check()
