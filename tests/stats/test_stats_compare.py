"""Stored statistics compared with those of the values."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roboreel.stats import Accumulator, FeatureStats
from roboreel.stats.compare import compare_stats, quantile_problems

VALUES = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=3, max_dims=3, max_side=5),
    elements=st.floats(-1e3, 1e3, width=32),
)


def stats_of(values: np.ndarray) -> FeatureStats:
    accumulator = Accumulator(values.shape[1:])
    accumulator.update(values)
    return accumulator.finish()


def computed() -> FeatureStats:
    return stats_of(np.arange(20.0).reshape(10, 2))


def test_a_feature_without_statistics_is_a_problem():
    assert compare_stats("x", None, computed()) == ["'x' has no statistics."]


@given(VALUES)
def test_statistics_agree_with_themselves_also_as_float32(values):
    right = stats_of(values)
    rounded = replace(
        right, **{key: getattr(right, key).astype(np.float32) for key in ("mean", "std")}
    )
    assert compare_stats("x", right, right) == []
    assert compare_stats("x", rounded, right) == []


@pytest.mark.parametrize("key", ["min", "max", "mean", "std"])
def test_a_wrong_number_is_named_with_its_element(key):
    right = computed()
    found = getattr(right, key) + np.array([0, 3])
    wrong = replace(right, **{key: found}, quantiles={})
    (problem,) = compare_stats("x", wrong, right)
    assert problem == (
        f"'x': {key} is {found[1]:.6g} in the metadata and {found[1] - 3:.6g} in the values, "
        "at element 1 (1 of 2 differ)."
    )


def test_a_quantile_outside_of_the_range_is_a_problem():
    outside = replace(computed(), quantiles={"q99": computed().max + 5})
    assert quantile_problems("x", outside) == ["'x': the maximum is less than q99."]
    assert quantile_problems("x", replace(computed(), quantiles={"q01": computed().min - 5})) == [
        "'x': q01 is less than the minimum."
    ]


def test_quantiles_out_of_order_are_a_problem():
    right = computed()
    swapped = {"q10": right.quantiles["q90"], "q90": right.quantiles["q10"]}
    assert quantile_problems("x", right) == []
    assert quantile_problems("x", replace(right, quantiles={**right.quantiles, **swapped})) == [
        "'x': q50 is less than q10."
    ]


def test_statistics_of_another_shape_are_a_problem():
    other = stats_of(np.zeros((10, 3)))
    assert compare_stats("x", other, computed()) == [
        "'x' has statistics of shape (3,), but values (2,)."
    ]


@given(VALUES)
def test_statistics_over_the_last_axis_alone_are_compared_likewise(values):
    pooled = stats_of(values.reshape(-1, values.shape[-1]))
    assert compare_stats("x", pooled, stats_of(values)) == []
    if values.shape[1] > 1:  # otherwise both shapes hold the same elements
        wrong = replace(pooled, mean=pooled.mean + 10 * (np.abs(values).max() + 1), quantiles={})
        assert "mean is" in compare_stats("x", wrong, stats_of(values))[0]


def test_an_element_that_never_had_a_value_agrees_with_itself():
    empty = stats_of(np.full((4, 2), np.nan))
    assert compare_stats("x", empty, empty) == []
