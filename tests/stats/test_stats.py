"""Statistics that add up."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roboreel.stats import (
    QUANTILES,
    Accumulator,
    FeatureStats,
    ImageAccumulator,
    QuantileSketch,
    image_stats,
    merge_stats,
    stats_of,
)
from roboreel.stats.sketch import values_at
from tests.factory import SHARED

RECORDED = SHARED / "lerobot_v30_numeric"
FINITE = st.floats(-1e6, 1e6, allow_nan=False)


def gather(*batches, shape=None, capacity=None) -> Accumulator:
    accumulator = Accumulator(batches[0].shape[1:] if shape is None else shape, capacity=capacity)
    for batch in batches:
        accumulator.update(batch)
    return accumulator


def plain_stats(values: np.ndarray) -> FeatureStats:
    values = values.astype(np.float64)
    return FeatureStats(
        min=values.min(axis=0),
        max=values.max(axis=0),
        mean=values.mean(axis=0),
        std=values.std(axis=0),
        count=np.full(values.shape[1:], len(values)),
        quantiles={n: np.quantile(values, q, axis=0) for n, q in QUANTILES.items()},
    )


def assert_moments_close(found: FeatureStats, wanted: FeatureStats) -> None:
    assert np.array_equal(found.count, wanted.count)
    assert np.array_equal(found.nan_count, wanted.nan_count)
    assert np.array_equal(found.min, wanted.min, equal_nan=True)
    assert np.array_equal(found.max, wanted.max, equal_nan=True)
    # Relative to the size of the values: a small deviation around a large mean has lost digits.
    scale = np.nan_to_num(np.maximum(abs(wanted.min), abs(wanted.max)))
    least = np.finfo(np.float64).tiny  # Numbers below have fewer digits than others.
    assert (abs(np.nan_to_num(found.mean - wanted.mean)) <= 1e-12 * scale + least).all()
    assert (abs(np.nan_to_num(found.std**2 - wanted.std**2)) <= 1e-12 * scale**2 + least).all()


def assert_close(found: FeatureStats, wanted: FeatureStats) -> None:
    assert_moments_close(found, wanted)
    for name, values in wanted.quantiles.items():
        np.testing.assert_allclose(found.quantiles[name], values, rtol=1e-12, atol=1e-9)


def rank_error(sketch: QuantileSketch, num_values: int) -> int:
    """Return the largest possible error of a quantile's rank after that many values."""
    bound, weight = 0, 1
    while num_values > sketch.capacity * weight:
        bound += num_values // (sketch.capacity * weight) * weight
        weight *= 2
    return bound


def rank_errors(values: np.ndarray, stats: FeatureStats) -> np.ndarray:
    """How far each quantile's rank is from the wanted one, ``(F, D)``."""
    errors = []
    for name, fraction in QUANTILES.items():
        wanted = fraction * (len(values) - 1)
        first = (values < stats.quantiles[name]).sum(axis=0)
        last = (values <= stats.quantiles[name]).sum(axis=0)
        errors.append(np.maximum(np.maximum(first - wanted, wanted - last), 0))
    return np.array(errors)


@settings(deadline=None)
@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=1, max_dims=3), elements=FINITE))
def test_a_few_values_give_what_numpy_gives(values):
    assert_close(gather(values).finish(), plain_stats(values))


@settings(deadline=None)
@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 60), st.integers(1, 3)),
        elements=st.floats(-99, 99, width=32),
    ),
    st.lists(st.integers(0, 60), max_size=4),
)
def test_batches_and_merges_give_what_all_values_give_at_once(values, cuts):
    batches = np.split(values, sorted(min(cut, len(values)) for cut in cuts))
    wanted = plain_stats(values)
    assert_close(gather(*batches).finish(), wanted)
    merged = Accumulator(values.shape[1:])
    for batch in batches:
        merged.merge(gather(batch))
    assert_close(merged.finish(), wanted)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int16, np.int64, np.float16, np.float32])
def test_every_numeric_type_is_counted_in_float64(dtype):
    values = (np.arange(300).reshape(100, 3) % 120).astype(dtype)
    assert_close(gather(values).finish(), plain_stats(values))


def test_a_feature_of_shape_one_may_come_as_scalars():
    values = np.arange(10.0)
    assert gather(values, shape=(1,)).finish() == gather(values[:, None]).finish()
    assert gather(values).finish().mean.shape == ()


