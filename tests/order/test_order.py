"""Orders, their split over ranks, and the rows behind the samples."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.shuffle import main as benchmark_main
from benchmarks.shuffle import measure, shuffle_buffer
from roboreel.errors import RowNotFoundError
from roboreel.order.anchors import Anchors
from roboreel.order.order import (
    Local,
    LocalOrder,
    Order,
    Sequential,
    Uniform,
    Weighted,
    spread_task_weights,
)
from roboreel.order.permutation import make_key, permute, scramble, unpermute
from roboreel.order.split import Split


def epoch_of(order: Order, epoch: int = 0) -> np.ndarray:
    return order.samples(epoch, np.arange(order.num_samples))


def many_keys(count: int) -> np.ndarray:
    return scramble(make_key(2024), np.arange(count, dtype=np.uint64))


def surprise(counts: np.ndarray) -> float:
    """Chi-square of counts that should all be equal, in standard deviations from what is usual."""
    expected = counts.sum() / len(counts)
    freedom = len(counts) - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom))


# Permutations


def test_every_size_up_to_300_is_permuted_and_taken_back():
    for size in range(1, 301):
        numbers = permute(np.arange(size), size, make_key(size))
        assert np.array_equal(np.sort(numbers), np.arange(size))
        assert np.array_equal(unpermute(numbers, size, make_key(size)), np.arange(size))


@settings(deadline=None)
@given(st.integers(1, 2**62), st.integers(0, 2**64 - 1), st.data())
def test_places_of_a_huge_permutation_are_found_again(size, seed, data):
    places = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, unique=True)))
    numbers = permute(places, size, make_key(seed))
    assert ((numbers >= 0) & (numbers < size)).all()
    assert len(np.unique(numbers)) == len(places)
    assert np.array_equal(unpermute(numbers, size, make_key(seed)), places)


def test_a_key_for_each_place_gives_what_each_key_gives_alone():
    keys = many_keys(50)
    places = np.arange(50) % 17
    alone = [permute(places[i : i + 1], 17, keys[i : i + 1])[0] for i in range(50)]
    assert permute(places, 17, keys).tolist() == alone


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_all_permutations_of_a_few_numbers_are_equally_frequent(size):
    keys = many_keys(12_000)
    rows = np.stack([permute(np.full(len(keys), place), size, keys) for place in range(size)])
    codes = (rows * size ** np.arange(size)[:, None]).sum(axis=0)
    found, counts = np.unique(codes, return_counts=True)
    assert len(found) == len(list(itertools.permutations(range(size))))
    assert abs(surprise(counts)) < 4


@pytest.mark.parametrize("size", [7, 12, 33, 65, 100, 300, 1025])
def test_each_number_is_equally_likely_at_each_place_and_beside_each_other(size):
    keys = many_keys(20 * size + 4000)
    first, second, middle = (
        permute(np.full(len(keys), place), size, keys) for place in (0, 1, size // 2)
    )
    for numbers in (first, second, middle):
        assert abs(surprise(np.bincount(numbers, minlength=size))) < 4
    for numbers in (second, middle):
        gaps = np.bincount((numbers - first) % size, minlength=size)
        assert gaps[0] == 0
        assert abs(surprise(gaps[1:])) < 4


# Orders


def test_the_orders_never_change():
    """A change here breaks the resuming of every run that was started before."""
    positions = np.arange(8)
    uniform = Uniform(1000, seed=7).samples(3, positions)
    assert uniform.tolist() == [538, 75, 740, 323, 546, 186, 680, 194]
    huge = Uniform(10**11, seed=2**70 - 1).samples(0, positions[:3])
    assert huge.tolist() == [28875150912, 94034523299, 2479591597]
    local = LocalOrder(1000, Local(block=8, buffer=4), seed=7).samples(3, positions)
    assert local.tolist() == [656, 658, 902, 897, 614, 663, 661, 657]
    weighted = Weighted(np.array([100, 900]), np.array([3.0, 1.0]), 50, seed=7)
    assert weighted.samples(3, positions).tolist() == [72, 225, 61, 22, 98, 89, 36, 84]


def test_the_sequential_order_is_the_numbering():
    assert epoch_of(Sequential(5), epoch=3).tolist() == [0, 1, 2, 3, 4]


@settings(deadline=None)
@given(st.integers(0, 400), st.integers(-5, 2**65), st.integers(0, 1000))
def test_uniform_visits_every_sample_once(num_samples, seed, epoch):
    samples = epoch_of(Uniform(num_samples, seed), epoch)
    assert np.array_equal(np.sort(samples), np.arange(num_samples))


@settings(deadline=None)
@given(
    st.integers(0, 400),
    st.integers(1, 50),
    st.integers(1, 20),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_local_visits_every_sample_once(num_samples, block, buffer, seed, epoch):
    samples = epoch_of(LocalOrder(num_samples, Local(block, buffer), seed), epoch)
    assert np.array_equal(np.sort(samples), np.arange(num_samples))


@settings(deadline=None)
@given(st.integers(1, 400), st.integers(1, 50), st.integers(1, 20), st.integers(0, 9))
def test_local_has_no_more_blocks_at_once_than_the_buffer_holds(num_samples, block, buffer, seed):
    blocks = epoch_of(LocalOrder(num_samples, Local(block, buffer), seed)) // block
    _, first = np.unique(blocks, return_index=True)
    last = len(blocks) - 1 - np.unique(blocks[::-1], return_index=True)[1]
    position = np.arange(len(blocks))[:, None]
    assert ((first <= position) & (position <= last)).sum(axis=1).max() <= buffer


def test_local_mixes_a_pool_as_uniform_mixes_an_epoch():
    samples = epoch_of(LocalOrder(512 * 200, Local(block=32, buffer=16))).reshape(200, 512)
    same_block = (samples[:, 1:] // 32 == samples[:, :-1] // 32).mean()
    assert same_block == pytest.approx(31 / 511, rel=0.05)


def test_local_orders_the_blocks_anew_in_every_epoch():
    order = LocalOrder(32 * 512, Local(block=32, buffer=8))
    pools = [
        {frozenset(part // 32) for part in epoch_of(order, e).reshape(-1, 256)} for e in (0, 1)
    ]
    assert not pools[0] & pools[1]


@pytest.mark.parametrize(
    "order", [Uniform(5000), LocalOrder(5000), LocalOrder(5000, Local(block=64, buffer=5), seed=1)]
)
def test_epochs_and_seeds_differ_everywhere(order):
    base = epoch_of(order)
    others = [
        epoch_of(order, 1),
        epoch_of(order, 2),
        epoch_of(Uniform(5000, seed=99)),
        epoch_of(LocalOrder(5000, seed=99)),
    ]
    for other in others:
        assert (base == other).mean() < 0.002


def test_uniform_leaves_no_trace_of_the_numbering():
    samples = epoch_of(Uniform(100_000, seed=5))
    displacement = (samples - np.arange(100_000)) % 100_000
    assert abs(surprise(np.bincount(displacement // 1000))) < 4
    steps = np.diff(samples) % 100_000
    assert abs(surprise(np.bincount(steps // 1000))) < 4
    # Runs up and down, as in any random order: two thirds of all samples are a peak or a valley.
    turns = (np.diff(samples)[1:] > 0) != (np.diff(samples)[:-1] > 0)
    assert turns.mean() == pytest.approx(2 / 3, abs=0.01)


@pytest.mark.parametrize(
    "order",
    [
        Sequential(1000),
        Uniform(1000, 3),
        LocalOrder(1000, Local(7, 5), 3),
        Weighted(np.array([300, 10]), np.array([1.0, 2.0]), 1000),
    ],
)
def test_positions_may_be_asked_for_in_any_portions(order):
    whole = epoch_of(order, 4)
    shuffled = np.random.default_rng(0).integers(0, 1000, 500)
    assert np.array_equal(order.samples(4, shuffled), whole[shuffled])
    assert order.samples(4, np.array([], np.int64)).tolist() == []
    copy = pickle.loads(pickle.dumps(order))
    assert np.array_equal(epoch_of(copy, 4), whole)


@pytest.mark.parametrize("order", [Sequential(10), Uniform(10), LocalOrder(10)])
@pytest.mark.parametrize("position", [-1, 10])
def test_a_position_outside_the_epoch_is_named(order, position):
    with pytest.raises(RowNotFoundError, match=f"Position {position} .* has 10"):
        order.samples(0, np.array([3, position]))


def test_sizes_that_make_no_order_are_refused():
    with pytest.raises(ValueError, match="num_samples"):
        Uniform(-1)
    with pytest.raises(ValueError, match="block must be 1 or more"):
        Local(block=0)
    with pytest.raises(ValueError, match="buffer must be 1 or more"):
        Local(buffer=-1)
    with pytest.raises(ValueError, match="num_samples must be 0 or more"):
        LocalOrder(-1)


# Weights

GROUPS = st.lists(
    st.tuples(st.integers(1, 50), st.floats(0.01, 10) | st.just(0.0)), min_size=1, max_size=20
).filter(lambda groups: any(weight > 0 for _, weight in groups))


@settings(deadline=None)
@given(GROUPS, st.integers(1, 3000), st.integers(0, 5))
def test_every_group_and_sample_is_drawn_as_often_as_its_weight_says(groups, draws, epoch):
    lengths = np.array([length for length, _ in groups])
    weights = np.array([weight for _, weight in groups])
    samples = epoch_of(Weighted(lengths, weights, draws), epoch)
    drawn = np.bincount(samples, minlength=lengths.sum())
    expected = np.repeat(weights / weights.sum() * draws / lengths, lengths)
    assert len(drawn) == lengths.sum()
    assert (abs(drawn - expected) < 2 + 1e-6).all()
    per_group = np.add.reduceat(drawn, np.cumsum(lengths) - lengths)
    assert (abs(per_group - weights / weights.sum() * draws) < 2 + 1e-6).all()
    assert (per_group[weights == 0] == 0).all()


def test_draws_of_one_group_do_not_come_in_a_row():
    samples = epoch_of(Weighted(np.array([500, 500]), np.array([1.0, 1.0]), 20_000))
    same = (samples[1:] // 500 == samples[:-1] // 500).mean()
    assert same == pytest.approx(0.5, abs=0.02)


def test_epochs_draw_other_samples():
    order = Weighted(np.full(100, 1000), np.ones(100), 1000)
    assert len(set(epoch_of(order, 0)) & set(epoch_of(order, 1))) < 40


@pytest.mark.parametrize(
    ("lengths", "weights", "message"),
    [
        ([3, 4], [1.0], "2 groups"),
        ([3], [-1.0], "not negative"),
        ([3], [float("nan")], "finite"),
        ([3, 3], [0.0, 0.0], "not all zero"),
        ([3, 0], [1.0, 1.0], "Group 1 has a weight and no samples"),
        ([], [], "not all zero"),
    ],
)
def test_weights_that_make_no_sense_are_refused(lengths, weights, message):
    with pytest.raises(ValueError, match=message):
        Weighted(np.array(lengths, np.int64), np.array(weights), 10)


def test_a_task_s_share_is_spread_over_its_samples():
    weights = spread_task_weights(
        np.array([3.0, 1.0, 0.0]), np.array([0, 1, 0, 2]), np.array([10, 99, 20, 5])
    )
    assert weights.tolist() == [1.0, 1.0, 2.0, 0.0]


def test_a_task_with_a_weight_needs_samples():
    with pytest.raises(ValueError, match="Task 1 has a weight and no samples"):
        spread_task_weights(np.ones(2), np.array([0, 0]), np.array([5, 5]))


# Ranks

SPLITS = st.tuples(st.integers(1, 20), st.integers(1, 8), st.booleans())


def ranks_of(num_samples: int, batch_size: int, world_size: int, *, drop_last: bool) -> list[Split]:
    return [
        Split(num_samples, batch_size, rank, world_size, drop_last) for rank in range(world_size)
    ]


@settings(deadline=None)
@given(st.integers(0, 500), SPLITS, st.data())
def test_the_ranks_partition_what_is_left_of_an_epoch(num_samples, split, data):
    batch_size, world_size, drop_last = split
    consumed = data.draw(st.integers(0, num_samples))
    ranks = ranks_of(num_samples, batch_size, world_size, drop_last=drop_last)
    steps = ranks[0].num_batches(consumed)
    taken = [rank.positions(step, consumed).tolist() for step in range(steps) for rank in ranks]
    left = num_samples - consumed
    dropped = left % (batch_size * world_size) if drop_last else 0
    assert list(itertools.chain(*taken)) == list(range(consumed, num_samples - dropped))
    sizes = [len(batch) for batch in taken]
    assert max(sizes, default=0) <= batch_size
    for step in range(steps):
        of_step = sizes[step * world_size : (step + 1) * world_size]
        assert max(of_step) - min(of_step) <= 1
    if drop_last:
        assert set(sizes) <= {batch_size}
    elif batch_size > 1 and left >= world_size:
        assert min(sizes) >= 1
    # Only the last two steps are smaller.
    assert set(sizes[: max(steps - 2, 0) * world_size]) <= {batch_size}


@settings(deadline=None)
@given(st.integers(0, 500), SPLITS, st.data())
def test_resuming_after_any_batch_goes_on_as_if_nothing_had_happened(num_samples, split, data):
    batch_size, world_size, drop_last = split
    rank = data.draw(st.integers(0, world_size - 1))
    one = Split(num_samples, batch_size, rank, world_size, drop_last)
    consumed = 0
    for batch in range(one.num_batches()):
        assert one.num_batches(consumed) == one.num_batches() - batch
        assert np.array_equal(one.positions(0, consumed), one.positions(batch))
        consumed = one.span(0, consumed)[1]
    assert one.num_batches(consumed) == 0


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 300), st.lists(SPLITS, min_size=1, max_size=5), st.integers(0, 3))
def test_the_world_size_may_change_in_mid_epoch(num_samples, splits, steps_each):
    order = LocalOrder(num_samples, Local(block=5, buffer=3))
    seen: list[int] = []
    consumed = 0
    for batch_size, world_size, _ in splits:
        ranks = ranks_of(num_samples, batch_size, world_size, drop_last=False)
        for _ in range(min(steps_each, ranks[0].num_batches(consumed))):
            seen += [int(p) for rank in ranks for p in rank.positions(0, consumed)]
            consumed = ranks[0].span(0, consumed)[1]
    rest = Split(num_samples, 7)
    for batch in range(rest.num_batches(consumed)):
        seen += rest.positions(batch, consumed).tolist()
    assert seen == list(range(num_samples))
    assert sorted(order.samples(0, np.array(seen)).tolist()) == seen


def test_a_split_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="Rank 2 does not exist: there are 2 ranks, 0 to 1"):
        Split(10, 2, rank=2, world_size=2)
    with pytest.raises(ValueError, match="batch_size must be 1 or more; it is 0"):
        Split(10, 0)
    with pytest.raises(TypeError, match=r"batch_size is 2\.5: give a whole number"):
        Split(10, 2.5)  # type: ignore[arg-type]  # that is the test
    with pytest.raises(ValueError, match="11 samples cannot be consumed of an epoch of 10"):
        Split(10, 2).num_batches(11)
    with pytest.raises(IndexError, match="Batch 5 does not exist: 5 are left"):
        Split(10, 2).positions(5)


# Anchors


@settings(deadline=None)
@given(st.lists(st.integers(0, 12), max_size=12), st.integers(0, 5), st.integers(0, 2**32))
def test_samples_are_those_of_the_episodes_without_their_last_frames(lengths, dropped, seed):
    gaps = np.random.default_rng(seed).integers(0, 9, len(lengths))
    length = np.array(lengths, np.int64)
    start = np.cumsum(gaps + length) - length
    anchors = Anchors(start, length, dropped)
    wanted = [
        (episode, first + frame)
        for episode, (first, count) in enumerate(zip(start.tolist(), lengths, strict=True))
        for frame in range(count - dropped)
    ]
    samples = np.arange(anchors.num_samples)
    episodes, numbers = anchors.episodes(samples), anchors.source_samples(samples)
    assert list(zip(episodes.tolist(), numbers.tolist(), strict=True)) == wanted
    assert anchors.samples_per_episode.sum() == anchors.num_samples


@pytest.mark.parametrize("sample", [-1, 5])
def test_a_sample_outside_is_named(sample):
    anchors = Anchors(np.array([0]), np.array([7]), drop_n_last_frames=2)
    with pytest.raises(RowNotFoundError, match=f"Sample {sample} does not exist: there are 5"):
        anchors.source_samples(np.array([0, sample]))


def test_frames_to_drop_are_counted():
    with pytest.raises(ValueError, match="-1"):
        Anchors(np.array([0]), np.array([7]), drop_n_last_frames=-1)


# What docs/shuffling.md says


def test_a_shuffle_buffer_gives_out_every_sample_once():
    given_out = shuffle_buffer(np.arange(1000), 64)
    assert np.array_equal(np.sort(given_out), np.arange(1000))
    assert not np.array_equal(given_out, np.arange(1000))


def test_randomness_is_measured_per_batch_of_64():
    in_order = measure(np.arange(64 * 100), frames=50)
    assert set(in_order.distance) == {1.0}
    assert in_order.episodes[1] == 2
    random = measure(epoch_of(Uniform(200 * 500)), frames=500)
    assert random.episodes[1] == pytest.approx(200 * (1 - (1 - 1 / 200) ** 64), abs=1)
    assert random.distance[1] == pytest.approx(100_000 * (1 - np.sqrt(0.5)), rel=0.02)


def test_the_benchmark_prints_its_table(capsys):
    assert benchmark_main(["--quick"]) == 0
    printed = capsys.readouterr().out
    assert "| uniform |" in printed
    assert "| shuffle buffer, 512 |" in printed
