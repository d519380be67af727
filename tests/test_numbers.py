"""Numbers and keys that a caller gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboreel.errors import EpisodeNotFoundError, RowNotFoundError
from roboreel.numbers import inside, one_number, positions, whole_numbers


@pytest.mark.parametrize(
    "values", [[0, 2], (0, 2), range(0, 4, 2), {0: 1, 2: 3}, iter([0, 2]), np.array([0, 2], "u1")]
)
def test_numbers_come_in_any_sequence(values):
    numbers = whole_numbers(values, "sample")
    assert numbers.dtype == np.int64
    assert numbers.tolist() == [0, 2]


def test_no_numbers_are_no_mistake():
    assert whole_numbers([], "sample").shape == (0,)
    assert positions([], 0, "sample").tolist() == []  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (3, r"Samples are a sequence of numbers, such as \[0, 1\]: not 3\."),
        (np.int64(3), r"a sequence of numbers.*3"),
        (np.array(3), r"a flat sequence of numbers: the shape \(\) was given"),
        (None, r"a sequence of numbers.*None"),
        ("01", r"a sequence of numbers.*'01'"),
        ([0.7], r"Samples are whole numbers: float64 values were given\."),
        (["0"], r"Samples are whole numbers: <U1"),
        ([True, False], r"bool values were given\. For a mask, write np\.flatnonzero\(mask\)\."),
        ([[0, 1], [2, 3]], r"a flat sequence of numbers: the shape \(2, 2\) was given"),
        ([[0], [1, 2]], r"a flat sequence of numbers\."),
    ],
)
def test_what_is_no_sequence_of_numbers_is_refused(values, says):
    with pytest.raises(TypeError, match=says):
        whole_numbers(values, "sample")


def test_numbers_beyond_64_bits_are_outside_of_everything():
    for values in ([2**70], [-(2**70)], np.array([2**64 - 1], np.uint64)):
        with pytest.raises(RowNotFoundError):
            inside(whole_numbers(values, "sample"), 10**9, "sample")
    with pytest.raises(RowNotFoundError, match=f"Sample {2**70} does not exist"):
        positions(2**70, 5, "sample")


@pytest.mark.parametrize("value", [3, np.int32(3), np.array(3), np.uint64(3)])
def test_one_number_is_an_int(value):
    assert one_number(value, "sample") == 3
    assert type(one_number(value, "sample")) is int


@pytest.mark.parametrize("value", [3.0, True, np.True_, "3", None, np.array([3]), [3]])
def test_what_is_not_one_whole_number_is_refused(value):
    with pytest.raises(TypeError, match="is not a whole number"):
        one_number(value, "episode")


KEYS = (
    st.integers(-8, 8)
    | st.slices(7)
    | st.lists(st.integers(-8, 8), max_size=5)
    | st.lists(st.integers(-8, 8), max_size=5).map(lambda listed: np.array(listed, np.int64))
)


@given(KEYS, st.integers(0, 7))
def test_a_key_picks_what_it_picks_of_an_array(key, count):
    things = np.arange(count)
    try:
        expected = things[key]
    except IndexError:
        with pytest.raises(RowNotFoundError, match=r"does not exist: there (are|is only)"):
            positions(key, count, "sample")
        return
    found = positions(key, count, "sample")
    assert isinstance(found, int) == isinstance(key, int)
    assert np.array_equal(found, expected)


def test_a_tensor_is_a_key_by_its_shape():
    torch = pytest.importorskip("torch")
    assert positions(torch.tensor(2), 5, "sample") == 2
    assert positions(torch.tensor([2]), 5, "sample").tolist() == [2]  # type: ignore[union-attr]


def test_an_error_says_what_is_missing_and_from_what():
    with pytest.raises(
        RowNotFoundError, match=r"^Row -4 does not exist: there are 3 rows, 0 to 2\.$"
    ):
        positions([0, -4], 3, "row")
    with pytest.raises(RowNotFoundError, match=r"^Row 1 does not exist: there is only row 0\.$"):
        positions(1, 1, "row")
    with pytest.raises(RowNotFoundError, match=r"^Row 0 does not exist: there are no rows\.$"):
        positions(0, 0, "row")
    with pytest.raises(EpisodeNotFoundError, match=r"Episode 3 .* 0 to 2, in '/data/arm'\.$"):
        positions(3, 3, "episode", where=", in '/data/arm'", error=EpisodeNotFoundError)