def test_a_large_mean_does_not_swallow_a_small_deviation():
    noise = np.random.default_rng(0).normal(size=(20_000, 1))
    stats = gather(*np.split(noise + 1e8, 40)).finish()
    assert stats.std[0] == pytest.approx(noise.std(), rel=1e-6)


def test_nan_and_infinity_are_counted_and_left_out():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(500, 3))
    values[rng.random(values.shape) < 0.3] = np.nan
    values[::7, 1] = np.inf
    values[::11, 1] = -np.inf
    stats = gather(*np.array_split(values, 7)).finish()
    for element in range(3):
        column = values[:, element]
        wanted = plain_stats(column[np.isfinite(column)])
        assert stats.count[element] == wanted.count
        assert stats.nan_count[element] == 500 - wanted.count
        assert stats.min[element] == wanted.min
        assert stats.max[element] == wanted.max
        assert stats.mean[element] == pytest.approx(wanted.mean)
        assert stats.std[element] == pytest.approx(wanted.std)
        for name in QUANTILES:
            assert stats.quantiles[name][element] == pytest.approx(wanted.quantiles[name])


def test_quantiles_stay_finite_when_a_compacted_sketch_holds_gaps():
    values = np.random.default_rng(2).random((50_000, 1))
    values[::2] = np.nan
    accumulator = gather(values, capacity=64)
    stats = accumulator.finish()
    bound = rank_error(accumulator.sketch, len(values))
    assert (rank_errors(values[1::2], stats) <= bound).all()
    assert stats.quantiles["q99"][0] <= stats.max[0] < 1.0


@pytest.mark.parametrize("values", [np.empty((0, 2)), np.full((5, 2), np.nan)])
def test_an_element_without_finite_values_is_nan_everywhere(values):
    stats = gather(values).finish()
    assert stats.count.tolist() == [0, 0]
    assert stats.nan_count.tolist() == [len(values)] * 2
    for array in (stats.min, stats.max, stats.mean, stats.std, *stats.quantiles.values()):
        assert np.isnan(array).all()


def test_what_has_nothing_to_say_changes_nothing_when_merged():
    full = gather(np.arange(8.0).reshape(4, 2))
    wanted = full.finish()
    full.merge(Accumulator((2,)))
    assert full.finish() == wanted
    assert merge_stats([Accumulator((2,)).finish(), wanted]) == wanted


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 6000),
    capacity=st.sampled_from([2, 8, 64]),
    shape=st.sampled_from(["sorted", "reversed", "random", "coarse", "zigzag"]),
    parts=st.integers(1, 5),
)
def test_ranks_stay_within_the_stated_bound_whatever_the_order(seed, count, capacity, shape, parts):
    values = np.random.default_rng(seed).normal(size=(count, 2))
    values = {
        "sorted": lambda: np.sort(values, axis=0),
        "reversed": lambda: -np.sort(values, axis=0),
        "random": lambda: values,
        "coarse": lambda: np.round(values),
        "zigzag": lambda: np.sort(values, axis=0) * (-1.0) ** np.arange(count)[:, None],
    }[shape]()
    whole = gather(values, capacity=capacity)
    bound = rank_error(whole.sketch, count)
    assert (rank_errors(values, whole.finish()) <= bound + 1).all()
    pieces = [gather(piece, capacity=capacity) for piece in np.array_split(values, parts)]
    for order in (pieces, pieces[::-1]):
        merged = Accumulator((2,), capacity=capacity)
        for piece in order:
            merged.merge(piece)
        assert (rank_errors(values, merged.finish()) <= bound + 1).all()


def test_the_default_sketch_is_within_a_thousandth_of_the_rank_for_300_000_values():
    values = np.random.default_rng(3).standard_cauchy((300_000, 4)).astype(np.float32)
    accumulator = gather(*np.array_split(values, 13))
    assert rank_error(accumulator.sketch, len(values)) / len(values) < 0.0017
    assert rank_errors(values, accumulator.finish()).max() / len(values) < 0.001


def test_many_equal_episodes_do_not_shift_the_quantiles_one_way():
    merged = Accumulator((1,), capacity=64)
    rng = np.random.default_rng(4)
    batches = [np.sort(rng.random((100, 1)), axis=0) for _ in range(400)]
    for batch in batches:
        merged.merge(gather(batch, capacity=64))
    errors = rank_errors(np.concatenate(batches), merged.finish())
    assert errors.max() < rank_error(merged.sketch, 40_000) / 3


