"""Splits by whole episodes: shares, groups, strata and what stays when a dataset changes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roboreel as reel
from roboreel.errors import QueryError
from roboreel.order.portions import (
    balanced_portions,
    check_shares,
    hashed_portions,
    key_text,
    numbered_keys,
)
from tests.dataset.test_query import write
from tests.factory import write_dataset

SHARES = {"train": 0.7, "val": 0.3}
KEYS = st.lists(st.text(max_size=3), max_size=30)
PARTS = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(
    lambda weights: np.asarray(weights) / sum(weights)
)


@given(KEYS, KEYS, PARTS, st.integers())
def test_a_part_depends_on_nothing_but_the_key(keys, others, shares, seed):
    alone = hashed_portions(keys, shares, seed)
    among = hashed_portions([*others, *keys], shares, seed)
    assert np.array_equal(alone, among[len(others) :])
    assert ((alone >= 0) & (alone < len(shares))).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_shares_hold_on_average(seed):
    parts = hashed_portions([str(n) for n in range(10_000)], np.array([0.5, 0.3, 0.2]), seed)
    assert np.abs(np.bincount(parts) / 10_000 - [0.5, 0.3, 0.2]).max() < 0.02


@given(st.lists(st.sampled_from("xyz"), max_size=60), PARTS, st.integers())
def test_with_strata_no_part_has_one_more_than_its_share(strata, shares, seed):
    keys = [str(n) for n in range(len(strata))]
    parts = balanced_portions(keys, strata, shares, seed)
    for stratum in set(strata):
        mine = [
            part for part, other in zip(parts.tolist(), strata, strict=True) if other == stratum
        ]
        for stop in range(1, len(mine) + 1):
            counts = np.bincount(mine[:stop], minlength=len(shares))
            assert (counts < shares * stop + 1 + 1e-9).all()


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("xy")), max_size=40), PARTS)
def test_with_strata_what_is_appended_moves_nothing_and_groups_stay_together(pairs, shares):
    keys, strata = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    parts = balanced_portions(keys, strata, shares, 0)
    half = len(pairs) // 2
    assert np.array_equal(balanced_portions(keys[:half], strata[:half], shares, 0), parts[:half])
    assert all(len({p for k, p in zip(keys, parts, strict=True) if k == key}) == 1 for key in keys)


def test_the_parts_are_the_same_on_every_machine_and_after_every_upgrade():
    keys = [str(n) for n in range(20)]
    shares = np.array([0.8, 0.2])
    hashed = hashed_portions(keys, shares, 0)
    balanced = balanced_portions(keys, ["x"] * 20, shares, 0)
    assert "".join(map(str, hashed)) == HASHED
    assert "".join(map(str, balanced)) == BALANCED


HASHED = "00010000000100000001"
BALANCED = "00010000100100001000"


def test_equal_values_have_equal_texts():
    assert key_text(2) == key_text(2.0) != key_text("2")
    assert key_text(float("nan")) == key_text(None)
    assert key_text([1, {"b": 1, "a": 2}]) == key_text((1.0, {"a": 2, "b": 1}))
    assert len(set(numbered_keys(["a", "0 a", "a", "a"]))) == 4


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({}, "are no shares"),
        ({"train": 0.9}, "add up to 0.9, not to 1"),
        ({"train": 0.9, "val": 0.2}, "add up to 1.1"),
        ({"train": 1.5, "val": -0.5}, "are no shares"),
        ({"train": float("nan"), "val": 1}, "are no shares"),
        ({"train": "most"}, "'most'} are no shares"),
        ([0.9, 0.1], r"\[0.9, 0.1\] are no shares"),
    ],
)
def test_shares_that_are_none_are_refused(shares, said):
    with pytest.raises(ValueError, match=said):
        check_shares(shares)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("split")
    lengths = [1 + n % 7 for n in range(60)]
    metadata = {"scene": [f"scene {n // 4}" for n in range(60)], "id": list(range(60))}
    write(root, lengths, metadata)
    return reel.open_dataset(root)


def numbers(parts):
    return {name: view.episodes.numbers.tolist() for name, view in parts.items()}


class TestDatasets:
    def test_every_episode_is_in_one_part(self, dataset):
        parts = numbers(dataset.split({"train": 0.6, "val": 0.3, "test": 0.1}))
        assert sorted(n for part in parts.values() for n in part) == list(range(60))
        assert list(parts) == ["train", "val", "test"]
        assert parts != numbers(dataset.split({"train": 0.6, "val": 0.3, "test": 0.1}, seed=1))

    def test_a_group_is_in_one_part(self, dataset):
        parts = numbers(dataset.split(SHARES, by="scene"))
        assert {n // 4 for n in parts["train"]}.isdisjoint({n // 4 for n in parts["val"]})
        assert parts["val"]

    def test_strata_have_their_shares(self, dataset):
        parts = numbers(dataset.split({"train": 0.8, "val": 0.2}, stratify="task"))
        assert Counter(n % 2 for n in parts["val"]) == {0: 6, 1: 6}

    def test_strata_may_have_groups(self, dataset):
        parts = numbers(dataset.split(SHARES, by=["scene"], stratify=["task"]))
        assert {n // 4 for n in parts["train"]}.isdisjoint({n // 4 for n in parts["val"]})
        assert 10 <= len(parts["val"]) <= 26

    def test_the_split_of_a_view_is_the_view_of_the_split(self, dataset):
        whole = numbers(dataset.split(SHARES))
        view = numbers(dataset.where("length > 3").split(SHARES))
        long = {n for n in range(60) if 1 + n % 7 > 3}
        assert view == {name: [n for n in part if n in long] for name, part in whole.items()}

    def test_removing_the_first_episode_moves_few_and_by_an_id_none(self, dataset, tmp_path):
        kept = list(range(1, 60))
        lengths = [1 + n % 7 for n in kept]
        # The removed one was of an odd kind, so that no other has its task and length.
        write_dataset(tmp_path / "whole", [99, *lengths])
        write_dataset(tmp_path / "rest", [98, *lengths])
        whole = numbers(reel.open_dataset(tmp_path / "whole").split(SHARES))
        rest = numbers(reel.open_dataset(tmp_path / "rest").split(SHARES))
        assert [n for n in whole["val"] if n] == [n for n in rest["val"] if n]
        write(tmp_path / "ids", lengths, {"id": kept})
        before = numbers(dataset.split(SHARES, by="id"))["val"]
        after = numbers(reel.open_dataset(tmp_path / "ids").split(SHARES, by="id"))["val"]
        assert [n for n in before if n] == [n + 1 for n in after]

    @pytest.mark.parametrize("how", [{}, {"by": "scene"}, {"by": "scene", "stratify": "task"}])
    def test_episodes_that_are_appended_move_no_other(self, dataset, tmp_path, how):
        lengths = [1 + n % 7 for n in range(90)]
        write(tmp_path, lengths, {"scene": [f"scene {n // 4}" for n in range(90)]})
        before = numbers(dataset.split(SHARES, **how))
        after = numbers(reel.open_dataset(tmp_path).split(SHARES, **how))
        assert {name: [n for n in part if n < 60] for name, part in after.items()} == before
        assert sum(map(len, after.values())) == 90

    def test_a_column_must_exist(self, dataset):
        with pytest.raises(QueryError, match=r"no column 'seen': there are .*scene"):
            dataset.split(SHARES, by="seen")