def test_a_sketch_holds_one_level_more_when_the_values_double():
    sketch = QuantileSketch(3, 64)
    values = np.random.default_rng(5).random((3, 64 * 1024 + 1))
    sketch.insert(values)
    assert len(sketch._levels) == 11
    held = sum(filled << level for level, filled in enumerate(sketch._filled))
    assert held == values.shape[1]


def test_a_sketch_is_exact_up_to_its_capacity():
    values = np.random.default_rng(6).random((64, 2))
    assert rank_error(QuantileSketch(2, 64), 64) == 0
    assert_close(gather(values, capacity=64).finish(), plain_stats(values))


def test_the_same_values_give_the_same_statistics():
    values = np.random.default_rng(7).random((10_000, 2))
    assert gather(values, capacity=32).finish() == gather(values, capacity=32).finish()


def test_a_wide_feature_gets_a_smaller_sketch():
    assert Accumulator((28,)).sketch.capacity == 4096
    assert Accumulator((64, 64)).sketch.capacity == 512
    assert Accumulator((480, 640)).sketch.capacity == 64


@settings(deadline=None)
@given(
    st.lists(
        hnp.arrays(np.float64, st.tuples(st.integers(1, 20), st.just(2)), elements=FINITE),
        min_size=1,
        max_size=5,
    )
)
@example([np.full((1, 2), 5e-324), np.zeros((1, 2))])
def test_summaries_merge_to_the_mean_and_deviation_of_all_values(batches):
    merged = merge_stats([gather(batch).finish() for batch in batches])
    assert_moments_close(merged, plain_stats(np.concatenate(batches)))


def test_quantiles_of_summaries_are_weighted_by_count():
    parts = [gather(np.full((count, 1), value)).finish() for count, value in ((1, 0.0), (3, 4.0))]
    assert merge_stats(parts).quantiles["q50"].tolist() == [3.0]


def test_quantiles_that_not_all_parts_have_are_left_out():
    full = gather(np.ones((3, 1))).finish()
    bare = FeatureStats(full.min, full.max, full.mean, full.std, full.count, {})
    assert merge_stats([full, bare]).quantiles == {}


def test_summaries_of_no_parts_or_other_shapes_do_not_merge():
    with pytest.raises(ValueError, match="no statistics to merge"):
        merge_stats([])
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        merge_stats([Accumulator((2,)).finish(), Accumulator((3,)).finish()])


def test_a_single_count_serves_all_elements():
    zero, one = np.zeros(2), np.ones(2)
    stats = FeatureStats(zero, one, zero, one, np.array([7]), {"q50": zero})
    assert stats.count.tolist() == [7, 7]
    assert stats.nan_count.tolist() == [0, 0]


def test_statistics_compare_by_value():
    one = gather(np.arange(6.0).reshape(3, 2))
    same, other = gather(np.arange(6.0).reshape(3, 2)), gather(np.ones((3, 2)))
    assert one.finish() == same.finish()
    assert one.finish() != other.finish()


@pytest.mark.parametrize("values", [np.zeros((3, 4)), np.zeros(3), np.float64(1.0)])
def test_values_of_another_shape_are_refused(values):
    with pytest.raises(ValueError, match="must have shape"):
        Accumulator((2,)).update(values)


@pytest.mark.parametrize("values", [np.array(["1", "2"]), np.array([1j]), np.array([None])])
def test_what_is_not_a_number_is_refused(values):
    with pytest.raises(TypeError, match="need numbers"):
        Accumulator(()).update(values)


def test_sketches_of_other_shapes_do_not_merge():
    with pytest.raises(ValueError, match="capacity 8"):
        QuantileSketch(2, 4).merge(QuantileSketch(2, 8))
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        Accumulator((2,)).merge(Accumulator((3,)))
    with pytest.raises(ValueError, match="even"):
        QuantileSketch(2, 5)


@settings(deadline=None)
@given(
    hnp.arrays(
        np.uint8, st.tuples(st.integers(1, 3), st.just(3), st.integers(1, 4), st.integers(1, 4))
    )
)
def test_image_statistics_are_those_of_the_pixels_per_channel(images):
    stats = image_stats(images)
    pixels = images.transpose(0, 2, 3, 1).reshape(-1, 3) / 255.0
    wanted = plain_stats(pixels)
    assert stats.shape == (3, 1, 1)
    assert stats.count.ravel().tolist() == [len(images)] * 3
    for name in ("min", "max", "mean", "std"):
        np.testing.assert_allclose(getattr(stats, name).ravel(), getattr(wanted, name), atol=1e-12)
    for name in QUANTILES:
        np.testing.assert_allclose(
            stats.quantiles[name].ravel(), wanted.quantiles[name], atol=1e-12
        )


def test_bright_images_do_not_overflow():
    images = np.full((4, 3, 48, 64), 250, np.uint8)
    images[:, :, ::2] = 200
    stats = image_stats(images)
    assert stats.mean.ravel() == pytest.approx([225 / 255] * 3)
    assert stats.std.ravel() == pytest.approx([25 / 255] * 3)


def test_images_merge_exactly():
    images = np.random.default_rng(8).integers(0, 256, (6, 1, 9, 7), dtype=np.uint8)
    merged = ImageAccumulator(1)
    for part in (images[:2], images[2:]):
        accumulator = ImageAccumulator(1)
        accumulator.update(part)
        merged.merge(accumulator)
    assert merged.finish() == image_stats(images)


def test_no_images_give_nan():
    stats = ImageAccumulator().finish()
    assert np.isnan(stats.mean).all()
    assert stats.count.ravel().tolist() == [0, 0, 0]


def test_images_of_another_type_or_shape_are_refused():
    with pytest.raises(TypeError, match="uint8"):
        image_stats(np.zeros((1, 3, 4, 4), np.float32))
    with pytest.raises(ValueError, match=r"\(N, 3, H, W\)"):
        image_stats(np.zeros((3, 4, 4), np.uint8))
    with pytest.raises(ValueError, match="1 channels"):
        ImageAccumulator(3).merge(ImageAccumulator(1))


@pytest.mark.skipif(not RECORDED.exists(), reason="needs the datasets of ../shared")
@pytest.mark.parametrize("name", ["observation.state", "action", "next.done", "frame_index"])
def test_what_lerobot_recorded_has_the_statistics_that_lerobot_wrote(name):
    written = json.loads((RECORDED / "meta" / "stats.json").read_text())[name]
    accumulator = Accumulator(np.shape(written["mean"]))
    for path in sorted(RECORDED.glob("data/*/*.parquet")):
        accumulator.update(np.array(pq.read_table(path, columns=[name])[name].to_pylist()))
    stats = accumulator.finish()
    assert stats.count.max() == written["count"][0]
    for key in ("min", "max", "mean", "std"):
        # LeRobot adds up in float32. Its quantiles are averages of the episodes', and differ.
        np.testing.assert_allclose(getattr(stats, key), written[key], rtol=1e-5, atol=1e-6)


@given(st.data())
def test_features_counted_together_have_the_statistics_of_each_alone(data):
    count = data.draw(st.integers(1, 12))
    shapes = data.draw(
        st.lists(st.sampled_from([(1,), (3,), (2, 2), (600,)]), min_size=1, max_size=4)
    )
    numbers = st.floats(-1e6, 1e6) | st.just(np.nan)
    values = {
        str(place): data.draw(
            hnp.arrays(np.float64, (count, *shape), elements=numbers, fill=st.just(1.0))
        )
        for place, shape in enumerate(shapes)
    }
    for name, found in stats_of(values).items():
        alone = Accumulator(values[name].shape[1:])
        alone.update(values[name])
        assert found == alone.finish()


@given(
    hnp.arrays(np.float64, (3, 40), elements=st.floats(-1e9, 1e9) | st.just(np.inf)),
    st.integers(1, 40),
)
def test_quantiles_of_few_values_are_those_of_any_number(values, filled):
    sketch = QuantileSketch(3, 64)
    sketch.insert(values[:, :filled])
    finite = np.isfinite(values[:, :filled])
    count = finite.sum(axis=1)
    ceiling = np.max(values[:, :filled], axis=1, where=finite, initial=-np.inf)
    found = sketch.quantiles([0.0, 0.3, 1.0], count=count, ceiling=ceiling)
    for element in range(3):
        held = np.minimum(np.sort(values[element, :filled]), ceiling[element])
        ones = np.ones(filled, np.int64)
        expected = values_at([0.0, 0.3, 1.0], held, ones, int(count[element]))
        np.testing.assert_array_equal(found[:, element], expected)
